"""Auctions: at which price they end, and who gets what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from exchange_server.matching.order import HIDDEN, MARKET, Order
from exchange_server.matching.reasons import CancelReason
from tests.model.book import AUCTIONS, ModelBook, left_of, reaches
from tests.model.entering import refresh

if TYPE_CHECKING:
    from tests.model.market import ModelMarket

__all__ = ["cross_price", "say_imbalance", "uncross"]

_DISPLAYED: Final = 0
_UNDISPLAYED: Final = 1
_HIDDEN: Final = 2


def _lots(orders: Iterable[Order], side: str, price_ticks: int) -> int:
    return sum(left_of(order) for order in orders if order.side == side and reaches(order, price_ticks))


def cross_price(orders: list[Order], reference_ticks: int) -> int | None:
    """The price at which most lots execute; None if none do."""
    prices = {order.price_ticks for order in orders if not order.flags & MARKET} | {reference_ticks}

    def rank(price: int) -> tuple[int, int, int, int]:
        bought, sold = _lots(orders, "B", price), _lots(orders, "S", price)
        return -min(bought, sold), abs(bought - sold), abs(price - reference_ticks), -price

    price = min(prices, key=rank)
    return price if rank(price)[0] else None


def _queue(book: ModelBook, orders: list[Order], side: str, price_ticks: int) -> list[tuple[Order, int, int]]:
    """Who executes at a price, first to last: the order, what of it, and how many lots."""
    parts: list[tuple[tuple[int, int, int, int], Order, int, int]] = []
    for place, order in enumerate(orders):
        if order.side != side or not reaches(order, price_ticks):
            continue
        price = -order.price_ticks if side == "B" else order.price_ticks
        if order.flags & MARKET:
            parts.append(((0, 0, _HIDDEN, order.order_id), order, _HIDDEN, order.volume))
        elif order.flags & HIDDEN or book.is_waiting(order):
            parts.append(((1, price, _HIDDEN, order.order_id), order, _HIDDEN, order.volume))
        else:
            parts.append(((1, price, _DISPLAYED, place), order, _DISPLAYED, order.volume))
            parts.append(((1, price, _UNDISPLAYED, place), order, _UNDISPLAYED, order.reserve))
    return [(order, part, lots) for _, order, part, lots in sorted(parts, key=lambda entry: entry[0])]


def uncross(market: ModelMarket, book: ModelBook) -> None:
    """The auction that the book is in ends; without one, a crossed book is brought in order as behind a halt."""
    kind, flag = AUCTIONS.get(book.phase, ("H", 0))
    mine = [order for order in book.waiting if order.flags & flag]
    orders = book.resting + mine
    price = cross_price(orders, book.reference_ticks())
    if price is not None:
        _execute(market, book, orders, price, kind)
    for order in sorted(mine, key=lambda order: order.order_id):
        if left_of(order):
            market.end(book, order, CancelReason.CROSS)


def _execute(market: ModelMarket, book: ModelBook, orders: list[Order], price: int, kind: str) -> None:
    volume = min(_lots(orders, "B", price), _lots(orders, "S", price))
    match_id = market.take_match_id()
    emptied: list[Order] = []
    for side in "BS":
        left = volume
        queue = _queue(book, orders, side, price)
        fills: dict[int, list[int]] = {}
        for order, part, lots in queue:
            filled = min(lots, left)
            left -= filled
            fills.setdefault(order.order_id, [0, 0, 0])[part] += filled
        assert not left, f"expected {volume} lots on either side, {left} were missing on {side}"
        order_of = {order.order_id: order for order in orders}
        for order_id, filled_by_part in fills.items():
            _fill(market, book, order_of[order_id], filled_by_part, price, kind, match_id)
            if not order_of[order_id].volume and order_of[order_id].reserve:
                emptied.append(order_of[order_id])
    market.feed.cross(book.locate, volume, price, match_id, kind)
    book.last_trade_ticks = price
    book.fresh.append(price)
    for order in emptied:
        refresh(market, book, order)


def _fill(
    market: ModelMarket, book: ModelBook, order: Order, filled: list[int], price: int, kind: str, match_id: int
) -> None:
    displayed, undisplayed, hidden = filled
    total = sum(filled)
    if not total:
        return
    order.volume -= displayed + hidden
    order.reserve -= undisplayed
    order.executed += total
    if not left_of(order):
        book.remove(order)
    if displayed:
        market.feed.crossed(order, displayed, price, match_id)
    market.tell(order).executed(order, total, price, kind, match_id)


def say_imbalance(market: ModelMarket, book: ModelBook) -> None:
    """How the auction would end now."""
    kind, flag = AUCTIONS[book.phase]
    mine = [order for order in book.waiting if order.flags & flag]
    orders = book.resting + mine
    reference = book.reference_ticks()
    bought, sold = _lots(orders, "B", reference), _lots(orders, "S", reference)
    near, far = cross_price(orders, reference), cross_price(mine, reference)
    direction = "O" if near is None else "N" if bought == sold else "B" if bought > sold else "S"
    paired, imbalance = min(bought, sold), abs(bought - sold)
    market.feed.imbalance(book.locate, paired, imbalance, direction, far or 0, near or 0, reference, kind)
