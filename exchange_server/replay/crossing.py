"""Rows of a recording after which its own book is crossed: the best bid at or above the best ask.

The books of an exchange are never crossed while it matches orders. A crossed row therefore shows orders that have ended
without a record: the recording has only a few levels of the book, or records are missing.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from exchange_server.matching.inputs import REMAIN
from exchange_server.replay.record import Record

__all__ = ["GRACE_NS", "CrossedRows"]

GRACE_NS: Final = 1_000_000_000
"""Time in nanoseconds for which an order may be crossed in a recording that shows orders before they trade."""


class CrossedRows:
    """Counts crossed rows of one recording; `observe` takes every record in its order.

    Some recordings, such as Bitstamp's, show an order before it trades (``is_shown_first``). The book of such a
    recording is crossed between an order and its executions, which is not a fault. A row of such a recording is
    therefore counted only if the cross is older than `GRACE_NS`. The older of the two orders is then left out, since
    its end was not recorded.

    A record costs about a microsecond; memory is bounded by the orders that the recording leaves in its book.
    """

    def __init__(self, *, is_shown_first: bool = False, outlier_factor: int = 0) -> None:
        """Create a counter; ``outlier_factor`` is that of `exchange_server.matching.MarketRules`."""
        self._grace_ns = GRACE_NS if is_shown_first else 0
        self._outlier_factor = outlier_factor
        self._books: dict[str, _RecordedBook] = {}
        self.rows = 0
        """Number of records observed."""
        self.crossed = 0
        """Number of rows that count as crossed."""
        self.stale_orders = 0
        """Number of orders left out because they stayed crossed; 0 where every crossed row counts."""

    @property
    def share(self) -> float:
        """Share of crossed rows in all rows, 0 to 1."""
        return self.crossed / self.rows if self.rows else 0.0

    def live_orders(self) -> list[tuple[str, int]]:
        """Return symbol and id of the orders that the records so far leave in the book, stale ones included."""
        return [(symbol, order_id) for symbol, book in self._books.items() for order_id in (*book.stale, *book.orders)]

    def observe(self, record: Record) -> None:
        """Process the next record."""
        self.rows += 1
        action = record.action
        book = self._books.get(record.symbol)
        if book is None:
            book = self._books[record.symbol] = _RecordedBook()
        if action in {"B", "S"}:
            if self._is_sane(book, record.price_ticks):
                book.add(record.order_id, action == "B", record.price_ticks, record.volume, record.time_ns)
        elif action == "U":
            if self._is_sane(book, record.price_ticks):
                book.replace(record)
        elif action != "T":
            book.change(record)
        if book.bid >= book.ask:
            self._count(book, record.time_ns)

    def _is_sane(self, book: _RecordedBook, price: int) -> bool:
        factor = self._outlier_factor
        if not factor:
            return True
        bid, ask = book.bid, book.ask
        if bid == _NO_BID or ask == _NO_ASK:
            mid = bid if ask == _NO_ASK else ask
            return price > 0 and (mid == _NO_BID or price <= factor * mid)
        return 0 < price <= factor * ((bid + ask) // 2)

    def _count(self, book: _RecordedBook, time_ns: int) -> None:
        if not self._grace_ns:
            self.crossed += 1
            return
        is_old = False
        while book.bid >= book.ask and time_ns - book.crossed_since_ns() > self._grace_ns:
            book.remove_older()
            self.stale_orders += 1
            is_old = True
        self.crossed += is_old


_SPARE: Final = 64
_NO_BID: Final = -1
_NO_ASK: Final = 1 << 64


class _Order:
    __slots__ = ("is_bid", "price", "time_ns", "volume")

    def __init__(self, is_bid: bool, price: int, volume: int, time_ns: int) -> None:
        self.is_bid, self.price, self.volume, self.time_ns = is_bid, price, volume, time_ns


class _RecordedBook:
    """Live orders of one symbol according to the records, and the best prices."""

    def __init__(self) -> None:
        self.bid = _NO_BID
        self.ask = _NO_ASK
        self.orders: dict[int, _Order] = {}
        self.stale: dict[int, None] = {}
        """Orders that were removed without a record of their end."""
        self._bids: dict[int, dict[int, None]] = {}
        self._asks: dict[int, dict[int, None]] = {}
        # Heaps of prices, best first. Each price with orders is in its heap at least once. The entry of a price without
        # orders is dropped when it comes first. A heap whose length is more than twice the number of prices with
        # orders, plus `_SPARE`, is replaced by a heap of these prices.
        self._bid_heap: list[int] = []
        self._ask_heap: list[int] = []

    def add(self, order_id: int, is_bid: bool, price: int, volume: int, time_ns: int) -> None:
        if order_id in self.orders or volume <= 0:
            return
        self.orders[order_id] = _Order(is_bid, price, volume, time_ns)
        levels = self._bids if is_bid else self._asks
        level = levels.get(price)
        if level is not None:
            level[order_id] = None
            return
        levels[price] = {order_id: None}
        heap, sign = (self._bid_heap, -1) if is_bid else (self._ask_heap, 1)
        if len(heap) > 2 * len(levels) + _SPARE:
            heap[:] = [sign * each for each in levels]
            heapify(heap)
        else:
            heappush(heap, sign * price)
        if is_bid:
            self.bid = max(self.bid, price)
        else:
            self.ask = min(self.ask, price)

    def change(self, record: Record) -> None:
        order = self.orders.get(record.order_id)
        if order is None:
            if record.action in {"D", "F"}:
                self.stale.pop(record.order_id, None)
            return
        action = record.action
        if action in {"E", "X"}:
            order.volume -= record.volume
        elif action in {"D", "F"}:
            order.volume = 0
        elif action == REMAIN:
            order.volume = min(order.volume, record.volume)
        if order.volume <= 0:
            self._remove(record.order_id, order)

    def replace(self, record: Record) -> None:
        order = self.orders.get(record.order_id)
        if order is not None and record.volume > 0 and record.new_id not in self.orders:
            self._remove(record.order_id, order)
            self.add(record.new_id, order.is_bid, record.price_ticks, record.volume, record.time_ns)

    def crossed_since_ns(self) -> int:
        """Return the time of the younger of the first orders at the best prices."""
        return max(self._first(True)[1].time_ns, self._first(False)[1].time_ns)

    def remove_older(self) -> None:
        """Remove the older of the first orders at the best prices."""
        order_id, order = min(self._first(True), self._first(False), key=lambda first: first[1].time_ns)
        self._remove(order_id, order)
        self.stale[order_id] = None

    def _first(self, is_bid: bool) -> tuple[int, _Order]:
        order_id = next(iter(self._bids[self.bid] if is_bid else self._asks[self.ask]))
        return order_id, self.orders[order_id]

    def _remove(self, order_id: int, order: _Order) -> None:
        del self.orders[order_id]
        levels = self._bids if order.is_bid else self._asks
        level = levels[order.price]
        del level[order_id]
        if level:
            return
        del levels[order.price]
        if order.is_bid and order.price == self.bid:
            heap = self._bid_heap
            while heap and -heap[0] not in levels:
                heappop(heap)
            self.bid = -heap[0] if heap else _NO_BID
        elif not order.is_bid and order.price == self.ask:
            heap = self._ask_heap
            while heap and heap[0] not in levels:
                heappop(heap)
            self.ask = heap[0] if heap else _NO_ASK
