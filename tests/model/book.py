"""Orders of one symbol in two plain lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import PhaseName
from exchange_server.matching.order import CLOSING, HALTED_ONLY, HIDDEN, MARKET, OPENING, Order

__all__ = ["AUCTIONS", "FOR_AUCTION", "ModelBook", "best", "left_of", "reaches"]

AUCTIONS: Final[dict[str, tuple[str, int]]] = {
    "auction-open": ("O", OPENING),
    "auction-close": ("C", CLOSING),
    "auction-halt": ("H", HALTED_ONLY),
}
"""Auctions by their phase: their kind on the feed, and the flag of orders that take part in them only."""

FOR_AUCTION: Final = OPENING | CLOSING | HALTED_ONLY


class ModelBook:
    """Resting orders, by arrival at their place, and orders that wait outside of the book, by arrival."""

    def __init__(self, locate: int, instrument: Instrument, phase: PhaseName) -> None:
        self.locate = locate
        self.instrument = instrument
        self.phase: PhaseName = phase
        self.resting: list[Order] = []
        self.waiting: list[Order] = []
        """Stops and orders for auctions."""
        self.last_trade_ticks = 0
        self.fresh: list[int] = []
        """Prices of trades that have not been compared with the stops yet."""
        self.replacing: Order | None = None
        """Displayed order that is being replaced; its end is not on the feed yet."""

    def live(self) -> Iterator[Order]:
        """Yield every order of this symbol."""
        yield from self.resting
        yield from self.waiting

    def reference_ticks(self) -> int:
        """Return the price of the last trade, or before the first trade the instrument's reference price."""
        return self.last_trade_ticks or self.instrument.reference_price_ticks

    def by_priority(self, side: str) -> list[Order]:
        """Return the orders of one side, best first."""
        return sorted((order for order in self.resting if order.side == side), key=_rank)

    def opposite(self, order: Order) -> Order | None:
        """Return the order that an order would trade with first."""
        return best(order, self.resting)

    def is_crossed(self) -> bool:
        """Return True if a bid reaches an ask."""
        bids = [order.price_ticks for order in self.resting if order.side == "B"]
        asks = [order.price_ticks for order in self.resting if order.side == "S"]
        return bool(bids and asks) and max(bids) >= min(asks)

    def remove(self, order: Order) -> None:
        """Remove an order, resting or waiting."""
        self.resting = [other for other in self.resting if other is not order]
        self.waiting = [other for other in self.waiting if other is not order]

    def is_waiting(self, order: Order) -> bool:
        """Return True if an order waits outside of the book."""
        return any(other is order for other in self.waiting)


def best(order: Order, others: Iterable[Order]) -> Order | None:
    """Return the first of the other orders, by priority, that an order could trade with."""
    return min(
        (other for other in others if other.side != order.side and reaches(order, other.price_ticks)),
        key=_rank,
        default=None,
    )


def reaches(order: Order, price_ticks: int) -> bool:
    """Return True if an order may execute at a price, by its own limit."""
    if order.flags & MARKET:
        return True
    return order.price_ticks >= price_ticks if order.side == "B" else order.price_ticks <= price_ticks


def _rank(order: Order) -> tuple[int, bool]:
    return -order.price_ticks if order.side == "B" else order.price_ticks, bool(order.flags & HIDDEN)


def left_of(order: Order) -> int:
    """Return the open lots, including undisplayed ones."""
    return order.volume + order.reserve
