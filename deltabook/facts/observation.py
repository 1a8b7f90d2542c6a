"""Observations of a market, second by second and event by event."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from exchange_server.matching import Book, Now, Silence
from exchange_server.matching.order import Order

__all__ = ["EDGES", "FeedObserver", "Observation"]

EDGES: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Distances from the middle, in steps, up to which displayed lots are added up."""
_MOST_GAPS: Final = 2_000_000
"""Times between orders that are kept, the first ones."""


class FeedObserver(Silence):
    """Counts displayed orders that came and that were cancelled, adds up who took, and keeps the times between orders.

    It observes one symbol, the market's first by default.
    """

    __slots__ = ("_last_ns", "_locate", "_now", "added_orders", "bought_lots", "deleted_orders", "gaps_ns")

    def __init__(self, now: Now | None = None, locate: int = 1) -> None:
        self._now, self._locate = now, locate
        self._last_ns = 0
        self.added_orders = 0
        """Displayed orders that came."""
        self.deleted_orders = 0
        """Displayed orders that were cancelled."""
        self.bought_lots = 0
        """Lots that were taken from sellers, less those that were taken from buyers."""
        self.gaps_ns: list[int] = []
        """Times between displayed orders."""

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
    """Observation of one market: arrays with an entry a second, and the sizes of all orders; prices in steps."""

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
        """Times between displayed orders; empty where they are not known."""
        self.sizes: list[int] = []
        """Lots of every order that was entered."""
        self.orders = 0
        """Entered while it was watched."""
        self.trades = 0
        self.added = 0
        """Displayed orders that came."""
        self.deleted = 0
        """Displayed orders that were cancelled."""

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
        """Middle of the best prices."""
        return np.array(self._mids)

    @property
    def spreads(self) -> npt.NDArray[np.float64]:
        """Distance of the best prices."""
        return np.array(self._spreads)

    @property
    def trades_per_s(self) -> npt.NDArray[np.int64]:
        """Trades of each second."""
        trades = np.array(self._trades, np.int64)
        return trades[1:] - trades[:-1]

    @property
    def bought_per_s(self) -> npt.NDArray[np.float64]:
        """Lots bought net of each second, in clips."""
        return np.diff(np.array(self._bought, np.float64)) / self.clip

    @property
    def orders_per_s(self) -> npt.NDArray[np.int64]:
        """Displayed orders of each second."""
        orders = np.array(self._orders, np.int64)
        return orders[1:] - orders[:-1]

    @property
    def seconds(self) -> int:
        """Looks at a book with two sides."""
        return len(self._mids)

    @property
    def clip(self) -> float:
        """The median size of an order."""
        return float(np.median(self.sizes))

    @property
    def depth(self) -> npt.NDArray[np.float64]:
        """Displayed lots of a side up to each of `EDGES`, on average, in clips."""
        depths: npt.NDArray[np.float64] = np.array(self._depths, np.float64).mean(axis=0)
        return depths / self.clip

    def returns(self, seconds: int) -> npt.NDArray[np.float64]:
        """Moves of the middle over so many seconds."""
        return np.diff(self.mids[::seconds])
