"""One symbol's orders in two plain lists."""

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
"""Auctions by their phase: how the feed calls them, and the flag of orders that take part in them alone."""

FOR_AUCTION: Final = OPENING | CLOSING | HALTED_ONLY


class ModelBook:
    """What rests, by who came to its place first; and what waits outside of the book, by arrival."""

    def __init__(self, locate: int, instrument: Instrument, phase: PhaseName) -> None:
        self.locate = locate
        self.instrument = instrument
        self.phase: PhaseName = phase
        self.resting: list[Order] = []
        self.waiting: list[Order] = []
        """Stops and orders for auctions."""
        self.last_trade_ticks = 0
        self.fresh: list[int] = []
        """Prices of trades that the stops have not looked at yet."""
        self.replacing: Order | None = None
        """A displayed order that another replaces, of which the feed does not know yet."""

    def live(self) -> Iterator[Order]:
        """Every order of this symbol."""
        yield from self.resting
        yield from self.waiting

    def reference_ticks(self) -> int:
        """The last trade's price, before the first one the instrument's."""
        return self.last_trade_ticks or self.instrument.reference_price_ticks

    def by_priority(self, side: str) -> list[Order]:
        """One side, best first."""
        return sorted((order for order in self.resting if order.side == side), key=_rank)

    def opposite(self, order: Order) -> Order | None:
        """With what an order would trade first."""
        return best(order, self.resting)

    def is_crossed(self) -> bool:
        """Whether a bid reaches an ask."""
        bids = [order.price_ticks for order in self.resting if order.side == "B"]
        asks = [order.price_ticks for order in self.resting if order.side == "S"]
        return bool(bids and asks) and max(bids) >= min(asks)

    def remove(self, order: Order) -> None:
        """Take an order out, wherever it is."""
        self.resting = [other for other in self.resting if other is not order]
        self.waiting = [other for other in self.waiting if other is not order]

    def is_waiting(self, order: Order) -> bool:
        """Whether it is outside of the book."""
        return any(other is order for other in self.waiting)


def best(order: Order, others: Iterable[Order]) -> Order | None:
    """The first of the others, which stand by their place, that an order could trade with."""
    return min(
        (other for other in others if other.side != order.side and reaches(order, other.price_ticks)),
        key=_rank,
        default=None,
    )


def reaches(order: Order, price_ticks: int) -> bool:
    """Whether an order may execute at a price, by its own limit."""
    if order.flags & MARKET:
        return True
    return order.price_ticks >= price_ticks if order.side == "B" else order.price_ticks <= price_ticks


def _rank(order: Order) -> tuple[int, bool]:
    return -order.price_ticks if order.side == "B" else order.price_ticks, bool(order.flags & HIDDEN)


def left_of(order: Order) -> int:
    """Open lots, the undisplayed ones included."""
    return order.volume + order.reserve
