"""Candles of every symbol: those of the runtime's derived streams, and later candles that are made from the tape.

The derived streams ``bars_1s`` and ``bars_1m`` deliver a bar when its time is over. This module makes the unfinished
bar, and all bars of a runtime without these streams, from the trades of ``tape``. A bar of a stream replaces a bar that
was made from trades.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from deltabook.dashboard.history import MOST_MINUTES, MOST_SECONDS, History, Series

__all__ = ["BAR_VIEWS", "Bar", "Bars", "TapeTrade"]

BAR_VIEWS: Final = {"bars_1s": 1, "bars_1m": 60}
"""Seconds of a bar, by derived stream."""
KEPT_S: Final = {1: MOST_SECONDS, 60: MOST_MINUTES * 60}
"""Time in seconds for which bars are kept, by the length of a bar in seconds."""
_BACKWARDS_NS: Final = 300 * 10**9
"""Largest time, in nanoseconds, by which a snapshot may end before the newest known time; a snapshot that ends earlier
belongs to another run of the market.
"""


class TapeTrade(msgspec.Struct, frozen=True):
    """One trade of the market."""

    number: int
    """Match number, ascending."""
    time_ns: int
    """Market time in nanoseconds, since the UTC epoch or since midnight, as in the feed."""
    price_ticks: int
    """Price in ticks."""
    volume_lots: int
    """Number of traded lots."""


class Bar(msgspec.Struct, frozen=True, array_like=True):
    """Bar of the trades of one second or minute."""

    begin_s: int
    """Market time of its beginning in seconds."""
    open: int
    """Price of the first trade in ticks."""
    high: int
    """Highest price in ticks."""
    low: int
    """Lowest price in ticks."""
    close: int
    """Price of the last trade in ticks."""
    volume: int
    """Volume in lots."""
    trades: int
    """Number of trades."""

    def with_trade(self, trade: TapeTrade) -> Bar:
        """Return the bar with one more trade."""
        price = trade.price_ticks
        high, low = max(self.high, price), min(self.low, price)
        return Bar(self.begin_s, self.open, high, low, price, self.volume + trade.volume_lots, self.trades + 1)


class _Width:
    """Bars of one width for one symbol."""

    def __init__(self, width_s: int, series: Series) -> None:
        self._width_s, self._series = width_s, series
        self._sealed_s = -1
        """Beginning of the newest bar of a stream, in seconds; -1 before the first."""
        self._made: Bar | None = None

    def clear(self, number: int) -> None:
        self._series.clear(number)
        self._sealed_s, self._made = -1, None

    def enter(self, number: int, bar: Bar) -> None:
        self._sealed_s = max(self._sealed_s, bar.begin_s)
        self._series.put(number, bar.begin_s, bar)

    def fold(self, number: int, trade: TapeTrade) -> None:
        begin_s = trade.time_ns // 10**9 // self._width_s * self._width_s
        if begin_s <= self._sealed_s:
            return
        made = self._made
        if made is not None and made.begin_s == begin_s:
            self._made = made.with_trade(trade)
        else:
            price = trade.price_ticks
            self._made = Bar(begin_s, price, price, price, price, trade.volume_lots, 1)
        self._series.put(number, begin_s, self._made)


class Bars:
    """Candles of all symbols that have a history."""

    def __init__(self, history: History, number: Callable[[], int]) -> None:
        """Make the candles; ``number`` returns the number of the next frame."""
        self.time_ns = 0
        """Market time of the newest trade, or the last nanosecond of the newest bar; 0: unknown."""
        self._history, self._number = history, number
        self._widths: dict[str, dict[int, _Width]] = {}
        self._newest_ns: dict[str, int] = {}
        """Newest market time in nanoseconds, by symbol."""
        self._folded: dict[str, tuple[int, int]] = {}
        """Time and number of the newest trade that is part of a bar, by symbol."""
        self._first: dict[str, Bar] = {}

    def enter_bars(self, width_s: int, rows: Iterable[tuple[str, Bar]], *, is_snapshot: bool) -> None:
        """Enter rows of a stream."""
        ordered = sorted(rows, key=lambda row: row[1].begin_s)
        for symbol, bar in dict(ordered).items():
            self._advance(symbol, (bar.begin_s + width_s) * 10**9 - 1, is_snapshot=is_snapshot)
        number = self._number()
        for symbol, bar in ordered:
            widths = self._of(symbol)
            if widths is not None:
                widths[width_s].enter(number, bar)
                if symbol not in self._first or bar.begin_s <= self._first[symbol].begin_s:
                    self._first[symbol] = bar

    def enter_trades(self, symbol: str, trades: Sequence[TapeTrade], *, is_snapshot: bool) -> None:
        """Enter trades, oldest first; known trades are skipped."""
        widths, number = self._of(symbol), self._number()
        if widths is None or not trades:
            return
        self._advance(symbol, trades[-1].time_ns, is_snapshot=is_snapshot)
        for trade in trades:
            at = (trade.time_ns, trade.number)
            if at > self._folded.get(symbol, (-1, -1)):
                self._folded[symbol] = at
                for width in widths.values():
                    width.fold(number, trade)
                if symbol not in self._first:
                    price = trade.price_ticks
                    self._first[symbol] = Bar(trade.time_ns // 10**9, price, price, price, price, 0, 0)

    def first(self, symbol: str) -> Bar | None:
        """Return the oldest bar that was entered in this run of the market; None if there is none."""
        return self._first.get(symbol)

    def _advance(self, symbol: str, time_ns: int, *, is_snapshot: bool) -> None:
        """Advance the market's time; a snapshot that ends long before that time is from another run of the market."""
        if is_snapshot and time_ns < self._newest_ns.get(symbol, 0) - _BACKWARDS_NS:
            self.time_ns = 0
            self._newest_ns.pop(symbol)
            self._folded.pop(symbol, None)
            self._first.pop(symbol, None)
            for width in self._widths[symbol].values():
                width.clear(self._number())
        if self._of(symbol) is not None:
            self._newest_ns[symbol] = max(self._newest_ns.get(symbol, 0), time_ns)
        self.time_ns = max(self.time_ns, time_ns)

    def _of(self, symbol: str) -> dict[int, _Width] | None:
        widths = self._widths.get(symbol)
        charted = self._history.of(symbol) if widths is None else None
        if charted is not None:
            widths = self._widths[symbol] = {1: _Width(1, charted.bars_1s), 60: _Width(60, charted.bars_1m)}
        return widths
