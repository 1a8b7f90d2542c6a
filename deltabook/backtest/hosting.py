"""Hosts and engines of strategies on a simulated clock: the live ones, with nothing on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from algo_engine.clocks import Clock
from algo_engine.desk import Desk
from algo_engine.engine import Engine
from algo_engine.fees import FeeSchedule
from algo_engine.host import StrategyHost
from algo_engine.journal import MemoryJournal
from algo_engine.loader import LoadedStrategy
from algo_engine.mirror import ViewMirror
from algo_engine.order import OrderEvent
from algo_engine.quotes import Quotes
from algo_engine.risk import RiskGate
from algo_engine.trades import MemorySpool
from algo_engine.view_link import ViewLink
from deltabook.backtest.recorder import Recorder

__all__ = ["simulated_engine", "simulated_host"]


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
    """Return the engine of strategies that begin without orders and whose views are never late."""
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
