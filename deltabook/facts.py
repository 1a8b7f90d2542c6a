"""Stylised facts: figures of a market beside those of half an hour of BTC/USD.

```
journal of an exchange ─┐
recorded files ─────────┼─ watch_… ──▶ Observation, second by second ──▶ facts_of  each figure with its band
the BTC/USD recording ──┘              and event by event            └▶ draw      six panels
```

`deltabook market-report` prints the figures; docs/market.md explains them. `RECORDED` has the reference figures, which
`watch_capture` measures in half an hour of BTC/USD on Bitstamp. To compare markets of different scales, prices are
measured in *steps* (a number of ticks) and quantities in *clips* (the median size of an order).

Cont, *Empirical properties of asset returns: stylized facts and statistical issues* (2001).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError, PlottingError
from deltabook.backtest.flow import Flow
from deltabook.wire.symbols import Instrument
from exchange_server.journal.history import History
from exchange_server.matching import AnyInput, Book, Enter, Market, MarketRules, Now, Recorded, Replace, Silence
from exchange_server.matching.order import Order
from exchange_server.outputs import all_outputs
from exchange_server.replay import BitstampLoader

__all__ = [
    "BANDS",
    "MORE_ROWS",
    "RECORDED",
    "ROWS",
    "Band",
    "Fact",
    "FeedObserver",
    "Observation",
    "autocorrelation",
    "draw",
    "facts_of",
    "kurtosis",
    "watch_capture",
    "watch_files",
    "watch_journal",
]


EDGES: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Distances from the middle of the best prices, in steps, up to which displayed lots are added up."""
_MOST_GAPS: Final = 2_000_000
"""Largest number of stored times between orders; later ones are ignored."""


class FeedObserver(Silence):
    """Counts trades and displayed orders that were added or cancelled, sums the lots that were taken, and stores the
    times between orders.

    It observes one symbol, the market's first by default.
    """

    __slots__ = ("_last_ns", "_locate", "_now", "added_orders", "bought_lots", "deleted_orders", "gaps_ns",
                 "trades")  # fmt: skip

    def __init__(self, now: Now | None = None, locate: int = 1) -> None:
        self._now, self._locate = now, locate
        self._last_ns = 0
        self.added_orders = 0
        """Number of displayed orders that were added."""
        self.deleted_orders = 0
        """Number of displayed orders that were cancelled."""
        self.bought_lots = 0
        """Lots taken from sellers less lots taken from buyers."""
        self.trades = 0
        """Number of executions, crosses and printed trades."""
        self.gaps_ns: list[int] = []
        """Times between displayed orders in nanoseconds."""

    def added(self, order: Order) -> None:
        if order.locate != self._locate:
            return
        self.added_orders += 1
        if self._now is not None and len(self.gaps_ns) < _MOST_GAPS:
            time_ns = self._now.time_ns
            if self._last_ns:
                self.gaps_ns.append(time_ns - self._last_ns)
            self._last_ns = time_ns

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        if order.locate == self._locate:
            self.trades += 1
            self.bought_lots += volume if order.side == "S" else -volume

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self.trades += order.locate == self._locate

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        self.trades += locate == self._locate

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        self.trades += locate == self._locate

    def deleted(self, order: Order, volume: int) -> None:
        self.deleted_orders += order.locate == self._locate

    def replaced(self, old: Order, order: Order) -> None:
        self.deleted(old, old.volume)
        self.added(order)


