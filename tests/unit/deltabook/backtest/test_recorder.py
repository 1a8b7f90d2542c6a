"""What is counted of orders, which samples stay, and what the end is marked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from algo_engine import Context, Strategy, ViewChange
from algo_engine.loader import LoadedStrategy
from algo_engine.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.quotes import Quotes
from algo_engine.risk import RiskLimits
from algo_engine.strategy import NoParameters
from deltabook.backtest import Backtest, BacktestConfig
from deltabook.backtest.recorder import Recorder
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import OrderOptions
from tests.generators.backtests import adds, backtest

BOOK = ((1, "B", 10, 99), (2, "S", 10, 101))


def recorder(points: int = 50, now_ns: Callable[[], int] = lambda: 0) -> Recorder:
    return Recorder(Quotes(), now_ns, ["ACME"], points, 100)


class Rests(Strategy[NoParameters]):
    """Asks for three orders at the start; two are too many."""

    def on_start(self, context: Context) -> None:
        for price in (90, 91, 92):
            context.buy("ACME", 1, price)


def test_open_orders_are_counted_by_strategy_without_refused() -> None:
    limits = RiskLimits(max_open_orders=2)
    loaded = [LoadedStrategy(name, Rests(NoParameters()), limits) for name in ("one", "other")]
    config = BacktestConfig(("one", "other"), warm_up_records=2)
    run = Backtest(config, records=adds(*BOOK), strategies=loaded, instruments=(Instrument("ACME"),))
    counted = [strategy.orders for strategy in run.run().strategies]
    assert [(orders.submitted, orders.refused, orders.most_open, orders.submitted_lots) for orders in counted] == [
        (3, 1, 2, 2)
    ] * 2


def test_reasons_that_differ_in_numbers_are_one() -> None:
    rejected = recorder()
    hear = rejected.listener("mine", 9001, lambda event: None)
    for number in range(1, 5):
        order = Order(number, "ACME", Side.BUY, 1, 100)
        hear(OrderEvent(EventKind.SUBMITTED, order))
        after = order.ended(OrderStatus.REJECTED, f"expected a minimum of 1 to {number} was -{number}")
        hear(OrderEvent(EventKind.REJECTED, after, reason=after.reason))
    assert rejected.statistics["mine"].reasons == {"expected a minimum of … to … was …": 4}


@pytest.mark.parametrize("points", [4, 49, 50])
def test_the_newest_sample_stays_whatever_is_thinned_out(points: int) -> None:
    now_ns = 0
    found = recorder(points, lambda: now_ns)
    for now_ns in range(1, 500):
        found.sample()
        assert (found.samples[0].time_ns, found.samples[-1].time_ns) == (1, now_ns)
        assert len(found.samples) <= points


class Alone(Strategy[NoParameters]):
    """Takes what is offered and then is the only one who bids."""

    taken = False

    def on_view_change(self, change: ViewChange) -> None:
        if not self.taken:
            self.taken = True
            self.context.buy("ACME", 10, 101, options=OrderOptions(immediate=True))
            self.context.buy("ACME", 5, 98)


@pytest.mark.parametrize("latency", ["zero", "fixed:feed=9ms", "fixed:feed=9ms,order=1ms,answer=1ms"])
def test_the_end_is_not_marked_at_an_own_order(latency: str) -> None:
    flow = adds(*BOOK, (3, "S", 1, 200), (30, "D", 0, 1))
    result = backtest(Alone, flow, latency=latency, warm_up_records=2).run()
    assert result.strategies[0].position_lots == {"ACME": 10}
    assert result.curve[-1].quotes == ((None, 200),)
    assert result.strategies[0].unrealised == 10 * (200 - 101)
