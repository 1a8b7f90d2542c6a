"""Base of the strategies that trade on the shape of the book.

They compare the distances of the volume-weighted prices of both sides from the last price exactly: as integers over a
common denominator.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from sortedcontainers import SortedDict

from algo_engine.desk.order import Side
from algo_engine.strategies._limits import AtLeastZero
from algo_engine.strategies._taking import Taker, TakerParameters
from algo_engine.strategy import Context
from algo_engine.views.contents import Row, ViewChange, ViewContents

__all__ = ["Distances", "ShapeParameters", "ShapeTaker"]

LAST_VIEW: Final = "trades_1s"
"""View with the last prices."""
WHOLE_VIEW: Final = "vwap_book"
"""View with the sums of whole books."""
NEAR_VIEW: Final = "book_depth"
"""View with the levels of books, for sums of the levels near the last price."""


class Distances(msgspec.Struct, frozen=True, gc=False):
    """Distances of the bids below the last price and of the asks above it, in ticks × ``scale``."""

    below: int
    """Last price minus the bids' volume-weighted price, at least 0."""
    above: int
    """The asks' volume-weighted price minus the last price, at least 0."""
    scale: int
    """Product of the lots of both sides; above 0."""


class BookSums(msgspec.Struct, frozen=True, gc=False):
    """Volume and value (ticks × lots) of both sides of a symbol's book."""

    bid_value: int
    bid_lots: int
    ask_value: int
    ask_lots: int

    def distances(self, last_ticks: int) -> Distances | None:
        """Return the distances from the last price; None if a side is empty.

        >>> BookSums(98 * 700, 700, 108 * 300, 300).distances(100)
        Distances(below=420000, above=1680000, scale=210000)
        """
        if not (self.bid_lots and self.ask_lots):
            return None
        below = max(0, last_ticks * self.bid_lots - self.bid_value) * self.ask_lots
        above = max(0, self.ask_value - last_ticks * self.ask_lots) * self.bid_lots
        return Distances(below, above, self.bid_lots * self.ask_lots)


def whole_sums(contents: ViewContents, symbol: str) -> BookSums | None:
    """Return the sums of all resting orders, from ``vwap_book``; None if a side is empty."""
    rows = {row["side"]: row for row in contents.select(symbol=symbol)}
    bids, asks = rows.get(Side.BUY.value), rows.get(Side.SELL.value)
    if not (bids and asks and bids["volume"] and asks["volume"]):
        return None
    return BookSums(int(bids["price_volume"]), int(bids["volume"]), int(asks["price_volume"]), int(asks["volume"]))


class LastPrices:
    """Price of the latest trade of every symbol, from the bars of ``trades_1s``."""

    def __init__(self) -> None:
        self._closes: dict[str, tuple[int, int]] = {}

    def learn(self, rows: Iterable[Row]) -> None:
        """Apply bars; a bar older than the latest one has no effect."""
        for row in rows:
            symbol, second = str(row["symbol"]), int(row["second"])
            if row["close"] is not None and second >= self._closes.get(symbol, (second, 0))[0]:
                self._closes[symbol] = (second, int(row["close"]))

    def get(self, symbol: str) -> int | None:
        """Return the price in ticks; None before the first trade."""
        close = self._closes.get(symbol)
        return None if close is None else close[1]


class _Near:
    """One side of one book: all its levels, and the sums of the levels inside a window of prices."""

    def __init__(self) -> None:
        self.levels: Any = SortedDict()  # price → lots
        self.low = self.high = 0
        self.value = self.lots = 0

    def put(self, price_ticks: int, volume_lots: int, sign: int) -> None:
        """Add a row of the view (sign 1) or remove it (-1)."""
        lots = self.levels.get(price_ticks, 0) + sign * volume_lots
        if lots:
            self.levels[price_ticks] = lots
        else:
            self.levels.pop(price_ticks, None)
        if self.low <= price_ticks <= self.high:
            self.value += sign * price_ticks * volume_lots
            self.lots += sign * volume_lots

    def move(self, low: int, high: int) -> None:
        """Move the window, and sum its levels. O(log levels + levels inside)."""
        self.low, self.high = low, high
        inside = [(price, self.levels[price]) for price in self.levels.irange(low, high)]
        self.value, self.lots = sum(price * lots for price, lots in inside), sum(lots for _, lots in inside)