class Observation:
    """Observation of one market: arrays with an entry per second, and the sizes of all orders; prices are in steps.

    Seconds at whose end a side of the book is empty, or the symbol does not trade continuously, are left out. A figure
    of one second is the difference of totals at two consecutive seconds; no figure is computed across a gap such as a
    halt.
    """

    def __init__(self, name: str, step_ticks: int) -> None:
        self.name = name
        self.step_ticks = step_ticks
        self._numbers: list[int] = []
        self._mids: list[float] = []
        self._spreads: list[float] = []
        self._depths: list[list[float]] = []
        self._trades: list[int] = []
        self._bought: list[int] = []
        self._orders: list[int] = []
        self.gaps_ns: list[int] = []
        """Times between displayed orders in nanoseconds; empty if unknown."""
        self.sizes: list[int] = []
        """Lots of every order that was entered."""
        self.orders = 0
        """Number of orders entered during the observation."""
        self.trades = 0
        self.added = 0
        """Number of displayed orders that were added."""
        self.deleted = 0
        """Number of displayed orders that were cancelled."""

    def record(self, book: Book, second: int, trades: int, bought_lots: int = 0, orders: int = 0) -> None:
        """Record a book at the end of a second, with the second's number.

        ``trades``, ``bought_lots`` (net) and ``orders`` (displayed) are the totals so far.
        """
        bid, ask = book.best("B"), book.best("S")
        if not bid or not ask:
            return
        mid = (bid + ask) / 2
        self._numbers.append(second)
        self._mids.append(mid / self.step_ticks)
        self._spreads.append((ask - bid) / self.step_ticks)
        self._trades.append(trades)
        self._bought.append(bought_lots)
        self._orders.append(orders)
        depth = np.zeros(len(EDGES))
        for side in ("B", "S"):
            for price, volume, _ in book.levels(side):
                away = abs(price - mid) / self.step_ticks
                if away > EDGES[-1]:
                    break
                depth[int(np.searchsorted(EDGES, away)) :] += volume / 2
        self._depths.append(depth.tolist())

    @property
    def mids(self) -> npt.NDArray[np.float64]:
        """Middle of the best prices at each second, in steps."""
        return np.array(self._mids)

    @property
    def spreads(self) -> npt.NDArray[np.float64]:
        """Distance of the best prices at each second, in steps."""
        return np.array(self._spreads)

    @property
    def trades_per_s(self) -> npt.NDArray[np.int64]:
        """Number of trades in each second."""
        return self._each_second(np.array(self._trades, np.int64))

    @property
    def bought_per_s(self) -> npt.NDArray[np.float64]:
        """Net lots bought in each second, in clips."""
        bought: npt.NDArray[np.float64] = self._each_second(np.array(self._bought, np.float64))
        return bought / self.clip

    @property
    def orders_per_s(self) -> npt.NDArray[np.int64]:
        """Number of displayed orders in each second."""
        return self._each_second(np.array(self._orders, np.int64))

    @property
    def seconds(self) -> int:
        """Number of seconds with a book of two sides."""
        return len(self._mids)

    @property
    def clip(self) -> float:
        """Median size of an order in lots."""
        return float(np.median(self.sizes))

    @property
    def depth(self) -> npt.NDArray[np.float64]:
        """Mean displayed lots of a side up to each of `EDGES`, in clips."""
        depths: npt.NDArray[np.float64] = np.array(self._depths, np.float64).mean(axis=0)
        return depths / self.clip

    def returns(self, seconds: int) -> npt.NDArray[np.float64]:
        """Return the moves of the middle over intervals of this many seconds, in steps."""
        return self._each_second(self.mids, seconds)

    def _each_second(self, totals: npt.NDArray[Any], seconds: int = 1) -> npt.NDArray[Any]:
        """Return the differences of entries that are this many seconds apart, without differences across a gap."""
        gaps = np.flatnonzero(np.diff(np.array(self._numbers, np.int64)) != 1) + 1
        return np.concatenate([np.diff(run[::seconds]) for run in np.split(totals, gaps)])


_CAPTURE_STEP_TICKS: Final = 100
"""Ticks of a step: nearly all orders of the recording are at whole dollars."""
_SNAPSHOT_RECORDS: Final = 6_513
"""Last line of the recording's initial book; the header is line 1."""
_SECOND_NS: Final = 10**9
_WARM_S: Final = 10
_LEAST_SECONDS: Final = 60
"""Least number of seconds with a book of two sides, for figures of tails and memory."""
_STEP_BPS: Final = 2.0
"""Size of a step in basis points of the instrument's reference price, as for the agents."""


