"""One side of a book: its prices, and the queue of orders at each price."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import chain
from typing import Final

from sortedcontainers import SortedList

from exchange_server.matching.order import Order

__all__ = ["NEAR", "NOTHING", "SHORT", "Levels", "ranks_of"]

NOTHING: Final = -(1 << 64)
"""Rank used where there is no price; it is below the rank of every price."""

SHORT: Final = 64
"""Largest number of orders in a queue that is a plain dict.

A dict finds its first entry by stepping over the removed entries before that entry. To bound these steps, a longer
queue is made an `OrderedDict` before it is walked, and a queue that shrinks to this length is made a new dict.
"""

NEAR: Final = 4_096
"""Largest number of prices of one side in the plain list."""


class Levels(Mapping[int, dict[int, Order]]):
    """Queues of orders by price; a queue maps order ids to orders, in order of arrival.

    No queue is empty; best prices come first.

    `ranks` lists the prices nearest to the best one, which is last. A rank is ``price * sign``, so that the same
    comparison serves both sides. A look-up costs as much as in a dict; adding or removing a price moves the better
    prices in one block, which is small near the best price, where most changes happen. (Adding and removing a price
    takes 0.35 µs; with a SortedDict it took 1.9 µs.) If there are more than `NEAR` prices, the worse ones are stored
    separately, so that no client can make the block large. `queues` is the bare dict, for hot code.

    >>> bids = Levels(1)
    >>> for price in (99, 101, 100):
    ...     queue = bids.open(price)
    >>> list(bids), bids.best(), bids.ranks
    ([101, 100, 99], 101, [99, 100, 101])
    >>> bids.close(101)
    >>> bids.best()
    100
    """

    __slots__ = ("_far", "queues", "ranks", "sign")

    def __init__(self, sign: int) -> None:
        """Create an empty side; ``sign`` is 1 where the highest price is the best (bids), -1 where the lowest is."""
        self.sign = sign
        self.queues: dict[int, dict[int, Order]] = {}
        self.ranks: list[int] = []
        """Ranks of the best prices; not empty while there is any price. Always the same object."""
        self._far: SortedList[int] | None = None
        """Ranks of all other prices, which are worse; None if there are none."""

    def open(self, price: int) -> dict[int, Order]:
        """Open the queue of a price without orders; the caller adds an order to it."""
        rank, ranks = price * self.sign, self.ranks
        if self._far is not None and rank < ranks[0]:
            self._far.add(rank)
        else:
            insort(ranks, rank)
            if len(ranks) > NEAR:
                self._move_far()
        queue = self.queues[price] = {}
        return queue

    def close(self, price: int) -> None:
        """Remove a price without orders."""
        del self.queues[price]
        ranks = self.ranks
        rank = price * self.sign
        if ranks[-1] == rank:
            ranks.pop()
        elif self._far is not None and rank < ranks[0]:
            self._far.remove(rank)
            if not self._far:
                self._far = None
            return
        else:
            del ranks[bisect_left(ranks, rank)]
        if not ranks and self._far is not None:
            self._move_near()

    def _move_far(self) -> None:
        """Move the worse half of the near prices to the far ones."""
        half = self.ranks[: NEAR // 2]
        del self.ranks[: NEAR // 2]
        if self._far is None:
            self._far = SortedList(half)
        else:
            self._far.update(half)

    def _move_near(self) -> None:
        """Move the best of the far prices to the near ones."""
        far = self._far
        assert far is not None
        self.ranks.extend(far[-NEAR // 2 :])
        del far[-NEAR // 2 :]
        if not far:
            self._far = None

    def best_first(self) -> Iterator[int]:
        """Return all ranks, best first."""
        return chain(reversed(self.ranks), reversed(self._far or ()))

    def walk(self, price: int) -> dict[int, Order]:
        """Return the queue of a price in a form that can be walked from its first order."""
        queue = self.queues[price]
        if len(queue) > SHORT and queue.__class__ is dict:
            queue = self.queues[price] = OrderedDict(queue)
        return queue

    def top(self) -> int:
        """Return the rank of the best price, `NOTHING` if there is none."""
        return self.ranks[-1] if self.ranks else NOTHING

    def best(self) -> int | None:
        """Return the best price in ticks, None if there is none."""
        return self.ranks[-1] * self.sign if self.ranks else None

    def __getitem__(self, price: int) -> dict[int, Order]:
        return self.queues[price]

    def __contains__(self, price: object) -> bool:
        return price in self.queues

    def __len__(self) -> int:
        return len(self.queues)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the prices in ticks, best first."""
        sign = self.sign
        return (rank * sign for rank in self.best_first())

    def in_priority(self) -> Iterator[Order]:
        """Yield all orders in the order in which they would execute."""
        for price in self:
            yield from self[price].values()

    def _check(self, name: str, side: str) -> None:
        """Assert every invariant."""
        prices = list(self)
        assert self.queues.keys() == set(prices), f"{name}: prices and queues differ"
        assert prices == sorted(prices, reverse=self.sign > 0), f"{name}: prices out of order"
        assert len(set(prices)) == len(prices), f"{name}: a price twice"
        assert bool(self.ranks) == bool(prices), f"{name}: no price is near"
        assert self._far is None or len(self._far), f"{name}: an empty list of far prices"
        for price in prices:
            assert self[price], f"{name} {price}: empty queue"
            for order_id, order in self[price].items():
                assert order.order_id == order_id, f"{name}: {order} filed under {order_id}"
                assert (order.side, order.price_ticks) == (side, price), f"{name}: {order} filed at {price}"
                assert 0 < order.volume < 2**63, f"{name}: {order} has no volume"
                assert order.reserve >= 0, f"{name}: {order} has a negative reserve"


def ranks_of(shown: Levels, hidden: Levels) -> Iterator[int]:
    """Yield the ranks of the displayed and the hidden prices of a side, best first, each once."""
    last = NOTHING
    for rank in merge(shown.best_first(), hidden.best_first(), reverse=True):
        if rank != last:
            yield rank
        last = rank
