"""Auctions: their price, and the executions of each order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from exchange_server.matching.order import HIDDEN, MARKET, CancelReason, Order
from exchange_server.matching.outputs import Imbalance
from tests.model.book import AUCTIONS, ModelBook, left_of, reaches
from tests.model.entering import refresh

if TYPE_CHECKING:
    from tests.model.market import ModelMarket

__all__ = ["cross_price", "say_imbalance", "uncross"]

_DISPLAYED: Final = 0
_UNDISPLAYED: Final = 1
_UNSEEN: Final = 2

_Part = tuple[Order, int, int]
"""An order, its part and the number of lots."""


def _lots(orders: Iterable[Order], side: str, price_ticks: int) -> int:
    return sum(left_of(order) for order in orders if order.side == side and reaches(order, price_ticks))


def cross_price(orders: list[Order], reference_ticks: int) -> int | None:
    """Return the price at which most lots execute; None if none do."""
    prices = {order.price_ticks for order in orders if not order.flags & MARKET} | {reference_ticks}

    def rank(price: int) -> tuple[int, int, int, int]:
        bought, sold = _lots(orders, "B", price), _lots(orders, "S", price)
        return -min(bought, sold), abs(bought - sold), abs(price - reference_ticks), -price

    price = min(prices, key=rank)
    return price if rank(price)[0] else None


def _queue(book: ModelBook, orders: list[Order], side: str, price_ticks: int) -> list[_Part]:
    """Return the parts of orders that may execute at a price, first to last."""
    parts: list[tuple[tuple[int, int, int, int], _Part]] = []
    for place, order in enumerate(orders):
        if order.side != side or not reaches(order, price_ticks):
            continue
        price = -order.price_ticks if side == "B" else order.price_ticks
        if order.flags & MARKET:
            parts.append(((0, 0, 0, order.order_id), (order, _UNSEEN, order.volume)))
        elif order.flags & HIDDEN or book.is_waiting(order):
            parts.append(((1, price, _UNSEEN, order.order_id), (order, _UNSEEN, order.volume)))
        else:
            parts.append(((1, price, _DISPLAYED, place), (order, _DISPLAYED, order.volume)))
            parts.append(((1, price, _UNDISPLAYED, place), (order, _UNDISPLAYED, order.reserve)))
    return [part for _, part in sorted(parts, key=lambda entry: entry[0])]


def uncross(market: ModelMarket, book: ModelBook) -> None:
    """End the auction of the book; without an auction, uncross a crossed book as after a halt."""
    kind, flag = AUCTIONS.get(book.phase, ("H", 0))
    mine = [order for order in book.waiting if order.flags & flag]
    orders = book.resting + mine
    price = cross_price(orders, book.reference_ticks())
    if price is not None:
        _execute(market, book, orders, price, kind)
    for order in mine:
        if left_of(order):
            market.end(book, order, CancelReason.CROSS)


def _execute(market: ModelMarket, book: ModelBook, orders: list[Order], price: int, kind: str) -> None:
    """Execute the whole as one trade; notify each order that takes part once, buyers first."""
    volume = min(_lots(orders, "B", price), _lots(orders, "S", price))
    match_id = market.take_match_id()
    executed: list[Order] = []
    for side in "BS":
        left = volume
        fills: dict[int, dict[int, int]] = {}
        for order, part, lots in _queue(book, orders, side, price):
            if filled := min(lots, left):
                left -= filled
                fills.setdefault(order.order_id, {})[part] = filled
        assert not left, f"expected {volume} lots on either side, {left} were missing on {side}"
        for order_id, filled_of in fills.items():
            order = next(order for order in orders if order.order_id == order_id)
            executed.append(order)
            total = sum(filled_of.values())
            order.reserve -= filled_of.get(_UNDISPLAYED, 0)
            order.volume -= total - filled_of.get(_UNDISPLAYED, 0)
            order.executed += total
            if _DISPLAYED in filled_of:
                market.feed.crossed(order, filled_of[_DISPLAYED], price, match_id)
            market.tell(order).executed(order, total, price, kind, match_id)
    market.feed.cross(book.locate, volume, price, match_id, kind)
    book.last_trade_ticks = price
    book.fresh.append(price)
    for order in executed:
        if not left_of(order):
            book.remove(order)
        elif not order.volume:
            refresh(market, book, order)


def say_imbalance(market: ModelMarket, book: ModelBook) -> None:
    """Publish how the auction would end now."""
    kind, flag = AUCTIONS[book.phase]
    mine = [order for order in book.waiting if order.flags & flag]
    orders = book.resting + mine
    reference = book.reference_ticks()
    bought, sold = _lots(orders, "B", reference), _lots(orders, "S", reference)
    near, far = cross_price(orders, reference), cross_price(mine, reference)
    has_both = {order.side for order in orders} == {"B", "S"}
    direction = "O" if not has_both else "N" if bought == sold else "B" if bought > sold else "S"
    paired, imbalance = min(bought, sold), abs(bought - sold)
    found = Imbalance(book.locate, paired, imbalance, direction, far or 0, near or 0, reference, kind)
    market.feed.imbalance(found)
