"""Host, engine and connection of a strategy on a simulated clock.

The host and the engine are those of live trading, but write no files. The connection carries the bytes of the text
protocol in both directions, with their latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from algo_engine.clocks import Clock
from algo_engine.desk.desk import Desk
from algo_engine.desk.fees import FeeSchedule
from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import OrderEvent
from algo_engine.desk.risk import RiskGate
from algo_engine.desk.trades import MemorySpool
from algo_engine.engine import Engine
from algo_engine.host import StrategyHost
from algo_engine.loader import LoadedStrategy
from algo_engine.requested import ViewLink
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import Quotes
from deltabook.backtest.latency import Latency
from deltabook.backtest.recorder import Recorder
from deltabook.wire import text
from exchange_server.matching import OpenAccount
from exchange_server.matching.order import Account
from exchange_server.text.protocol import PROTOCOL, account_name, input_of

if TYPE_CHECKING:
    from deltabook.backtest.simulation import BacktestLoop

__all__ = ["SimulatedSession", "simulated_engine", "simulated_host"]


def simulated_host(
    loaded: LoadedStrategy,
    broker_id: int,
    *,
    mirror: ViewMirror,
    quotes: Quotes,
    clock: Clock,
    now_ns: Callable[[], int],
    recorder: Recorder,
    fees: FeeSchedule,
    on_failure: Callable[[Exception], None],
) -> StrategyHost:
    """Return the host of a strategy whose orders and trades are kept in memory and recorded."""

    def make_desk(listener: Callable[[OrderEvent], None]) -> Desk:
        return Desk(
            broker_id=broker_id,
            journal=MemoryJournal(),
            spool=MemorySpool(),
            gate=RiskGate(loaded.limits, now_ns),
            quotes=quotes,
            clock=clock,
            listener=recorder.listener(loaded.name, broker_id, listener),
            on_failure=on_failure,
            fees=fees,
        )

    return StrategyHost(loaded=loaded, mirror=mirror, quotes=quotes, clock=clock, now_ns=now_ns, make_desk=make_desk)


def simulated_engine(
    hosts: Sequence[StrategyHost],
    *,
    mirror: ViewMirror,
    quotes: Quotes,
    clock: Clock,
    on_failure: Callable[[Exception], None],
    view_link: ViewLink,
) -> Engine:
    """Return the engine of strategies that start without orders and whose views are never stale."""
    return Engine(
        hosts=list(hosts),
        mirror=mirror,
        quotes=quotes,
        clock=clock,
        adopt=False,
        stale_s=1.0,
        on_failure=on_failure,
        on_synchronised=lambda: None,
        view_link=view_link,
    )


SESSION: Final = "BACKTEST"
"""Session of the private streams of a simulated market."""


class SimulatedSession:
    """Logs a desk in and carries its lines to the market and the market's lines back.

    As at the exchange, the lines of one write are one batch: the market executes the lines one after another, and
    publishes all their answers together.
    """

    def __init__(self, desk: Desk, simulation: BacktestLoop, order: Latency, answer: Latency) -> None:
        self._desk, self._simulation = desk, simulation
        self._order, self._answer = order, answer
        self._account: Account | None = None

    def open(self) -> None:
        """Log in; the market opens an account."""
        login = self._desk.login()
        assert login.broker_id is not None
        name = account_name(login.broker_id)
        market = self._simulation.market
        market.apply(OpenAccount(self._simulation.next_time_ns(), name, PROTOCOL, login.broker_id))
        account = self._account = market.account_named(name)
        assert account is not None
        self._simulation.join(account, self.deliver)
        self._desk.opened(text.Accepted(SESSION, account.next_message, account.last_ref), self._send)

    def _send(self, data: bytes) -> None:
        clock = self._simulation.clock
        if self._order.is_zero:
            clock.callLater(0, self._arrived, data)
        else:
            clock.call_at(self._order.arrival_ns(clock.now_ns), self._arrived, data)

    def _arrived(self, data: bytes) -> None:
        account = self._account
        assert account is not None
        requests = [text.parse_request(line) for line in data.splitlines()]
        time_ns = self._simulation.next_time_ns(len(requests))
        self._simulation.submit([input_of(request, account, time_ns + n) for n, request in enumerate(requests)])

    def deliver(self, data: bytes) -> None:
        """Deliver messages of the market to this account, after the latency of answers."""
        clock = self._simulation.clock
        if self._answer.is_zero:
            self._receive(data)
        else:
            clock.call_at(self._answer.arrival_ns(clock.now_ns), self._receive, data)

    def _receive(self, data: bytes) -> None:
        receive: Callable[[text.Response], None] = self._desk.receive
        for line in data.splitlines():
            receive(text.parse_response(line))
