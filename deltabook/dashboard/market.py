"""The market as the views show it, for every symbol: book, best prices, recent trades and averages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from sortedcontainers import SortedDict

from deltabook.dashboard.bars import BAR_VIEWS, KEPT_S, Bar, Bars, TapeTrade
from deltabook.wire.results import WEIGHT, Frame

__all__ = ["VIEWS", "Average", "DisplayedLevel", "DisplayedMarket", "Quote"]

_BAR_COLUMNS: Final = ("symbol", "t", "open", "high", "low", "close", "volume", "trades")

VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    "best_quote": ("symbol", "bid_price", "bid_volume", "ask_price", "ask_volume"),
    "book_depth": ("symbol", "side", "price", "volume", "orders"),
    "tape": ("symbol", "match_id", "t", "price", "volume"),
    "vwap_book": ("symbol", "side", "price_volume", "volume"),
    "vwap_trades": ("symbol", "price_volume", "volume", "trades"),
    **dict.fromkeys(BAR_VIEWS, _BAR_COLUMNS),
}
"""Columns that are read of each view or derived stream, as the queries that ship with Deltabook name them."""
MOST_SYMBOLS: Final = 10_000
"""Greatest number of symbols; rows of further symbols are ignored."""

_Row = tuple[Any, ...]


class DisplayedLevel(msgspec.Struct, frozen=True):
    """Displayed orders at one price."""

    price_ticks: int
    """Price in ticks."""
    volume_lots: int
    """Total number of lots."""
    orders: int
    """Number of orders; 0 if only the best prices are known."""


class Quote(msgspec.Struct, frozen=True):
    """Best bid and ask; None on a side without orders."""

    bid_ticks: int | None
    """Best bid in ticks."""
    bid_lots: int | None
    """Number of lots at the best bid."""
    ask_ticks: int | None
    """Best ask in ticks."""
    ask_lots: int | None
    """Number of lots at the best ask."""


class Average(msgspec.Struct, frozen=True):
    """The two sums of a volume-weighted average price."""

    price_volume: int
    """Sum of price × volume, in ticks × lots."""
    volume: int
    """Sum of the volumes, in lots."""


class DisplayedMarket:
    """State of all symbols. A view without a snapshot is unknown, which differs from empty."""

    def __init__(self, bars: Bars | None = None) -> None:
        """Make a market; ``bars`` receives candles and trades too."""
        self._bars = bars
        self.books: dict[tuple[str, str], SortedDict] = {}
        """Level by price in ticks, by symbol and side (B or S)."""
        self.quotes: dict[str, Quote] = {}
        """Best prices by symbol."""
        self.tapes: dict[str, SortedDict] = {}
        """Trade by number, by symbol."""
        self.book_averages: dict[tuple[str, str], Average] = {}
        """Average over all resting orders, by symbol and side (B or S)."""
        self.trade_averages: dict[str, Average] = {}
        """Average over the recent trades, by symbol."""
        self.known: set[str] = set()
        """Views whose snapshot has been received."""
        self.changed: set[str] = set()
        """Symbols that have changed since they were last displayed; the code that displays a symbol removes it from the
        set.
        """
        self._symbols: dict[str, None] = {}
        self._enter: dict[str, Callable[[_Row], None]] = {
            "best_quote": self._enter_quote,
            "book_depth": self._enter_level,
            "tape": self._enter_trade,
            "vwap_book": self._enter_book_average,
            "vwap_trades": self._enter_trade_average,
        }
        self._remove: dict[str, Callable[[_Row], None]] = {
            "best_quote": lambda row: self._drop(self.quotes, row[0]),
            "book_depth": lambda row: self._drop_inside(self.books, (row[0], row[1]), row[2]),
            "tape": lambda row: self._drop_inside(self.tapes, row[0], row[1]),
            "vwap_book": lambda row: self._drop(self.book_averages, (row[0], row[1])),
            "vwap_trades": lambda row: self._drop(self.trade_averages, row[0]),
        }
        self._rows_of: dict[str, dict[Any, Any]] = {
            "best_quote": self.quotes,
            "book_depth": self.books,
            "tape": self.tapes,
            "vwap_book": self.book_averages,
            "vwap_trades": self.trade_averages,
        }

    @property
    def symbols(self) -> list[str]:
        """All symbols that were ever seen, sorted."""
        return sorted(self._symbols)

    def has(self, symbol: str) -> bool:
        """Return True if a symbol was ever seen."""
        return symbol in self._symbols

    def apply(self, frame: Frame) -> None:
        """Enter a frame of one of `VIEWS`; other frames, and heartbeats, have no effect."""
        view, rows = frame.header.view, frame.rows
        if view not in VIEWS or rows is None or frame.header.kind not in ("snapshot", "changes"):
            return
        is_snapshot = frame.header.kind == "snapshot"
        if is_snapshot:
            self.changed.update(self._symbols)
            self._rows_of.get(view, {}).clear()
            self.known.add(view)
        elif view not in self.known:
            return
        if view in BAR_VIEWS:
            self._apply_bars(BAR_VIEWS[view], rows, is_snapshot=is_snapshot)
            return
        columns = [rows.column(name).to_pylist() for name in VIEWS[view]]
        added = self._apply(view, list(zip(*columns, strict=True)), rows.column(WEIGHT).to_pylist())
        if view == "tape" and self._bars is not None:
            trades: defaultdict[str, list[TapeTrade]] = defaultdict(list)
            for symbol, *rest in sorted(added, key=lambda row: int(row[1])):
                trades[symbol].append(TapeTrade(*map(int, rest)))
            for symbol, each in trades.items():
                self._bars.enter_trades(symbol, each, is_snapshot=is_snapshot)

    def forget(self, view: str) -> None:
        """Forget a view that the runtime has dropped or does not maintain any more."""
        if view in self.known:
            self.known.discard(view)
            self._rows_of.get(view, {}).clear()
            self.changed.update(self._symbols)

    def levels(self, symbol: str, side: str, most: int) -> Iterator[DisplayedLevel]:
        """Return the best levels of a side, B or S, best first."""
        book = self.books.get((symbol, side))
        if book is None:
            return iter(())
        values = book.values()
        return islice(reversed(values) if side == "B" else iter(values), most)

    def trades(self, symbol: str, most: int) -> Iterator[TapeTrade]:
        """Return the newest trades, newest first."""
        tape = self.tapes.get(symbol)
        return islice(reversed(tape.values()), most) if tape is not None else iter(())

    def last(self, symbol: str) -> TapeTrade | None:
        """Return the newest trade; None if there is none."""
        return next(self.trades(symbol, 1), None)

    def _apply_bars(self, width_s: int, rows: pa.Table, *, is_snapshot: bool) -> None:
        """Enter candles that are new enough to be kept; the removal of old candles from their stream has no effect."""
        if self._bars is None or not rows.num_rows:
            return
        newest_ns = pc.max(rows.column("t")).as_py()
        is_kept = pc.greater_equal(rows.column("t"), newest_ns - KEPT_S[width_s] * 10**9)
        rows = rows.filter(pc.and_(is_kept, pc.greater(rows.column(WEIGHT), 0)))
        columns = [rows.column(name).to_pylist() for name in _BAR_COLUMNS]
        bars = [(symbol, Bar(t // 10**9, *map(int, rest))) for symbol, t, *rest in zip(*columns, strict=True)]
        self._bars.enter_bars(width_s, bars, is_snapshot=is_snapshot)
        for symbol in {symbol for symbol, _ in bars}:
            self._note_change(symbol)

    def _apply(self, view: str, rows: Iterable[_Row], weights: Iterable[int]) -> list[_Row]:
        """Enter and remove rows; return those that were added."""
        enter, remove = self._enter[view], self._remove[view]
        added: list[_Row] = []
        for row, weight in zip(rows, weights, strict=True):
            if weight > 0:
                added.append(row)
            else:
                remove(row)
        # Additions are entered last: the old and the new row of a key come in one frame, in any order.
        for row in added:
            if self._note_change(row[0]):
                enter(row)
        return added

    def _note_change(self, symbol: str) -> bool:
        """Note that a symbol has changed; return False for a new symbol beyond `MOST_SYMBOLS`."""
        is_followed = symbol in self._symbols or len(self._symbols) < MOST_SYMBOLS
        if is_followed:
            self._symbols[symbol] = None
            self.changed.add(symbol)
        return is_followed

    def _drop(self, rows: dict[Any, Any], key: Any) -> None:
        if rows.pop(key, None) is not None:
            self.changed.add(key if isinstance(key, str) else key[0])

    def _drop_inside(self, rows: dict[Any, SortedDict], key: Any, inner: int) -> None:
        inside = rows.get(key)
        if inside is not None and inside.pop(inner, None) is not None:
            self.changed.add(key if isinstance(key, str) else key[0])
            if not inside:
                del rows[key]

    def _enter_quote(self, row: _Row) -> None:
        self.quotes[row[0]] = Quote(_whole(row[1]), _whole(row[2]), _whole(row[3]), _whole(row[4]))

    def _enter_level(self, row: _Row) -> None:
        book = self.books.setdefault((row[0], row[1]), SortedDict())
        book[row[2]] = DisplayedLevel(int(row[2]), int(row[3]), int(row[4]))

    def _enter_trade(self, row: _Row) -> None:
        self.tapes.setdefault(row[0], SortedDict())[row[1]] = TapeTrade(
            int(row[1]), int(row[2]), int(row[3]), int(row[4])
        )

    def _enter_book_average(self, row: _Row) -> None:
        self.book_averages[row[0], row[1]] = Average(int(row[2]), int(row[3]))

    def _enter_trade_average(self, row: _Row) -> None:
        self.trade_averages[row[0]] = Average(int(row[1]), int(row[2]))


def _whole(value: Any) -> int | None:
    """Return a sum as an integer: wide sums come as decimals without a fraction."""
    return None if value is None else int(value)
