"""Observation of an exchange's journal, live or simulated, of recorded files, and of the BTC/USD recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.flow import Flow
from deltabook.facts.observation import FeedObserver, Observation
from deltabook.wire.symbols import Instrument
from exchange_server.journal.history import History
from exchange_server.matching import AnyInput, Book, Enter, Market, MarketRules, Now, Recorded, Replace
from exchange_server.outputs import all_outputs
from exchange_server.replay import BitstampLoader

__all__ = ["watch_capture", "watch_files", "watch_journal"]

_CAPTURE_STEP_TICKS: Final = 100
"""Nearly all orders of the recording are at whole dollars."""
_SNAPSHOT_RECORDS: Final = 6_513
"""Records of the recording that make the book with which it begins."""
_SECOND_NS: Final = 10**9
_WARM_S: Final = 10
_LEAST_SECONDS: Final = 60
"""Least seconds of a book with two sides, for figures of tails and memory."""
_STEP_BPS: Final = 2.0
"""A step of an instrument with a reference price, as of the agents."""


class _Watch:
    """A market, and one book of it that is looked at after each second of market time."""

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
        """True behind the warm-up."""
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
        """Return the observation; raises `ConfigurationError` for one that is too short."""
        trades, added, deleted, orders = self._before or (0, 0, 0, 0)
        seen = self.seen
        seen.trades = self.market.trades - trades
        if len(self.market.books) == 1:
            # With those that executions of a recording stand for.
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
    """One symbol of the exchange in a directory, from its first input on; raises what reading a journal raises."""
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
    """One symbol of recorded files, played as orders."""
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
    """The recording of BTC/USD, played as orders, from behind its snapshot on."""
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