class _Watch:
    """A market and the observation of one of its books, which records the book at the end of each market second."""

    def __init__(self, name: str, rules: MarketRules, symbol: str, step_ticks: int, warm_s: int) -> None:
        now = Now()
        locate = [instrument.symbol for instrument in rules.instruments].index(symbol) + 1
        self._feed = FeedObserver(now, locate)
        self.market = Market(rules, (self._feed,), (), now)
        self._book: Book = self.market.books[symbol]
        self.observation = Observation(name, step_ticks)
        self._symbol, self._warm_ns = symbol, warm_s * _SECOND_NS
        self._next_ns = 0
        self._before: tuple[int, int, int, int] | None = None

    @property
    def is_begun(self) -> bool:
        """True after the warm-up."""
        return self._before is not None

    def pass_to(self, time_ns: int) -> None:
        """Advance to a time, and record each second that ends by then."""
        if not self._next_ns:
            self._next_ns = time_ns + self._warm_ns
        feed, market = self._feed, self.market
        while time_ns >= self._next_ns:
            if self._before is None:
                self._before = feed.trades, feed.added_orders, feed.deleted_orders, market.orders
                feed.gaps_ns.clear()
            if self._book.phase == "continuous":
                second = self._next_ns // _SECOND_NS
                self.observation.record(self._book, second, feed.trades, feed.bought_lots, feed.added_orders)
            self._next_ns += _SECOND_NS

    def entered(self, lots: int) -> None:
        """Count an order that was sent."""
        if self.is_begun:
            self.observation.sizes.append(lots)
            self.observation.orders += 1

    def finish(self) -> Observation:
        """Return the observation; raise `ConfigurationError` if it is too short."""
        trades, added, deleted, orders = self._before or (0, 0, 0, 0)
        observation = self.observation
        observation.trades = self._feed.trades - trades
        if len(self.market.books) == 1:
            # Unlike `entered`, the market also counts the orders by which it replays a recording's executions.
            observation.orders = self.market.orders - orders
        observation.added, observation.deleted = self._feed.added_orders - added, self._feed.deleted_orders - deleted
        observation.gaps_ns = self._feed.gaps_ns
        if observation.seconds < _LEAST_SECONDS or not observation.trades or not observation.sizes:
            raise ConfigurationError(
                f"expected {_LEAST_SECONDS} seconds of a book of {self._symbol} with two sides, and trades, was "
                f"{observation.seconds} s with {observation.trades} trades"
            )
        return observation


def _step(instrument: Instrument, step_ticks: int) -> int:
    return step_ticks or max(1, round(instrument.reference_price_ticks * _STEP_BPS / 10_000))


def _chosen(instruments: Sequence[Instrument], symbol: str) -> Instrument:
    known = {instrument.symbol: instrument for instrument in instruments}
    if symbol and symbol not in known:
        raise ConfigurationError(f"expected one of the symbols {', '.join(known)}, was {symbol}")
    return known[symbol] if symbol else instruments[0]


def watch_journal(directory: Path, symbol: str = "", step_ticks: int = 0, warm_s: int = _WARM_S) -> Observation:
    """Observe one symbol of the exchange in a directory, beginning ``warm_s`` seconds after its first input.

    Raise the errors of reading a journal, and `ConfigurationError` for an unknown symbol and for too few seconds.
    """
    reader = History(directory, all_outputs).reader
    rules = reader.head.rules
    instrument = _chosen(rules.instruments, symbol)
    watch = _Watch(instrument.symbol, rules, instrument.symbol, _step(instrument, step_ticks), warm_s)
    for _, batch in reader.batches(0):
        for item in batch:
            watch.pass_to(item.time_ns)
            if isinstance(item, Enter | Replace) and item.symbol == instrument.symbol:
                watch.entered(item.volume)
            _apply(watch.market, item)
    return watch.finish()


def watch_files(files: Sequence[DataFile], symbol: str = "", step_ticks: int = 0, warm_s: int = _WARM_S) -> Observation:
    """Observe one symbol of recorded files, played as orders, beginning ``warm_s`` seconds after the first record.

    Raise `ConfigurationError` for an unknown symbol and for too few seconds.
    """
    flow = Flow(files)
    instrument = _chosen(flow.instruments, symbol)
    rules = MarketRules(flow.instruments, outlier_factor=flow.outlier_factor)
    watch = _Watch(instrument.symbol, rules, instrument.symbol, _step(instrument, step_ticks), warm_s)
    last_ns = 0
    for r in flow:
        watch.pass_to(r.time_ns)
        if r.symbol == instrument.symbol and r.action in "BSU":
            watch.entered(r.volume)
        last_ns = max(last_ns + 1, r.time_ns)
        _apply(
            watch.market,
            Recorded(
                last_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol, r.new_id
            ),
        )
    return watch.finish()


