"""One strategy's connection to the market: the bytes of the text protocol both ways, with their latencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from deltabook.backtest.latency import Latency
from deltabook.wire import text
from exchange_server.matching import OpenAccount
from exchange_server.matching.account import Account
from exchange_server.text.protocol import PROTOCOL, account_name
from exchange_server.text.requests import input_of

if TYPE_CHECKING:
    from algo_engine.desk import Desk
    from deltabook.backtest.simulation import Simulation

__all__ = ["SESSION", "Session"]

SESSION: Final = "BACKTEST"


class Session:
    """Logs a desk in and carries its lines to the market and the market's lines back.

    The lines of one write are one batch, as at the exchange: they are executed one after another, and what they bring
    about is told together.
    """

    def __init__(self, desk: Desk, simulation: Simulation, order: Latency, answer: Latency) -> None:
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
            self._hear(data)
        else:
            clock.call_at(self._answer.arrival_ns(clock.now_ns), self._hear, data)

    def _hear(self, data: bytes) -> None:
        receive: Callable[[text.Response], None] = self._desk.receive
        for line in data.splitlines():
            receive(text.parse_response(line))
