"""Statistics against another library's figures, sums by hand, and slow programs that do the same."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algo_engine.desk.trades import Trade
from deltabook.backtest import ConfigurationError, Result
from deltabook.backtest.measuring import falls, money_digits
from deltabook.backtest.recorder import Sample
from deltabook.backtest.statistics import Statistics
from deltabook.wire.symbols import Instrument
from tests.generators.results import fill, result_of, sample

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
OTHER = Instrument("OTHER", "0.5", "0.001")

CHANGES = [
    508, 1034, -844, 547, -31, -913, 782, -834, -544, -695, 89, 707, 804, 127, 913, -598, -730, 255, 703, -464, -763,
    104, 510, -870, -174, -361, 251, -718, 709, -436, 681, 400, 617, -903, -725, -76, 67, 1031, 206, 518,
]  # fmt: skip
"""Profits of 40 intervals in cents."""


def curve(profits: list[int], step_ns: int = SECOND) -> list[Sample]:
    return [sample(place * step_ns, [[profit]]) for place, profit in enumerate(profits)]


def summed(changes: list[int]) -> list[int]:
    profits = [0]
    for change in changes:
        profits.append(profits[-1] + change)
    return profits


def test_ratios_are_those_of_empyrical() -> None:
    """empyrical-reloaded 0.7.1 made the figures, of CHANGES on a capital of 10,000.00 and 252 periods a year."""
    found = result_of(curve(summed(CHANGES))).stats(capital=10_000, interval_s=1, hours_a_day=1 / 3600)
    assert found.intervals == 40
    assert found.periods_a_year == pytest.approx(252)
    assert found.total.volatility == pytest.approx(0.010065653765308885, rel=1e-12)
    assert found.total.sharpe == pytest.approx(0.5532874594985734, rel=1e-12)
    assert found.total.sortino == pytest.approx(0.8006861504004181, rel=1e-12)
    assert found.total.annual_return == pytest.approx(0.0055691992, rel=1e-6)
    assert found.total.total_return == pytest.approx(sum(CHANGES) / 1_000_000, rel=1e-15)


def test_equal_changes_have_no_sharpe_ratio() -> None:
    """The variance is exactly 0, not a rounding error by which the mean is divided."""
    total = result_of(curve([0, 7, 14, 21])).stats(capital=3, interval_s=1).total
    assert (total.volatility, total.sharpe, total.sortino) == (0.0, None, None)


def test_without_executions_nothing_is_divided_by() -> None:
    total = result_of(curve([0, 0, 0])).stats(interval_s=1).total
    ratios = (total.total_return, total.sharpe, total.hit_rate, total.maker_share, total.turnover_ratio)
    assert ratios == (None,) * 5
    assert total.profit == total.turnover == total.max_exposure == 0


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30))
def test_the_drawdown_is_the_largest_fall_of_all_pairs(changes: list[int]) -> None:
    profits = summed(changes)
    deepest = max(profits[i] - profits[j] for i in range(len(profits)) for j in range(i, len(profits)))
    total = result_of(curve(profits)).stats(capital=1, interval_s=1).total
    assert total.max_drawdown == Decimal(deepest) / 100
    assert -min(falls(profits)) == deepest
    below = [place for place in range(len(profits)) if profits[place] < max(profits[: place + 1])]
    longest = 0
    for place in below:
        peak = max(i for i in range(place) if profits[i] == max(profits[: place + 1]))
        end = next((i for i in range(place, len(profits)) if profits[i] >= profits[peak]), len(profits) - 1)
        longest = max(longest, end - peak)
    assert total.longest_drawdown_s == longest


def test_a_loss_from_the_beginning_is_a_drawdown() -> None:
    total = result_of([sample(0, [[-5]]), sample(SECOND, [[-9]])]).stats(capital=1, interval_s=1).total
    assert (total.max_drawdown, total.longest_drawdown_s) == (Decimal("0.09"), 1.0)


def test_a_hit_is_a_closing_execution_that_beat_its_fee() -> None:
    fills = [
        fill(0, "B", 10, 100),  # opens
        fill(1, "S", 4, 101, fee=3),  # earns 4 for a fee of 3
        fill(2, "S", 2, 101, fee=2, liquidity="taker"),  # earns 2 for a fee of 2
        fill(3, "S", 9, 99, fee=0),  # closes 4 with a loss and opens a short position of 5
        fill(4, "B", 5, 98),  # earns 5
        fill(5, "B", 1, 98),  # opens
    ]
    total = result_of(curve([0, 0], 10), fills).stats(interval_s=1).total
    assert (total.fills, total.closing_fills, total.hit_rate, total.maker_share) == (6, 4, 0.5, 5 / 6)
    assert total.fees == Decimal("0.05")
    assert total.turnover == Decimal(10 * 100 + 4 * 101 + 2 * 101 + 9 * 99 + 5 * 98 + 98) / 100


def naive_exposures(result: Result, begin_ns: int, end_ns: int) -> tuple[Fraction, Fraction, Fraction]:
    """Mean gross and net and largest gross exposure from one time to another, nanosecond by nanosecond."""
    scales = {each.symbol: Fraction(each.notional(1)) for each in result.instruments}
    names = [strategy.name for strategy in result.strategies]
    places = {each.symbol: place for place, each in enumerate(result.instruments)}
    held = dict.fromkeys(((name, symbol) for name in names for symbol in places), 0)
    worth = dict.fromkeys(held, Fraction(0))
    gross, net, highest = Fraction(0), Fraction(0), Fraction(0)
    for now in range(end_ns):
        if now == begin_ns:
            highest = sum(map(abs, worth.values()), Fraction(0))
        for each in result.fills:
            if each.time_ns == now:
                key = each.strategy, each.symbol
                held[key] += each.volume_lots * (1 if each.side == "B" else -1)
                worth[key] = held[key] * each.price_ticks * scales[each.symbol]
                highest = max(highest, sum(map(abs, worth.values()), Fraction(0))) if now >= begin_ns else highest
        for moment in result.curve:
            if moment.time_ns == now:
                for (name, symbol), lots in held.items():
                    bid, ask = moment.quotes[places[symbol]]
                    near, far = (bid, ask) if lots >= 0 else (ask, bid)
                    mark = far if near is None else near
                    if lots and mark is not None:
                        worth[name, symbol] = lots * mark * scales[symbol]
                highest = max(highest, sum(map(abs, worth.values()), Fraction(0))) if now >= begin_ns else highest
        if now >= begin_ns:
            gross += sum(map(abs, worth.values()), Fraction(0))
            net += sum(worth.values(), Fraction(0))
    return gross / (end_ns - begin_ns), net / (end_ns - begin_ns), highest


sides = st.sampled_from("BS")
prices = st.one_of(st.none(), st.integers(1, 20))


@st.composite
def results(draw: st.DrawFn, first_ns: int = 0) -> Result:
    """Runs of two strategies on two symbols within 12 ns."""
    times = sorted(draw(st.sets(st.integers(1, 11), max_size=4)) | {0, 12})
    profits = st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), min_size=2, max_size=2)
    quotes = st.lists(st.tuples(prices, prices), min_size=2, max_size=2)
    samples = [sample(first_ns + each, draw(profits), draw(quotes)) for each in times]
    fills = [
        fill(first_ns + time, draw(sides), draw(st.integers(1, 5)), draw(st.integers(1, 20)),
             fee=draw(st.integers(-2, 2)), symbol=draw(st.sampled_from(["ACME", "OTHER"])),
             strategy=draw(st.sampled_from(["one", "two"])), liquidity=draw(st.sampled_from(["maker", "taker"])))
        for time in sorted(draw(st.lists(st.integers(0, 12), max_size=6)))
    ]  # fmt: skip
    return result_of(samples, fills, names=("one", "two"), instruments=(Instrument("ACME"), OTHER))


@given(results())
def test_exposures_are_those_of_a_slow_program(result: Result) -> None:
    total = result.stats(interval_s=1).total
    gross, net, highest = naive_exposures(result, 0, 12)
    assert total.mean_exposure == pytest.approx(float(gross))
    assert total.mean_net_exposure == pytest.approx(float(net))
    # The last instant has no length, but what is held in it counts.
    assert total.max_exposure == naive_exposures(result, 0, 13)[2] >= highest


@given(results(first_ns=DAY - 6))
def test_the_parts_add_up_to_the_whole(result: Result) -> None:
    """Across midnight, and with instruments of two scales."""
    found = result.stats(interval_s=1)
    assert sorted(found.by_day) == ["1970-01-01", "1970-01-02"]
    for parts in (found.by_strategy, found.by_symbol, found.by_day):
        assert sum(part.profit for part in parts.values()) == found.total.profit
        assert sum(part.fees for part in parts.values()) == found.total.fees
        assert sum(part.turnover for part in parts.values()) == found.total.turnover
        assert sum(part.fills for part in parts.values()) == found.total.fills
        assert sum(part.closing_fills for part in parts.values()) == found.total.closing_fills
    assert max(part.max_exposure for part in found.by_day.values()) == found.total.max_exposure


def test_a_day_without_a_sample_keeps_its_executions() -> None:
    fills = [fill(DAY + 5, "B", 1, 100), fill(2 * DAY + 5, "S", 1, 100)]
    found = result_of([sample(0, [[0]]), sample(2 * DAY + 9, [[4]])], fills).stats()
    assert [(part.fills, part.profit) for part in found.by_day.values()] == [
        (0, Decimal("0.00")),
        (1, Decimal("0.00")),
        (1, Decimal("0.04")),
    ]
    assert found.by_day["1970-01-02"].mean_exposure == pytest.approx(1.0)


def test_nights_are_no_intervals() -> None:
    """Of two days of three seconds there are two intervals each, and the night's change is in the third."""
    times = [0, 1, 2, DAY // SECOND, DAY // SECOND + 1, DAY // SECOND + 2]
    profits = [0, 10, 5, 7, 9, 4]
    samples = [sample(time * SECOND, [[profit]]) for time, profit in zip(times, profits, strict=True)]
    found = result_of(samples).stats(capital=1, interval_s=1)
    assert found.intervals == 4
    reference = result_of(curve(summed([10, -5, 4, -5]))).stats(capital=1, interval_s=1)
    assert found.total.sharpe == reference.total.sharpe
    assert found.by_day["1970-01-01"].sharpe == result_of(curve([0, 10, 5])).stats(capital=1, interval_s=1).total.sharpe


def test_intervals_of_days_end_with_the_days() -> None:
    samples = [sample(day * DAY + time, [[10 * day * day + time]]) for day in range(40) for time in (1, 2)]
    found = result_of(samples).stats(capital=1)
    assert (found.interval_s, found.intervals, found.periods_a_year) == (86_400, 40, 252)
    days = result_of(curve(summed([2, *(10 * (2 * day + 1) for day in range(39))]))).stats(
        capital=1, interval_s=1, hours_a_day=1 / 3600
    )
    assert found.total.sharpe == pytest.approx(days.total.sharpe)


@pytest.mark.parametrize(("seconds", "interval_s"), [(3000, 60), (300, 10), (40, 1), (5, 0.1), (0.5, 0.1)])
def test_the_interval_is_the_longest_that_the_run_has_enough_of(seconds: float, interval_s: float) -> None:
    found = result_of([sample(0, [[0]]), sample(round(seconds * SECOND), [[1]])]).stats()
    assert found.interval_s == interval_s


@pytest.mark.parametrize(
    "given_",
    [{"capital": 0}, {"capital": Decimal(-1)}, {"interval_s": 0}, {"days_a_year": -1}, {"hours_a_day": float("nan")}],
)
def test_what_is_not_above_0_is_refused(given_: dict[str, float]) -> None:
    (name,) = given_
    with pytest.raises(ConfigurationError, match=f"expected {name} above 0, was"):
        result_of(curve([0, 1])).stats(**given_)


def test_more_than_a_million_intervals_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most 1,000,000 intervals"):
        result_of(curve([0, 1], 2 * SECOND)).stats(interval_s=1e-6)


def test_money_has_the_digits_that_all_instruments_need() -> None:
    assert money_digits([Instrument("A", "0.01", "1"), Instrument("B", "0.5", "0.00010")]) == 5
    assert money_digits([Instrument("A", "5", "10")]) == 0
    many: list[Trade] = [fill(0, "B", 10**18, 10**18)]
    total = result_of(curve([0, 0]), many).stats().total
    assert total.turnover == Decimal("10000000000000000000000000000000000.00")


def test_statistics_are_a_table_and_json() -> None:
    found: Statistics = result_of(curve(summed(CHANGES)), [fill(5, "B", 1, 100)]).statistics
    table = found.to_arrow()
    assert table.column("scope").to_pylist() == ["total", "strategy", "symbol", "day"]
    assert table.column("name").to_pylist() == ["", "one", "ACME", "1970-01-01"]
    assert table.column("profit").to_pylist()[0] == found.total.profit
    assert table.column("sharpe").to_pylist()[0] == found.total.sharpe
    again = msgspec.json.decode(msgspec.json.encode(found), type=Statistics)
    assert again == found