def watch_capture(path: Path) -> Observation:
    """Observe the recording of BTC/USD, played as orders, beginning ten seconds after its initial snapshot."""
    instrument = Instrument("BTCUSD", "0.01", "0.00000001")
    rules = MarketRules((instrument,), ("BTCUSD",), "as-orders", outlier_factor=10)
    watch = _Watch("BTC/USD", rules, "BTCUSD", _CAPTURE_STEP_TICKS, _WARM_S)
    last_ns = 0
    for r in BitstampLoader(path, "BTCUSD").records():
        if r.position > _SNAPSHOT_RECORDS:
            watch.pass_to(r.time_ns)
            if r.action in "BS":
                watch.entered(r.volume)
        last_ns = max(last_ns + 1, r.time_ns)
        _apply(
            watch.market,
            Recorded(last_ns, r.position, r.order_id, r.broker_id, r.action, r.volume, r.price_ticks, r.symbol),
        )
    return watch.finish()


def _apply(market: Market, item: AnyInput) -> None:
    market.apply(item)
    market.touched.clear()


Floats = npt.NDArray[np.float64]


def kurtosis(values: Floats) -> float:
    """Return the fourth central moment divided by the squared variance; 3 for a normal distribution."""
    centred = values - values.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def autocorrelation(values: Floats, lag: int) -> float:
    """Return the correlation of a series with itself, ``lag`` entries later."""
    centred = values - values.mean()
    return float((centred[:-lag] * centred[lag:]).mean() / (centred**2).mean())


def _within(edge: int) -> Callable[[Observation], float]:
    return lambda observation: float(observation.depth[EDGES.index(edge)])


def _size(percent: int) -> Callable[[Observation], float]:
    return lambda observation: float(np.percentile(observation.sizes, percent)) / observation.clip


ROWS: Final[Mapping[str, Callable[[Observation], float]]] = {
    "spread, median, steps": lambda observation: float(np.median(observation.spreads)),
    "spread, 5 %": lambda observation: float(np.percentile(observation.spreads, 5)),
    "spread, 95 %": lambda observation: float(np.percentile(observation.spreads, 95)),
    "depth of a side within 8 steps, clips": _within(8),
    "depth within 32 steps": _within(32),
    "depth within 128 steps": _within(128),
    "depth within 512 steps": _within(512),
    "orders for one trade": lambda observation: observation.orders / observation.trades,
    "orders cancelled, of those displayed": lambda observation: observation.deleted / observation.added,
    "size of an order, 10 %, clips": _size(10),
    "size, 90 %": _size(90),
    "size, 99 %": _size(99),
    "trades in a second, variance ÷ mean": lambda observation: float(
        observation.trades_per_s.var() / observation.trades_per_s.mean()
    ),
    "move in 1 s, standard deviation, steps": lambda observation: float(observation.returns(1).std()),
    "move in 10 s, standard deviation": lambda observation: float(observation.returns(10).std()),
    "kurtosis of moves in 1 s": lambda observation: kurtosis(observation.returns(1)),
    "kurtosis of moves in 10 s": lambda observation: kurtosis(observation.returns(10)),
    "seconds without a move": lambda observation: float((observation.returns(1) == 0).mean()),
    "autocorrelation of moves, 1 s later": lambda observation: autocorrelation(observation.returns(1), 1),
    "autocorrelation of moves, 2 to 10 s later, greatest": lambda observation: max(
        (autocorrelation(observation.returns(1), lag) for lag in range(2, 11)), key=abs
    ),
    "autocorrelation of their size, 1 s later": lambda observation: autocorrelation(np.abs(observation.returns(1)), 1),
    "autocorrelation of their size, 2 to 5 s later, mean": lambda observation: statistics.fmean(
        autocorrelation(np.abs(observation.returns(1)), lag) for lag in range(2, 6)
    ),
}
"""Function of each figure, in the order of the table."""


def _impact(observation: Observation) -> float:
    """Return the slope of a second's price move over the net clips bought in that second."""
    bought, moves = observation.bought_per_s, observation.returns(1)
    spread = float(((bought - bought.mean()) ** 2).mean())
    return float(((bought - bought.mean()) * (moves - moves.mean())).mean()) / spread if spread else 0.0


