"""Observations of a market, second by second and event by event.

They are made of an exchange's journal, live or simulated, of recorded files, and of the BTC/USD recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.flow import Flow
from deltabook.wire.symbols import Instrument
from exchange_server.journal.history import History
from exchange_server.matching import AnyInput, Book, Enter, Market, MarketRules, Now, Recorded, Replace, Silence
from exchange_server.matching.order import Order
from exchange_server.outputs import all_outputs
from exchange_server.replay import BitstampLoader

__all__ = ["EDGES", "FeedObserver", "Observation", "watch_capture", "watch_files", "watch_journal"]

EDGES: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Distances from the middle, in steps, up to which displayed lots are added up."""
_MOST_GAPS: Final = 2_000_000
"""Greatest number of times between orders that are kept, the first ones."""


class FeedObserver(Silence):
    """Counts displayed orders that were added and cancelled, sums the lots that were taken, and keeps the times between
    orders.

    It observes one symbol, the market's first by default.
    """

    __slots__ = ("_last_ns", "_locate", "_now", "added_orders", "bought_lots", "deleted_orders", "gaps_ns")

    def __init__(self, now: Now | None = None, locate: int = 1) -> None:
        self._now, self._locate = now, locate
        self._last_ns = 0
        self.added_orders = 0
        """Number of displayed orders that were added."""
        self.deleted_orders = 0
        """Number of displayed orders that were cancelled."""
        self.bought_lots = 0
        """Lots taken from sellers less lots taken from buyers."""
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
            self.bought_lots += volume if order.side == "S" else -volume

    def deleted(self, order: Order, volume: int) -> None:
        self.deleted_orders += order.locate == self._locate

    def replaced(self, old: Order, order: Order) -> None:
        self.deleted(old, old.volume)
        self.added(order)


class Observation:
    """Observation of one market: arrays with an entry per second, and the sizes of all orders; prices are in steps."""

    def __init__(self, name: str, step_ticks: int) -> None:
        self.name = name
        self.step_ticks = step_ticks
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

    def look(self, book: Book, trades: int, bought_lots: int = 0, orders: int = 0) -> None:
        """Record the end of a second; trades, lots bought net and displayed orders are totals so far."""
        bid, ask = book.best("B"), book.best("S")
        if not bid or not ask:
            return
        mid = (bid + ask) / 2
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
        """Middle of the best prices, at each second."""
        return np.array(self._mids)

    @property
    def spreads(self) -> npt.NDArray[np.float64]:
        """Distance of the best prices, at each second."""
        return np.array(self._spreads)

    @property
    def trades_per_s(self) -> npt.NDArray[np.int64]:
        """Number of trades in each second."""
        trades = np.array(self._trades, np.int64)
        return trades[1:] - trades[:-1]

    @property
    def bought_per_s(self) -> npt.NDArray[np.float64]:
        """Net lots bought in each second, in clips."""
        return np.diff(np.array(self._bought, np.float64)) / self.clip

    @property
    def orders_per_s(self) -> npt.NDArray[np.int64]:
        """Number of displayed orders in each second."""
        orders = np.array(self._orders, np.int64)
        return orders[1:] - orders[:-1]

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
        """Return the moves of the middle over intervals of this many seconds."""
        return np.diff(self.mids[::seconds])


_CAPTURE_STEP_TICKS: Final = 100
"""Ticks of a step: nearly all orders of the recording are at whole dollars."""
_SNAPSHOT_RECORDS: Final = 6_513
"""Number of records that make up the recording's initial book."""
_SECOND_NS: Final = 10**9
_WARM_S: Final = 10
_LEAST_SECONDS: Final = 60
"""Least number of seconds with a book of two sides, for figures of tails and memory."""
_STEP_BPS: Final = 2.0
"""Size of a step of an instrument with a reference price, in basis points, as for the agents."""


class _Watch:
    """A market, one book of which is observed after each second of market time."""

    def __init__(self, name: str, rules: MarketRules, symbol: str, step_ticks: int, warm_s: int) -> None:
        now = Now()
        locate = [instrument.symbol for instrument in rules.instruments].index(symbol) + 1
        self._feed = FeedObserver(now, locate)
        self.market = Market(rules, (self._feed,), (), now)
        self._book: Book = self.market.books[symbol]
        self.seen = Observation(name, step_ticks)
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
                self._before = market.trades, feed.added_orders, feed.deleted_orders, market.orders
                feed.gaps_ns.clear()
            if self._book.phase == "continuous":
                self.seen.look(self._book, market.trades, feed.bought_lots, feed.added_orders)
            self._next_ns += _SECOND_NS

    def entered(self, lots: int) -> None:
        """Count an order that was sent."""
        if self.is_begun:
            self.seen.sizes.append(lots)
            self.seen.orders += 1

    def finish(self) -> Observation:
        """Return the observation; raise `ConfigurationError` if it is too short."""
        trades, added, deleted, orders = self._before or (0, 0, 0, 0)
        seen = self.seen
        seen.trades = self.market.trades - trades
        if len(self.market.books) == 1:
            # The count includes orders that executions of a recording stand for.
            seen.orders = self.market.orders - orders
        seen.added, seen.deleted = self._feed.added_orders - added, self._feed.deleted_orders - deleted
        seen.gaps_ns = self._feed.gaps_ns
        if seen.seconds < _LEAST_SECONDS or not seen.trades or not seen.sizes:
            raise ConfigurationError(
                f"expected {_LEAST_SECONDS} seconds of a book of {self._symbol} with two sides, and trades, was "
                f"{seen.seconds} s with {seen.trades} trades"
            )
        return seen


def _step(instrument: Instrument, step_ticks: int) -> int:
    return step_ticks or max(1, round(instrument.reference_price_ticks * _STEP_BPS / 10_000))


def _chosen(instruments: Sequence[Instrument], symbol: str) -> Instrument:
    known = {instrument.symbol: instrument for instrument in instruments}
    if symbol and symbol not in known:
        raise ConfigurationError(f"expected one of the symbols {', '.join(known)}, was {symbol}")
    return known[symbol] if symbol else instruments[0]


def watch_journal(directory: Path, symbol: str = "", step_ticks: int = 0, warm_s: int = _WARM_S) -> Observation:
    """Observe one symbol of the exchange in a directory from its first input on; raise the errors of reading a
    journal.
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
    """Observe one symbol of recorded files, played as orders."""
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
    """Observe the recording of BTC/USD, played as orders, after its initial snapshot."""
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
