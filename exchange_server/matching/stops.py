"""Stop orders: what waits for a trade to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sortedcontainers import SortedList

from exchange_server.matching.order import STOP, Order

__all__ = ["Stops"]

_FAR: Final = 1 << 64


class Stops:
    """The stops of a symbol by how soon they are reached, and how far its trades have come since somebody asked.

    A key is the stop price (negative for sells), the arrival and the order's id; the first of each side is the one that
    is reached first.
    """

    __slots__ = ("_arrivals", "_buys", "_keys", "_sells", "high", "low")

    def __init__(self) -> None:
        # A client may have very many: a plain list would move all behind the place of each that comes or goes.
        self._buys: SortedList[tuple[int, int, int]] = SortedList()
        self._sells: SortedList[tuple[int, int, int]] = SortedList()
        self._keys: dict[int, tuple[int, int, int]] = {}
        self._arrivals = 0
        self.high = -_FAR
        """The highest trade since `reached`."""
        self.low = _FAR
        """The lowest."""

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, order: Order) -> None:
        """An order waits, behind all others of its stop price."""
        self._arrivals += 1
        is_buy = order.side == "B"
        key = (order.stop_ticks if is_buy else -order.stop_ticks, self._arrivals, order.order_id)
        self._keys[order.order_id] = key
        (self._buys if is_buy else self._sells).add(key)

    def remove(self, order: Order) -> None:
        """It waits no more."""
        keys = self._buys if order.side == "B" else self._sells
        keys.remove(self._keys.pop(order.order_id))

    def traded(self, price_ticks: int) -> None:
        """There was a trade."""
        self.high = max(self.high, price_ticks)
        self.low = min(self.low, price_ticks)

    def reached(self) -> list[int]:
        """Ids of the orders that trades since the last call have reached, in the order in which they enter."""
        if self.high == -_FAR:
            return []
        found = [key[2] for key in self._buys.irange(maximum=(self.high + 1,))]
        found += [key[2] for key in self._sells.irange(maximum=(1 - self.low,))]
        self.high, self.low = -_FAR, _FAR
        return found

    def _check(self, name: str, waiting: Mapping[int, Order]) -> None:
        """Assert every invariant."""
        stops = {order_id: order for order_id, order in waiting.items() if order.flags & STOP}
        assert stops.keys() == self._keys.keys(), f"{name}: stops and waiting orders differ"
        for side, keys in (("B", self._buys), ("S", self._sells)):
            assert list(keys) == sorted(keys), f"{name} {side}: stops out of order"
            assert {key[2] for key in keys} == {each for each, order in stops.items() if order.side == side}
            assert all(abs(key[0]) == stops[key[2]].stop_ticks for key in keys), f"{name}: a stop at another price"
