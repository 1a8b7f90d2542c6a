"""The book of one symbol: two sorted sides of price levels, each a queue of orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from sortedcontainers import SortedDict

__all__ = ["Book", "Order", "Side"]

Side = Literal["B", "S"]


class Order(msgspec.Struct, gc=False):
    """A resting order. The only field that ever changes is `volume`, and it only shrinks."""

    order_id: int
    """Unique in the market (in the symbol, if it is replayed as recorded)."""
    broker_id: int
    """Who owns it."""
    side: Side
    """B or S."""
    price_ticks: int
    """The limit."""
    volume: int
    """Lots that remain, at least 1."""
    client_id: int = 0
    """The request that made it; 0 if it came from an agent or a recording, which have no private stream."""


class Book:
    """Orders of one symbol in price-time priority.

    Add costs the logarithm of the number of price levels; removal, reduction and look-up by id are O(1) (plus that
    logarithm when a level empties). Memory is bounded by the live orders. The book itself never matches: `Market`
    takes care that a matched book is never crossed, and a book that follows a recording may be.

    >>> book = Book("ACME")
    >>> book.add(Order(1, 7, "B", 100, 5))
    >>> book.best("B"), book.best("S")
    (100, None)
    """

    __slots__ = ("asks", "bids", "orders", "symbol")

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.bids: SortedDict[int, dict[int, Order]] = SortedDict()
        self.asks: SortedDict[int, dict[int, Order]] = SortedDict()
        self.orders: dict[int, Order] = {}

    def __len__(self) -> int:
        return len(self.orders)

    def add(self, order: Order) -> None:
        """Queue an order behind all others of its price; its id must be new (the caller has looked)."""
        levels = self.bids if order.side == "B" else self.asks
        level = levels.get(order.price_ticks)
        if level is None:
            levels[order.price_ticks] = {order.order_id: order}
        else:
            level[order.order_id] = order
        self.orders[order.order_id] = order

    def remove(self, order: Order) -> None:
        """Take an order out."""
        levels = self.bids if order.side == "B" else self.asks
        level = levels[order.price_ticks]
        del level[order.order_id]
        if not level:
            del levels[order.price_ticks]
        del self.orders[order.order_id]

    def take(self, order: Order, volume: int) -> None:
        """Take `volume` lots off an order, at most what it has; an emptied order leaves the book."""
        if volume == order.volume:
            self.remove(order)
        order.volume -= volume

    def best(self, side: Side) -> int | None:
        """The best price of a side in ticks, None if the side is empty."""
        if side == "B":
            return self.bids.keys()[-1] if self.bids else None
        return self.asks.keys()[0] if self.asks else None

    def mid_ticks(self) -> int | None:
        """Half way between the best prices, rounded down; with one side empty the other's best."""
        bid, ask = self.best("B"), self.best("S")
        if bid is None or ask is None:
            return ask if bid is None else bid
        return (bid + ask) // 2

    def levels(self, side: Side) -> Iterator[tuple[int, int, int]]:
        """Price, volume and number of orders of each level, best first; for people and tests."""
        prices = reversed(self.bids) if side == "B" else iter(self.asks)
        levels = self.bids if side == "B" else self.asks
        for price in prices:
            yield price, sum(order.volume for order in levels[price].values()), len(levels[price])

    def _check(self, *, crossed: bool = False) -> None:
        """Assert every invariant; `crossed` allows the best bid to reach the best ask."""
        seen: dict[int, Order] = {}
        for side, levels in (("B", self.bids), ("S", self.asks)):
            assert list(levels) == sorted(levels), f"{self.symbol} {side}: prices out of order"
            for price, level in levels.items():
                assert level, f"{self.symbol} {side} {price}: empty level"
                for order_id, order in level.items():
                    assert order.order_id == order_id, f"{self.symbol}: {order} filed under {order_id}"
                    assert (order.side, order.price_ticks) == (side, price), f"{self.symbol}: {order} filed at {price}"
                    assert 0 < order.volume < 2**63, f"{self.symbol}: {order} has no volume"
                    assert order_id not in seen, f"{self.symbol}: {order_id} rests twice"
                    seen[order_id] = order
        assert seen == self.orders, f"{self.symbol}: the index by id disagrees with the levels"
        assert all(seen[order_id] is order for order_id, order in self.orders.items())
        if not crossed and self.bids and self.asks:
            assert self.bids.keys()[-1] < self.asks.keys()[0], f"{self.symbol}: crossed"
