"""Orders that end at a time of their own."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from exchange_server.matching.order import EXPIRES, Order

if TYPE_CHECKING:
    from exchange_server.matching.floor import Floor

__all__ = ["next_expired", "restore_expiries", "will_expire"]

_NEVER: Final = 2**63 - 1
_SPARE: Final = 64


def will_expire(floor: Floor, order: Order) -> None:
    """Note when a live order ends.

    Orders that are gone stay in the heap until their time comes, or until they are more than the live ones.
    """
    heap = floor.expiries
    if len(heap) >= floor.most_expiries:
        heap[:] = [entry for entry in dict.fromkeys(heap) if _order_of(floor, entry) is not None]
        heapify(heap)
        floor.most_expiries = 2 * len(heap) + _SPARE
    heappush(heap, (order.expire_ns, order.order_id, order.locate))
    floor.next_due_ns = heap[0][0]


def _order_of(floor: Floor, entry: tuple[int, int, int]) -> Order | None:
    _, order_id, locate = entry
    book = floor.book_at[locate]
    return None if book is None else book.orders.get(order_id)


def next_expired(floor: Floor, time_ns: int) -> Order | None:
    """The live order whose time came first, None if there is none; it must end before the next is asked for."""
    heap = floor.expiries
    while heap and heap[0][0] <= time_ns:
        order = _order_of(floor, heappop(heap))
        if order is not None:
            return order
    floor.next_due_ns = heap[0][0] if heap else _NEVER
    return None


def restore_expiries(floor: Floor) -> None:
    """Find out anew what expires when, from the orders themselves."""
    books = (book for book in floor.book_at if book is not None)
    live = (order for book in books for order in book.orders.values() if order.flags & EXPIRES)
    floor.expiries[:] = [(order.expire_ns, order.order_id, order.locate) for order in live]
    heapify(floor.expiries)
    floor.next_due_ns = floor.expiries[0][0] if floor.expiries else _NEVER
