"""Composite orders in a real market: a random flow, latencies, and the invariants after every event."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from algo_engine import Context, OrderEvent, Side, Strategy, ViewChange
from algo_engine.execution import (
    Bracket,
    Composite,
    CompositeOrders,
    CompositeState,
    Entry,
    ParticipationOrder,
    Peg,
    PeggedOrder,
    ScheduledOrder,
    TrailingStop,
)
from deltabook.backtest import Backtest, BacktestConfig
from deltabook.wire.symbols import Instrument
from exchange_server.replay import Record


def flow(seed: int, count: int = 1_500) -> list[Record]:
    """Orders around a drifting price, one each 10 ms: they trade with each other, and with the strategy's."""
    rng, mid, records = Random(seed), 1_000, []
    for n in range(1, count + 1):
        mid += rng.choice([-1, 0, 0, 1])
        side = rng.choice("BS")
        price = mid + (rng.randint(-6, 2) if side == "B" else rng.randint(-2, 6))
        records.append(Record(n, 10**9 + n * 10_000_000, n, 7, side, rng.randint(1, 20), price, "ACME"))
    return records


class Composites(Strategy[Any]):
    """Every kind of composite order, one after another."""

    views = ("trades_1s",)

    def on_start(self, context: Context) -> None:
        self.orders = CompositeOrders(context)
        self.ended: list[Composite] = []
        self._add = [self._bracket, self._trail, self._peg, self._twap, self._pov, self._exit_trail]
        self._next()

    def _next(self) -> None:
        quote = self.context.quote("ACME")
        if self._add and quote is not None and quote.is_two_sided:
            composite = self._add.pop(0)()
            composite.on_done = self._done
            self.orders.add(composite)

    def _done(self, composite: Composite) -> None:
        self.ended.append(composite)
        self._next()

    def _bid(self) -> int:
        quote = self.context.quote("ACME")
        assert quote is not None
        assert quote.bid_price_ticks is not None
        return quote.bid_price_ticks

    def _bracket(self) -> Composite:
        bid = self._bid()
        return Bracket(self.context, Side.BUY, "ACME", Entry(9, bid + 3), bid + 5, bid - 5)

    def _trail(self) -> Composite:
        return TrailingStop(self.context, Side.SELL, "ACME", 3, 4, step_ticks=2)

    def _peg(self) -> Composite:
        return PeggedOrder(self.context, Side.BUY, "ACME", 5, Peg.PRIMARY)

    def _twap(self) -> Composite:
        return ScheduledOrder(self.context, Side.BUY, "ACME", 12, 2_000, 250)

    def _pov(self) -> Composite:
        return ParticipationOrder(self.context, Side.SELL, "ACME", 8, 1_000, 2_000)

    def _exit_trail(self) -> Composite:
        return TrailingStop(self.context, Side.SELL, "ACME", 2, 2)

    def on_order_event(self, event: OrderEvent) -> None:
        self.orders.on_order_event(event)
        self._check()

    def on_view_change(self, change: ViewChange) -> None:
        self.orders.on_view_change(change)
        if not self.ended and not self.orders.working:
            self._next()
        self._check()

    def on_timer(self, name: str) -> None:
        assert self.orders.on_timer(name)
        self._check()

    def _check(self) -> None:
        for composite in (*self.orders.working, *self.ended):
            composite._check()
        assert len(self.context.open_orders()) <= 2, "a bracket has two parts, everything else one"


@pytest.mark.parametrize("latency", ["zero", "fixed:feed=3ms,order=15ms,answer=7ms"])
def test_composite_orders_hold_in_a_market(latency: str) -> None:
    """Several flows; the lots that composite orders count are those of the result's own executions."""
    kinds: set[tuple[str, CompositeState]] = set()
    for seed in range(3):
        config = BacktestConfig(("Composites",), latency=latency)
        run = Backtest(
            config, records=flow(seed), classes={"Composites": Composites}, instruments=(Instrument("ACME"),)
        )
        result = run.run()
        strategy: Any = run.loaded[0].strategy
        assert not result.failure
        assert not result.strategies[0].failure
        counted = 0
        for composite in (*strategy.ended, *strategy.orders.working):
            counted += composite.filled_lots
            counted += composite.exit.filled_lots if isinstance(composite, Bracket) else 0
            kinds.add((type(composite).__name__, composite.state))
        assert counted == sum(fill.volume_lots for fill in result.fills)
    assert {name for name, state in kinds if state is CompositeState.FILLED} >= {
        "Bracket", "TrailingStop", "ScheduledOrder", "PeggedOrder"
    }  # fmt: skip