def _explained(observation: Observation) -> float:
    bought, moves = observation.bought_per_s, observation.returns(1)
    return float(np.corrcoef(bought, moves)[0, 1]) if bought.std() and moves.std() else 0.0


MORE_ROWS: Final[Mapping[str, Callable[[Observation], float]]] = MappingProxyType(
    {
        "orders in a second, variance ÷ mean": lambda observation: float(
            observation.orders_per_s.var() / observation.orders_per_s.mean()
        ),
        "time between orders, median ÷ mean": lambda observation: (
            float(np.median(observation.gaps_ns) / np.mean(observation.gaps_ns)) if observation.gaps_ns else 0.0
        ),
        "impact: move for each clip bought net in a second, steps": _impact,
        "correlation of lots bought net with the move": _explained,
    }
)
"""Further figures, which need the sides and times of a real feed."""


class Band(msgspec.Struct, frozen=True):
    """Range around a recorded figure: a largest ratio, or a largest difference if the figure may be 0 or negative."""

    factor: float = 0.0
    """Largest ratio, and inverse of the smallest ratio; 0: `difference` applies instead."""
    difference: float = 0.0
    """Largest difference in either direction."""

    def holds(self, value: float, reference: float) -> bool:
        """Return True if a value is within the band around a reference."""
        if self.factor:
            return reference / self.factor <= value <= reference * self.factor
        return abs(value - reference) <= self.difference

    def __str__(self) -> str:
        return f"× or ÷ {self.factor:g}" if self.factor else f"± {self.difference:g}"


BANDS: Final[Mapping[str, Band]] = MappingProxyType(
    {
        name: (
            Band(difference=0.15)
            if name.startswith(("autocorrelation", "correlation", "seconds without", "orders cancelled"))
            else Band(factor=3.0)
            if name.startswith(("kurtosis", "size, 99", "orders in a second", "time between", "impact"))
            else Band(factor=1.5)
        )
        for name in (*ROWS, *MORE_ROWS)
    }
)
"""Band of each figure: wide for figures that a single event decides (kurtosis, the largest orders), a difference for
shares and correlations.
"""


RECORDED: Final[Mapping[str, float]] = MappingProxyType(
    {
        "spread, median, steps": 3.0,
        "spread, 5 %": 1.0,
        "spread, 95 %": 7.0,
        "depth of a side within 8 steps, clips": 23.02,
        "depth within 32 steps": 130.5,
        "depth within 128 steps": 382.4,
        "depth within 512 steps": 866.1,
        "orders for one trade": 12.42,
        "orders cancelled, of those displayed": 0.9647,
        "size of an order, 10 %, clips": 0.2472,
        "size, 90 %": 2.143,
        "size, 99 %": 15.31,
        "trades in a second, variance ÷ mean": 8.69,
        "move in 1 s, standard deviation, steps": 2.088,
        "move in 10 s, standard deviation": 7.684,
        "kurtosis of moves in 1 s": 169.0,
        "kurtosis of moves in 10 s": 17.35,
        "seconds without a move": 0.7241,
        "autocorrelation of moves, 1 s later": 0.2551,
        "autocorrelation of moves, 2 to 10 s later, greatest": 0.02855,
        "autocorrelation of their size, 1 s later": 0.3395,
        "autocorrelation of their size, 2 to 5 s later, mean": 0.08839,
        "orders in a second, variance ÷ mean": 29.24,
        "time between orders, median ÷ mean": 0.7174,
        "impact: move for each clip bought net in a second, steps": 0.0261,
        "correlation of lots bought net with the move": 0.07008,
    }
)
"""Recorded value of each figure; a step is a dollar, a clip 0.07 BTC (docs/market.md)."""


class Fact(msgspec.Struct, frozen=True):
    """One figure of a market, with the recording's value."""

    name: str
    """Name of the figure."""
    value: float
    """Figure of the market."""
    recorded: float
    """Figure of the recording."""
    band: str
    """Band around the recorded value."""
    is_within: bool
    """True if the value is in the band."""


