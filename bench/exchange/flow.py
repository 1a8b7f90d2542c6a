"""One stream of requests on one symbol, the same for every book that is measured."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from sortedcontainers import SortedDict

__all__ = ["ADD", "CANCEL", "CROSS", "Flow", "Request", "make_flow"]

ADD: Final = 0
"""Kind of a request for an order that rests."""
CANCEL: Final = 1
"""Kind of a request that ends a resting order."""
CROSS: Final = 2
"""Kind of a request for an order that executes against the best of the other side; the remainder rests."""

Request = tuple[int, int, int, int, int]
"""A request: kind, order id, side (0 buy, 1 sell), price in ticks, volume."""

_MID_TICKS: Final = 10_000
_REACH_TICKS: Final = 40
_CROSSES: Final = 0.1


class _Side:
    """Resting orders of one side in a simple form, by which the flow determines the orders that still rest."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self._levels: SortedDict[int, dict[int, int]] = SortedDict()

    def best(self) -> int | None:
        return self._sign * self._levels.peekitem(0)[0] if self._levels else None

    def add(self, order_id: int, price: int, volume: int) -> None:
        self._levels.setdefault(self._sign * price, {})[order_id] = volume

    def remove(self, order_id: int, price: int) -> None:
        level = self._levels[self._sign * price]
        del level[order_id]
        if not level:
            del self._levels[self._sign * price]

    def execute(self, volume: int, limit: int, live: dict[int, tuple[int, int]]) -> int:
        while volume and self._levels:
            key, level = self._levels.peekitem(0)
            if key > self._sign * limit:
                break
            order_id, open_volume = next(iter(level.items()))
            executed = min(volume, open_volume)
            volume -= executed
            if executed == open_volume:
                self.remove(order_id, self._sign * key)
                del live[order_id]
            else:
                level[order_id] = open_volume - executed
        return volume


class Flow(NamedTuple):
    """Requests, and the orders that a book must have afterwards."""

    filling: list[Request]
    """Requests that fill the book."""
    requests: list[Request]
    """Requests that are timed."""
    live: dict[int, tuple[int, int]]
    """Side and price of orders that still rest at the end, by id."""


def make_flow(requests: int, live_orders: int, seed: int = 1) -> Flow:
    """Return the requests that fill a book, and further requests, which keep the number of live orders about constant.

    Of the timed requests, about half add an order, four tenths cancel one, and a tenth execute. Prices are within 40
    ticks of a middle that moves slowly; volumes are 1 to 100.
    """
    random = Random(seed)
    sides = (_Side(-1), _Side(1))
    live: dict[int, tuple[int, int]] = {}
    ids: list[int] = []
    made: list[Request] = []
    mid = _MID_TICKS
    for order_id in range(1, live_orders + requests + 1):
        filling = order_id <= live_orders
        if not order_id % 5_000:
            mid += random.randint(-1, 1)
        draw = random.random()
        side, volume = random.randrange(2), random.randint(1, 100)
        best = sides[1 - side].best()
        if not filling and draw < _CROSSES and best is not None:
            left = sides[1 - side].execute(volume, best, live)
            made.append((CROSS, order_id, side, best, volume))
            if left:
                _rest(sides[side], live, ids, order_id, side, best, left)
        elif filling or draw < _CROSSES + (1 - _CROSSES) * (0.55 if len(live) < live_orders else 0.45):
            away = 1 + int(random.random() ** 2 * _REACH_TICKS)
            price = mid - away if side == 0 else mid + away
            if best is not None:
                price = min(price, best - 1) if side == 0 else max(price, best + 1)
            _rest(sides[side], live, ids, order_id, side, price, volume)
            made.append((ADD, order_id, side, price, volume))
        else:
            made.append(_cancel(random, sides, live, ids))
    return Flow(made[:live_orders], made[live_orders:], live)


def _rest(  # noqa: PLR0917 - the parts of an order
    side: _Side, live: dict[int, tuple[int, int]], ids: list[int], order_id: int, number: int, price: int, volume: int
) -> None:
    side.add(order_id, price, volume)
    live[order_id] = (number, price)
    ids.append(order_id)


def _cancel(random: Random, sides: tuple[_Side, _Side], live: dict[int, tuple[int, int]], ids: list[int]) -> Request:
    """Return a request that cancels a resting order; ids of orders that no longer rest are removed during the
    choice."""
    while True:
        place = random.randrange(len(ids))
        ids[place], ids[-1] = ids[-1], ids[place]
        order_id = ids.pop()
        if order_id in live:
            number, price = live.pop(order_id)
            sides[number].remove(order_id, price)
            return (CANCEL, order_id, number, price, 0)
