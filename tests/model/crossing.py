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
_FOR_AUCTION: Final = 3

_Part = tuple[Order, int, int]
"""An order, what of it, and how many lots."""


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


def _queue(book: ModelBook, orders: list[Order], side: str, price_ticks: int) -> list[_Part]:
    """Who executes at a price, first to last."""
    parts: list[tuple[tuple[int, int, int, int], _Part]] = []
    for place, order in enumerate(orders):
        if order.side != side or not reaches(order, price_ticks):
            continue
        price = -order.price_ticks if side == "B" else order.price_ticks
        if book.is_waiting(order):
            key = (0, 0, 0, place) if order.flags & MARKET else (1, price, _FOR_AUCTION, place)
            parts.append((key, (order, _FOR_AUCTION, order.volume)))
        elif order.flags & HIDDEN:
            parts.append(((1, price, _HIDDEN, place), (order, _HIDDEN, order.volume)))
        else:
            parts.append(((1, price, _DISPLAYED, place), (order, _DISPLAYED, order.volume)))
            parts.append(((1, price, _UNDISPLAYED, place), (order, _UNDISPLAYED, order.reserve)))
    return [part for _, part in sorted(parts, key=lambda entry: entry[0])]


def uncross(market: ModelMarket, book: ModelBook) -> None:
    """The auction that the book is in ends; without one, a crossed book is brought in order as behind a halt."""
    kind, flag = AUCTIONS.get(book.phase, AUCTIONS["auction-halt"])
    mine = [order for order in book.waiting if order.flags & flag]
    orders = book.resting + mine
    price = cross_price(orders, book.reference_ticks())
    if price is not None:
        _execute(market, book, orders, price, kind)
    for order in mine:
        if left_of(order):
            market.end(book, order, CancelReason.CROSS)


def _execute(market: ModelMarket, book: ModelBook, orders: list[Order], price: int, kind: str) -> None:
    """Lot by lot the first buyer trades with the first seller; what two of them trade in a row is one match."""
    volume = min(_lots(orders, "B", price), _lots(orders, "S", price))
    buys, sells = ([part for part in _queue(book, orders, side, price) for _ in range(part[2])] for side in "BS")
    pairs = list(zip(buys[:volume], sells[:volume], strict=True))
    executed: dict[str, list[Order]] = {"B": [], "S": []}
    while pairs:
        buy, sell = pairs[0]
        lots = next((n for n, pair in enumerate(pairs) if pair != (buy, sell)), len(pairs))
        pairs = pairs[lots:]
        match_id = market.take_match_id()
        for order, part, _ in (buy, sell):
            if part == _UNDISPLAYED:
                order.reserve -= lots
            else:
                order.volume -= lots
            order.executed += lots
            if part == _DISPLAYED:
                market.feed.crossed(order, lots, price, match_id)
            market.tell(order).executed(order, lots, price, kind, match_id)
            if order not in executed[order.side]:
                executed[order.side].append(order)
    market.feed.cross(book.locate, volume, price, market.take_match_id(), kind)
    book.last_trade_ticks = price
    book.fresh.append(price)
    for order in executed["B"] + executed["S"]:
        if not left_of(order):
            book.remove(order)
        elif not order.volume:
            refresh(market, book, order)


def say_imbalance(market: ModelMarket, book: ModelBook) -> None:
    """How the auction would end now."""
    kind, flag = AUCTIONS[book.phase]
    mine = [order for order in book.waiting if order.flags & flag]
    orders = book.resting + mine
    reference = book.reference_ticks()
    bought, sold = _lots(orders, "B", reference), _lots(orders, "S", reference)
    near, far = cross_price(orders, reference), cross_price(mine, reference)
    has_both = {order.side for order in orders} == {"B", "S"}
    direction = "O" if not has_both else "N" if bought == sold else "B" if bought > sold else "S"
    paired, imbalance = min(bought, sold), abs(bought - sold)
    market.feed.imbalance(book.locate, paired, imbalance, direction, far or 0, near or 0, reference, kind)