def facts_of(observation: Observation) -> list[Fact]:
    """Return all figures of an observation."""
    facts = []
    for name, figure in {**ROWS, **MORE_ROWS}.items():
        value, band = figure(observation), BANDS[name]
        facts.append(Fact(name, value, RECORDED[name], str(band), band.holds(value, RECORDED[name])))
    return facts


_STYLES: Final = (("#000000", "-", "o"), ("#D55E00", "--", "s"), ("#0072B2", ":", "^"))
"""Colour, line and marker, distinguishable without colours too. The colours are Okabe and Ito's."""
_LAGS: Final = range(1, 16)


def draw(observations: Sequence[Observation], path: Path) -> None:
    """Draw six panels with one line for each market; raise `PlottingError` if matplotlib is not installed."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlottingError("expected matplotlib, was not installed: pip install 'deltabook[plot]' has it") from error

    with rc_context({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}):
        _draw(Figure(figsize=(12, 6.6), layout="constrained"), observations, path)


def _draw(figure: Any, observations: Sequence[Observation], path: Path) -> None:
    axes = figure.subplots(2, 3)
    panels = (_depth, _sizes, _spread, _path, _tails, _memory)
    for axis, panel in zip(axes.flat, panels, strict=True):
        for observation, style in zip(observations, _STYLES, strict=False):
            panel(axis, observation, style)
    axes[0, 0].legend(loc="upper left", fontsize=9)
    figure.savefig(path, dpi=90)


def _line(style: tuple[str, str, str], *, marked: bool = False) -> dict[str, Any]:
    colour, line, marker = style
    return {"color": colour, "linestyle": line, "linewidth": 1.6, "marker": marker if marked else "", "markersize": 4}


def _depth(axis: Any, observation: Observation, style: tuple[str, str, str]) -> None:
    axis.loglog(EDGES, np.maximum(observation.depth, 0.1), label=observation.name, **_line(style, marked=True))
    axis.set(title="Depth of a side", xlabel="steps from the middle", ylabel="clips displayed up to there")


def _sizes(axis: Any, observation: Observation, style: tuple[str, str, str]) -> None:
    sizes = np.sort(np.array(observation.sizes) / observation.clip)
    shares = np.linspace(0, 1, len(sizes))
    places = np.unique(np.linspace(0, len(sizes) - 1, 400).astype(int))
    axis.semilogx(sizes[places], shares[places], **_line(style))
    axis.set(title="Sizes of orders", xlabel="clips", ylabel="share of orders that are smaller", xlim=(1e-2, 1e2))


def _spread(axis: Any, observation: Observation, style: tuple[str, str, str]) -> None:
    steps = np.arange(0, 13)
    axis.plot(steps, [(observation.spreads <= step).mean() for step in steps], **_line(style, marked=True))
    axis.set(title="Spread", xlabel="steps", ylabel="share of seconds with that or less", ylim=(0, 1.02))


def _path(axis: Any, observation: Observation, style: tuple[str, str, str]) -> None:
    axis.plot(
        np.arange(len(observation.mids)) / 60,
        observation.mids - observation.mids[0],
        **{**_line(style), "linewidth": 1.0},
    )
    axis.set(title="Middle of the best prices", xlabel="minutes", ylabel="steps from where it began")


def _tails(axis: Any, observation: Observation, style: tuple[str, str, str]) -> None:
    moves = np.abs(observation.returns(1))
    moves = np.sort(moves / moves.std())[::-1]
    shares = np.arange(1, len(moves) + 1) / len(moves)
    axis.loglog(moves[moves > 0], shares[moves > 0], **_line(style))
    axis.set(title="Moves in a second: tails", xlabel="standard deviations", ylabel="share of seconds with more")
    axis.set_xlim(0.1, 40)


def _memory(axis: Any, observation: Observation, style: tuple[str, str, str]) -> None:
    moves = observation.returns(1)
    axis.plot(_LAGS, [autocorrelation(np.abs(moves), lag) for lag in _LAGS], **_line(style, marked=True))
    axis.plot(_LAGS, [autocorrelation(moves, lag) for lag in _LAGS], **{**_line(style), "linewidth": 0.9})
    axis.axhline(0, color="#666666", linewidth=0.8)
    axis.set(
        title="Memory: size of moves (thin: with sign)", xlabel="seconds later", ylabel="autocorrelation"
    )  # fmt: skip
