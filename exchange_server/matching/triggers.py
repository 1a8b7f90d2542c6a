"""Triggers of live orders: a price that a trade reaches (stop orders) or a time (orders that expire)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from sortedcontainers import SortedList

from exchange_server.matching.order import EXPIRES, STOP, Order

__all__ = ["Expiries", "Stops"]

_FAR: Final = 1 << 64
_NEVER: Final = 2**63 - 1
_SPARE: Final = 64


class Stops:
    """Stop orders of one symbol, sorted by their stop prices, and the price range of its trades since the last check.

    A key consists of the stop price (negative for sells), the number of the arrival and the order's id. Trades reach
    the orders of a side in the order of their keys.
    """

    __slots__ = ("_arrivals", "_buys", "_keys", "_sells", "high", "low")

    def __init__(self) -> None:
        # A client may have many stop orders: a plain list would move all later entries at each insertion and removal.
        self._buys: SortedList[tuple[int, int, int]] = SortedList()
        self._sells: SortedList[tuple[int, int, int]] = SortedList()
        self._keys: dict[int, tuple[int, int, int]] = {}
        self._arrivals = 0
        self.high = -_FAR
        """Highest price of a trade since the last call of `reached`."""
        self.low = _FAR
        """Lowest price of a trade since the last call of `reached`."""

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, order: Order) -> None:
        """Queue an order behind all others of its stop price."""
        self._arrivals += 1
        is_buy = order.side == "B"
        key = (order.stop_ticks if is_buy else -order.stop_ticks, self._arrivals, order.order_id)
        self._keys[order.order_id] = key
        (self._buys if is_buy else self._sells).add(key)

    def remove(self, order: Order) -> None:
        """Remove an order."""
        keys = self._buys if order.side == "B" else self._sells
        keys.remove(self._keys.pop(order.order_id))

    def traded(self, price_ticks: int) -> None:
        """Record the price of a trade."""
        self.high = max(self.high, price_ticks)
        self.low = min(self.low, price_ticks)

    def reached(self) -> list[int]:
        """Return the ids of the orders that trades have reached since the last call, in the order of their entry.

        Buys come before sells; the orders of a side are sorted by their keys.
        """
        if self.high == -_FAR:
            return []
        order_ids = [key[2] for key in self._buys.irange(maximum=(self.high + 1,))]
        order_ids += [key[2] for key in self._sells.irange(maximum=(1 - self.low,))]
        self.high, self.low = -_FAR, _FAR
        return order_ids

    def _check(self, name: str, waiting: Mapping[int, Order]) -> None:
        """Assert every invariant."""
        stops = {order_id: order for order_id, order in waiting.items() if order.flags & STOP}
        assert stops.keys() == self._keys.keys(), f"{name}: stops and waiting orders differ"
        for side, keys in (("B", self._buys), ("S", self._sells)):
            assert list(keys) == sorted(keys), f"{name} {side}: stops out of order"
            assert {key[2] for key in keys} == {each for each, order in stops.items() if order.side == side}
            assert all(abs(key[0]) == stops[key[2]].stop_ticks for key in keys), f"{name}: a stop at another price"


class Expiries:
    """Times at which the live orders of all books of a market expire.

    The entry of an ended order stays in the heap until its time comes or the entries of ended orders outnumber the
    others: memory is bounded by the live orders.
    """

    __slots__ = ("_heap", "_limit", "_orders_at", "next_due_ns")

    def __init__(self, orders_at: Sequence[Mapping[int, Order]]) -> None:
        """Create an empty heap; ``orders_at`` are the live orders by the locate of their book and then by id."""
        self._orders_at = orders_at
        self._heap: list[tuple[int, int, int]] = []
        """Times, ids and locates of orders, including ended ones."""
        self._limit = _SPARE
        """Number of entries at which the entries of ended orders are dropped."""
        self.next_due_ns = _NEVER
        """Market time before which no live order expires."""

    def __len__(self) -> int:
        """Return the number of entries, including those of ended orders."""
        return len(self._heap)

    def add(self, order: Order) -> None:
        """Record when a live order expires."""
        heap = self._heap
        if len(heap) >= self._limit:
            heap[:] = [entry for entry in dict.fromkeys(heap) if self._order_of(entry) is not None]
            heapify(heap)
            self._limit = 2 * len(heap) + _SPARE
        heappush(heap, (order.expire_ns, order.order_id, order.locate))
        self.next_due_ns = heap[0][0]

    def next_expired(self, time_ns: int) -> Order | None:
        """Return the live order that expires first, or None if no live order expires by `time_ns`.

        The caller ends the order before it calls for the next.
        """
        heap = self._heap
        while heap and heap[0][0] <= time_ns:
            order = self._order_of(heappop(heap))
            if order is not None:
                return order
        self.next_due_ns = heap[0][0] if heap else _NEVER
        return None

    def restore(self, orders: Iterable[Order]) -> None:
        """Replace the entries by the entries of a snapshot's live orders."""
        self._heap = [(order.expire_ns, order.order_id, order.locate) for order in orders if order.flags & EXPIRES]
        heapify(self._heap)
        self.next_due_ns = self._heap[0][0] if self._heap else _NEVER

    def _order_of(self, entry: tuple[int, int, int]) -> Order | None:
        _, order_id, locate = entry
        return self._orders_at[locate].get(order_id)

    def _check(self, live: Mapping[int, Order]) -> None:
        """Assert every invariant."""
        entered = {order_id for _, order_id, _ in self._heap}
        for order_id, order in live.items():
            if order.flags & EXPIRES:
                assert order_id in entered, f"{order} will not expire"
                assert order.expire_ns >= self.next_due_ns, f"{order} expires unnoticed"
