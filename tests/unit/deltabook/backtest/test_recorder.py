"""What is counted of orders, which samples stay, and what the end is marked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from algo_engine import Context, Strategy, ViewChange
from algo_engine.desk.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.risk import RiskLimits
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import NoParameters
from algo_engine.views.quotes import Quotes
from deltabook.backtest import Backtest, BacktestConfig
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.recorder import Recorder
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import OrderOptions
from exchange_server.replay import Record
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


@pytest.mark.parametrize("seconds", [0.0001, 1.0, 600.0])
def test_samples_are_spread_evenly(seconds: float) -> None:
    """Whether events are dense or sparse, each quarter of the time has about a quarter of the samples."""
    now_ns, count = 0, 3_000
    found = recorder(100, lambda: now_ns)
    found.begin(0)
    for number in range(count):
        now_ns = round(number * seconds * 10**9)
        if now_ns >= found.next_ns:
            found.sample()
    quarters = [0] * 4
    for sample in found.samples[:-1]:
        quarters[sample.time_ns * 4 // now_ns] += 1
    assert sum(quarters) >= 45
    assert max(quarters) - min(quarters) <= 6


def test_the_end_of_each_day_is_a_sample() -> None:
    """The state before the first change of a later day, at the last nanosecond; it is never thinned out."""
    day_ns = 86_400 * 10**9
    clock = SimulatedClock()
    found = recorder(10, lambda: clock.now_ns)
    found.begin(0)
    for clock.now_ns in range(day_ns // 48, 5 * day_ns, day_ns // 24):
        found.sample()
    assert {n * day_ns - 1 for n in range(1, 5)} <= {sample.time_ns for sample in found.samples}
    times = [sample.time_ns for sample in found.samples]
    assert times == sorted(set(times))


class InAndOut(Strategy[NoParameters]):
    """Buys at the first ask and sells at the bid, at every change."""

    def on_view_change(self, change: ViewChange) -> None:
        if not self.context.open_orders("ACME"):
            (self.context.sell if self.context.position_lots("ACME") else self.context.buy)("ACME", 1)


def test_the_profit_of_a_day_is_that_of_its_trades() -> None:
    """Two days of 24 hours: what the trades of a day realised is the day's, to the last of them."""
    day_ns, book = 86_400 * 10**9, []
    for number in range(2_000):
        book += [(day_ns // 1_000 * number + 1, "B", 5, 99), (day_ns // 1_000 * number + 2, "S", 5, 101)]
    records = [
        Record(place, time_ns, place, 7, action, lots, ticks, "ACME")
        for place, (time_ns, action, lots, ticks) in enumerate(book, 1)
    ]
    loaded = [LoadedStrategy("one", InAndOut(NoParameters()), RiskLimits(max_position_touches=9999))]
    config = BacktestConfig(("one",), points=50)
    result = Backtest(config, records=records, strategies=loaded, instruments=(Instrument("ACME"),)).run()
    holding, realised = Holding(), {0: 0, 1: 0}
    for fill in result.fills:
        before, holding = holding, holding.after(Side(fill.side), fill.volume_lots, fill.price_ticks)
        realised[fill.time_ns // day_ns] += holding.realised - before.realised
    unit = Instrument("ACME").notional(1)
    assert [row["realised"] / unit for row in result.daily.to_pylist()[:2]] == list(realised.values())
    assert realised[0] < 0


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