class NearBooks:
    """Sums of the orders within some distance of the last price, from ``book_depth``.

    When the last price moves, the window moves with it and is summed again. A change of a level inside the window is
    only added to the sums or subtracted from them. Bids above the last price and asks below it count too.
    """

    def __init__(self, depth_bps: int) -> None:
        self._depth_bps = depth_bps
        self._sides: dict[tuple[str, str], _Near] = {}
        self._last_ticks: dict[str, int] = {}

    def apply(self, change: ViewChange) -> None:
        """Apply a change of ``book_depth``."""
        if change.is_snapshot:
            self._sides.clear()
            self._last_ticks.clear()
        self.learn(change.removed, -1)
        self.learn(change.added)

    def learn(self, rows: Iterable[Row], sign: int = 1) -> None:
        """Add rows of ``book_depth``, or with sign -1 remove them."""
        for row in rows:
            self._side(row["symbol"], row["side"]).put(row["price"], int(row["volume"]), sign)

    def sums(self, symbol: str, last_ticks: int) -> BookSums:
        """Return the sums around this last price."""
        bids, asks = self._side(symbol, Side.BUY.value), self._side(symbol, Side.SELL.value)
        if self._last_ticks.get(symbol) != last_ticks:
            self._last_ticks[symbol] = last_ticks
            away = last_ticks * self._depth_bps // 10_000
            for side in (bids, asks):
                side.move(last_ticks - away, last_ticks + away)
        return BookSums(bids.value, bids.lots, asks.value, asks.lots)

    def _side(self, symbol: str, side: str) -> _Near:
        near = self._sides.get((symbol, side))
        if near is None:
            near = self._sides[symbol, side] = _Near()
        return near


class ShapeParameters(TakerParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters of every strategy that compares the sides of the book."""

    depth_bps: AtLeastZero = 0
    """Distance from the last price in hundredths of a percent beyond which orders are left out; 0 counts all orders."""


S = TypeVar("S", bound=ShapeParameters)


class ShapeTaker(Taker[S], abc.ABC):
    """Takes liquidity on the side that `leaning` returns."""

    def __init__(self, parameters: S) -> None:
        super().__init__(parameters)
        self._near = NearBooks(parameters.depth_bps) if parameters.depth_bps else None
        self._last = LastPrices()
        self._book_view = WHOLE_VIEW if self._near is None else NEAR_VIEW
        self.views = (self._book_view, LAST_VIEW)

    @abc.abstractmethod
    def leaning(self, symbol: str, distances: Distances) -> Side | None:
        """Return the side to trade on, None for none."""

    def on_start(self, context: Context) -> None:
        """Read the last prices and the levels."""
        self._last.learn(context.view(LAST_VIEW).rows())
        if self._near is not None:
            self._near.learn(context.view(NEAR_VIEW).rows())

    def on_view_change(self, change: ViewChange) -> None:
        """Evaluate every symbol whose book or last price changed."""
        if change.view == LAST_VIEW:
            self._last.learn(change.added)
        elif change.view == self._book_view and self._near is not None:
            self._near.apply(change)
        self.evaluate(sorted({str(row["symbol"]) for row in (*change.added, *change.removed)}))

    def side_of(self, symbol: str) -> Side | None:
        """Return the side to trade on; None before the first trade and while a side is empty."""
        last_ticks = self._last.get(symbol)
        sums = None if last_ticks is None else self._sums(symbol, last_ticks)
        distances = None if last_ticks is None or sums is None else sums.distances(last_ticks)
        return None if distances is None else self.leaning(symbol, distances)

    def _sums(self, symbol: str, last_ticks: int) -> BookSums | None:
        if self._near is not None:
            return self._near.sums(symbol, last_ticks)
        return whole_sums(self.context.view(WHOLE_VIEW), symbol)
