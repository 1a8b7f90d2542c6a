"""Measures of a backtest: return and risk, hit rate, turnover and exposure, by strategy, symbol and day.

Money is an integer, in the smallest unit that all instruments share, until a ratio is computed. The annual ratios are
computed with floats from exact sums; every other ratio is one division of two exact numbers. The same result therefore
gives the same statistics, bit by bit, on every machine.

Definitions (E is the profit after fees, C the capital, d the changes of E from one grid point to the next):

===================  =================================================================================================
return               E / C; simple, as profits are not reinvested
annual return        mean(d) / C × periods a year
volatility           standard deviation of d (of a sample, n - 1) / C × √(periods a year)
Sharpe ratio         mean(d) / standard deviation of d × √(periods a year); the risk-free rate is 0
Sortino ratio        mean(d) / √(mean of min(d, 0)²) × √(periods a year); the target is 0
drawdown             largest fall of E below its highest value so far, which begins at 0; longest time below it
hit rate             of the executions that closed a part of a position, the share that earned more than its fee
turnover             sum of price × quantity of all executions
exposure             position × price; gross: the sum of the sizes, net: the sum with signs; means are over time
===================  =================================================================================================

On each UTC day, the grid has a point every interval, from the day's first sample to its last sample. The hours in which
a market is closed therefore add no returns of 0. A change between two days belongs to the first interval of the later
day. With an interval of a day or more, the grid has a point at the last sample of each day. At a sample, a long
position is valued at the bid and a short one at the ask; at an execution, the position is valued at the price of that
execution.

>>> falls([3, 1, 4, -1])
[0, -2, 0, -5]
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from algo_engine.desk.order import Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.trades import Trade
from algo_engine.views.quotes import mark_ticks
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.presentation import digits_of
from deltabook.backtest.recorder import Sample
from deltabook.backtest.statistics import Measures, Statistics
from deltabook.wire.symbols import Instrument

__all__ = ["falls", "money_digits", "statistics_of"]

_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400
_DAY_NS: Final = _DAY_S * _NS
_INTERVALS_S: Final = (86_400.0, 3_600.0, 600.0, 60.0, 10.0, 1.0, 0.1)
"""Candidate lengths of the intervals in seconds, longest first."""
_ENOUGH: Final = 30
"""Number of changes that is enough for a standard deviation."""
_MOST_POINTS: Final = 1_000_000
"""Greatest number of intervals."""


def falls(profits: Iterable[int]) -> list[int]:
    """Return each profit minus the highest profit so far, which is 0 at first; no result is above 0."""
    highest, drops = 0, []
    for profit in profits:
        highest = max(highest, profit)
        drops.append(profit - highest)
    return drops


def money_digits(instruments: Sequence[Instrument]) -> int:
    """Return the number of digits after the point that represent every sum of ticks × lots exactly."""
    return max((digits_of(instrument.notional(1)) for instrument in instruments), default=0)


def statistics_of(
    instruments: Sequence[Instrument],
    strategies: Sequence[str],
    curve: Sequence[Sample],
    fills: Sequence[Trade],
    *,
    capital: Decimal | float | None = None,
    interval_s: float | None = None,
    days_a_year: float = 252,
    hours_a_day: float = 6.5,
) -> Statistics:
    """Return the statistics of a run, as this module's docstring defines them.

    Args:
        instruments: Instruments that were traded.
        strategies: Names of the strategies, in the order of the samples' fields.
        curve: Samples of the run.
        fills: Executions of the strategies, in the order of their times.
        capital: Capital that returns refer to, as money; by default the largest gross exposure of the run.
        interval_s: Length of the intervals of the returns in seconds; by default the longest of 1 day, 1 hour,
            10 minutes, 1 minute, 10 s and 1 s with which the run has at least 30 intervals, or else 0.1 s.
        days_a_year: Trading days in a year: 365 for a market that never closes.
        hours_a_day: Trading hours in a day, for intervals below a day: 24 for a market that never closes.

    Raises:
        ConfigurationError: A value is not above 0, or there would be more than a million intervals.
    """
    for name, value in (("capital", capital), ("interval_s", interval_s), ("days_a_year", days_a_year),
                        ("hours_a_day", hours_a_day)):  # fmt: skip
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ConfigurationError(f"expected {name} above 0, was {value}")
    run = _Run(instruments, strategies, curve, fills)
    return run.statistics(capital, interval_s, days_a_year, hours_a_day)


class _Scope:
    """Sums of executions and positions in one scope: money in the smallest unit, exposure over time."""

    __slots__ = ("_gross", "_gross_ns", "_last_ns", "_net", "_net_ns", "_since_ns", "closing", "fees", "fills",
                 "highest", "makers", "turnover", "winning")  # fmt: skip

    def __init__(self, since_ns: int, gross: int = 0, net: int = 0) -> None:
        self.fills = self.makers = self.closing = self.winning = self.turnover = self.fees = 0
        self.highest = self._gross = gross
        self._net = net
        self._gross_ns = self._net_ns = 0
        self._since_ns = self._last_ns = since_ns

    def shift(self, time_ns: int, gross: int, net: int) -> None:
        """Add to the exposures at a time."""
        self.pass_to(time_ns)
        self._gross += gross
        self._net += net

    def settle(self) -> None:
        """Include the present exposure in the maximum; called after all changes that a fill or a sample causes."""
        self.highest = max(self.highest, self._gross)

    def pass_to(self, time_ns: int) -> None:
        """Advance to a time with the present exposures."""
        passed_ns = max(0, time_ns - self._last_ns)
        self._gross_ns += self._gross * passed_ns
        self._net_ns += self._net * passed_ns
        self._last_ns = max(self._last_ns, time_ns)

    def follower(self, time_ns: int) -> _Scope:
        """Return a new scope that begins at this time with the present exposures of `self`."""
        return _Scope(time_ns, self._gross, self._net)

    def means(self) -> tuple[Fraction | None, Fraction | None]:
        """Return the means of gross and net exposure over time; None if no time has passed."""
        passed_ns = self._last_ns - self._since_ns
        if not passed_ns:
            return None, None
        return Fraction(self._gross_ns, passed_ns), Fraction(self._net_ns, passed_ns)


class _Run:
    """One computation; all sums are integers, in units of 10 to the power of minus ``digits``."""

    def __init__(
        self,
        instruments: Sequence[Instrument],
        strategies: Sequence[str],
        curve: Sequence[Sample],
        fills: Sequence[Trade],
    ) -> None:
        self._samples, self._fills = curve, fills
        self._symbols = [instrument.symbol for instrument in instruments]
        self._names = strategies
        self._digits = money_digits(instruments)
        self._factors = [int(instrument.notional(10**self._digits)) for instrument in instruments]
        self._times = [sample.time_ns for sample in curve]
        self._days = [time_ns // _DAY_NS for time_ns in self._times]
        self._total = _Scope(self._times[0])
        self._by_strategy = [_Scope(self._times[0]) for _ in self._names]
        self._by_symbol = [_Scope(self._times[0]) for _ in self._symbols]
        self._by_day = {self._days[0]: _Scope(self._times[0])}
        self._day = self._days[0]
        self._walk()

    def statistics(
        self, capital: Decimal | float | None, interval_s: float | None, days_a_year: float, hours_a_day: float
    ) -> Statistics:
        """Return the statistics of all scopes; `statistics_of` describes the arguments."""
        self._given = self._money(self._total.highest) if capital is None else Decimal(str(capital))
        self._capital = Fraction(self._given) * 10**self._digits
        self._interval_s = interval_s or self._usual_interval_s()
        self._grid = self._grid_points(round(self._interval_s * _NS))
        year_s = days_a_year * hours_a_day * 3600 if self._interval_s < _DAY_S else days_a_year * _DAY_S
        self._periods = year_s / self._interval_s
        names, symbols = range(len(self._names)), range(len(self._symbols))
        total = self._curve(names, symbols)
        return Statistics(
            capital=self._given,
            interval_s=self._interval_s,
            intervals=len(self._grid),
            periods_a_year=self._periods,
            total=self._measures(total, self._total),
            by_strategy={
                name: self._measures(self._curve([place], symbols), self._by_strategy[place])
                for place, name in enumerate(self._names)
            },
            by_symbol={
                symbol: self._measures(self._curve(names, [place]), self._by_symbol[place])
                for place, symbol in enumerate(self._symbols)
            },
            by_day=dict(self._each_day(total)),
        )

    def _curve(self, names: Sequence[int], symbols: Sequence[int]) -> list[int]:
        """Return the profit after fees at each sample, summed over some strategies and symbols."""
        factors = self._factors
        return [
            sum(
                (realised + unrealised - fees) * factors[symbol]
                for name in names
                for symbol in symbols
                for realised, unrealised, fees in [sample.profits[name][symbol]]
            )
            for sample in self._samples
        ]

    # Executions and positions.

    def _walk(self) -> None:
        """Enter samples and executions in the order of their times; executions come first if times are equal."""
        width = len(self._symbols)
        self._holdings = [Holding()] * (len(self._names) * width)
        self._marks: list[int | None] = [None] * width
        self._worth = [0] * len(self._holdings)
        strategies = {name: place for place, name in enumerate(self._names)}
        symbols = {symbol: place for place, symbol in enumerate(self._symbols)}
        fills = iter(self._fills)
        fill = next(fills, None)
        for sample in self._samples:
            while fill is not None and fill.time_ns <= sample.time_ns:
                self._enter(fill, strategies[fill.strategy], symbols[fill.symbol])
                fill = next(fills, None)
            self._mark(sample)
        for scope in self._all_scopes():
            scope.pass_to(self._times[-1])

    def _enter(self, fill: Trade, strategy: int, symbol: int) -> None:
        self._begin_day(fill.time_ns)
        place, factor = strategy * len(self._symbols) + symbol, self._factors[symbol]
        side = Side.BUY if fill.side == "B" else Side.SELL
        before = self._holdings[place]
        after = self._holdings[place] = before.after(side, fill.volume_lots, fill.price_ticks)
        closes = before.position_lots * side.sign < 0
        turnover = fill.volume_lots * fill.price_ticks * factor
        for scope in self._scopes(strategy, symbol):
            scope.fills += 1
            scope.makers += fill.liquidity == "maker"
            scope.closing += closes
            scope.winning += closes and after.realised - before.realised > fill.fee
            scope.turnover += turnover
            scope.fees += fill.fee * factor
        self._value(fill.time_ns, strategy, symbol, fill.price_ticks)
        for scope in self._scopes(strategy, symbol):
            scope.settle()

    def _mark(self, sample: Sample) -> None:
        self._begin_day(sample.time_ns)
        for symbol, (bid, ask) in enumerate(sample.quotes):
            for strategy in range(len(self._names)):
                position = self._holdings[strategy * len(self._symbols) + symbol].position_lots
                mark = mark_ticks(bid, ask, position)
                if position and mark is not None:
                    self._value(sample.time_ns, strategy, symbol, mark)
        for scope in self._all_scopes():
            scope.settle()

    def _value(self, time_ns: int, strategy: int, symbol: int, price_ticks: int) -> None:
        """Revalue a strategy's position in a symbol at a new price."""
        place = strategy * len(self._symbols) + symbol
        old = self._worth[place]
        new = self._worth[place] = self._holdings[place].position_lots * price_ticks * self._factors[symbol]
        if new != old:
            for scope in self._scopes(strategy, symbol):
                scope.shift(time_ns, abs(new) - abs(old), new - old)

    def _all_scopes(self) -> tuple[_Scope, ...]:
        return self._total, *self._by_strategy, *self._by_symbol, self._by_day[self._day]

    def _scopes(self, strategy: int, symbol: int) -> tuple[_Scope, ...]:
        return self._total, self._by_strategy[strategy], self._by_symbol[symbol], self._by_day[self._day]

    def _begin_day(self, time_ns: int) -> None:
        day = time_ns // _DAY_NS
        if day > self._day:
            before = self._by_day[self._day]
            before.pass_to((self._day + 1) * _DAY_NS)
            self._by_day[day] = before.follower(day * _DAY_NS)
            self._day = day

    # Returns.

    def _usual_interval_s(self) -> float:
        """Return the longest candidate with which the run has enough intervals, or else the shortest candidate."""
        counts = ((each, sum(1 for _ in self._targets(round(each * _NS), _ENOUGH))) for each in _INTERVALS_S)
        return next((each for each, count in counts if count >= _ENOUGH), _INTERVALS_S[-1])

    def _grid_points(self, interval_ns: int) -> list[int]:
        """Return the index of the last sample at or before each grid point."""
        points = list(self._targets(interval_ns, _MOST_POINTS + 1))
        if len(points) > _MOST_POINTS:
            raise ConfigurationError(
                f"expected at most {_MOST_POINTS:,} intervals, was an interval of {self._interval_s:g} s in a run of "
                f"{(self._times[-1] - self._times[0]) / _NS:,.0f} s"
            )
        return points

    def _targets(self, interval_ns: int, most: int) -> Iterator[int]:
        """Yield the index of the last sample at or before each grid point; at most ``most`` of each day."""
        times = self._times
        for begin, end in self._spans():
            if interval_ns >= _DAY_NS:
                yield end - 1
                continue
            count = (times[end - 1] - times[begin]) // interval_ns
            for number in range(1, min(count, most) + 1):
                yield bisect_right(times, times[begin] + number * interval_ns, begin, end) - 1

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield, for each day, the index of its first sample and the index after its last sample."""
        begin = 0
        for place in range(1, len(self._days) + 1):
            if place == len(self._days) or self._days[place] != self._days[begin]:
                yield begin, place
                begin = place

    def _each_day(self, curve: list[int]) -> Iterator[tuple[str, Measures]]:
        spans = {self._days[begin]: (begin, end) for begin, end in self._spans()}
        base, grid = 0, 0
        for day, scope in self._by_day.items():
            # A day with executions and without a sample has the profit at the end of the day before.
            begin, end = spans.get(day, (0, 0))
            own = self._grid[grid : bisect_left(self._grid, end, grid)] if end else []
            start = self._grid[grid - 1] if grid else None
            date = datetime.fromtimestamp(day * _DAY_S, UTC).date().isoformat()
            values = curve[begin:end] or [base]
            yield date, self._measures(values, scope, base, self._changes(curve, own, start), begin)
            base, grid = values[-1], grid + len(own)

    def _changes(self, curve: list[int], grid: list[int], start: int | None = None) -> list[int]:
        values = [0 if start is None else curve[start], *(curve[place] for place in grid)]
        return [after - before for before, after in pairwise(values)]

    def _measures(
        self, curve: list[int], scope: _Scope, base: int = 0, changes: list[int] | None = None, first: int = 0
    ) -> Measures:
        """Return the measures of a scope; ``curve`` has the profits at the samples from ``first`` on, and ``base`` is
        the profit before them.
        """
        if changes is None:
            changes = self._changes(curve, self._grid)
        profit = curve[-1] - base
        below = falls(value - base for value in curve)
        deepest = -min(below)
        mean, net = scope.means()
        return Measures(
            profit=self._money(profit),
            fees=self._money(scope.fees),
            total_return=self._of_capital(profit),
            **self._risk(changes),
            max_drawdown=self._money(deepest),
            drawdown_share=self._of_capital(deepest),
            longest_drawdown_s=_longest_ns(self._times[first : first + len(curve)], below) / _NS,
            fills=scope.fills,
            maker_share=_share(scope.makers, scope.fills),
            closing_fills=scope.closing,
            hit_rate=_share(scope.winning, scope.closing),
            turnover=self._money(scope.turnover),
            turnover_ratio=self._of_capital(scope.turnover),
            max_exposure=self._money(scope.highest),
            mean_exposure=None if mean is None else float(mean / 10**self._digits),
            mean_net_exposure=None if net is None else float(net / 10**self._digits),
        )

    def _risk(self, changes: list[int]) -> dict[str, Any]:
        """Return the ratios of a list of changes, from exact sums of the changes and their squares."""
        n, total = len(changes), sum(changes)
        squares = sum(change * change for change in changes)
        downward = sum(change * change for change in changes if change < 0)
        root, capital = math.sqrt(self._periods), self._capital
        # This is n × (n - 1) × the variance: an integer, and exactly 0 if all changes are equal.
        spread = n * squares - total * total
        deviation = math.sqrt(Fraction(spread, n * (n - 1))) if n > 1 else None
        return {
            "annual_return": float(total / capital / n) * self._periods if n and capital else None,
            "volatility": deviation * root / float(capital) if deviation is not None and capital else None,
            "sharpe": total / n / deviation * root if deviation else None,
            "sortino": total / n / math.sqrt(Fraction(downward, n)) * root if downward else None,
        }

    def _of_capital(self, value: int) -> float | None:
        return float(value / self._capital) if self._capital else None

    def _money(self, value: int) -> Decimal:
        # A decimal made from text keeps all digits; arithmetic would round to the digits of the decimal context.
        return Decimal(f"{value}E-{self._digits}")


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _longest_ns(times: Sequence[int], below: Sequence[int]) -> int:
    """Return the longest time, in nanoseconds, from a maximum of the profit to the next one, or to the end."""
    longest, since, is_below = 0, times[0], False
    for time_ns, fall in zip(times, below, strict=True):
        if fall:
            longest = max(longest, time_ns - since)
        else:
            # If the profit reaches its maximum again at this sample, it was below the maximum until now.
            longest = max(longest, time_ns - since) if is_below else longest
            since = time_ns
        is_below = bool(fall)
    return longest
