"""Changes of live orders: reduction, replacement, end, of one or many."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING

from exchange_server.matching.inputs import Cancel, Reduce, Replace
from exchange_server.matching.order import HIDDEN, MARKET, CancelReason, Order, RefuseReason
from tests.model.book import ModelBook, left_of
from tests.model.entering import admit

if TYPE_CHECKING:
    from tests.model.market import ModelMarket

__all__ = ["change_order", "in_mass_order", "modify", "replace", "take_off"]


def change_order(market: ModelMarket, item: Reduce | Cancel | Replace) -> int:
    """Carry out a request about one order; return its id, or that of its replacement."""
    order = next((order for order in market.live() if order.order_id == item.order_id), None)
    refusal = _refusal(market, order, item)
    if refusal is not None or order is None:
        return market.refuse(item.account, item.ref, refusal or RefuseReason.OTHER, item)
    if isinstance(item, Cancel):
        take_off(market, order, left_of(order), CancelReason.USER, item.ref)
        return 0
    if item.volume < 1:
        return market.refuse(item.account, item.ref, RefuseReason.BAD_VOLUME, item)
    if isinstance(item, Reduce):
        take_off(market, order, item.volume, CancelReason.USER, item.ref)
        return order.order_id
    if item.price_ticks < 0 or bool(order.flags & MARKET) != (item.price_ticks == 0):
        return market.refuse(item.account, item.ref, RefuseReason.BAD_PRICE, item)
    if item.price_ticks == order.price_ticks and item.volume <= left_of(order):
        take_off(market, order, left_of(order) - item.volume, CancelReason.USER, item.ref)
        return order.order_id
    new = copy.copy(order)
    new.volume, new.reserve, new.price_ticks, new.ref = item.volume, 0, item.price_ticks, item.ref
    new.minimum = 0
    return replace(market, order, new, item)


def _refusal(market: ModelMarket, order: Order | None, item: Reduce | Cancel | Replace) -> RefuseReason | None:
    book = market.book_of(item.symbol) if order is None else market.book_at(order.locate)
    if order is None and item.symbol and book is None:
        return RefuseReason.UNKNOWN_SYMBOL
    if book is not None and market.is_played(book):
        return RefuseReason.REPLAYED
    if order is None:
        return RefuseReason.UNKNOWN_ORDER
    if (order.account, order.broker_id) != (item.account, item.broker_id):
        return RefuseReason.FOREIGN_ORDER
    return None


def replace(market: ModelMarket, old: Order, new: Order, item: object) -> int:
    """End one order and enter another; return its id."""
    book = market.book_at(new.locate)
    new.broker_id = old.broker_id
    new.flags = new.flags & ~MARKET if new.price_ticks else new.flags | MARKET
    refusal = market.refusal(book, new, old)
    if refusal is not None:
        return market.refuse(new.account, new.ref, refusal, item)
    is_displayed = any(other is old for other in book.resting) and not old.flags & HIDDEN
    book.remove(old)
    new.order_id = new.feed_id = market.take_order_id()
    new.executed = old.executed
    market.tell(new).replaced(old, new)
    book.replacing = old if is_displayed else None
    admit(market, book, new)
    return new.order_id


def take_off(market: ModelMarket, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
    """Take lots off an order, undisplayed ones first; all of its lots or more end it."""
    book = market.book_at(order.locate)
    if volume >= left_of(order):
        market.end(book, order, reason, ref)
        return
    _shrink(market, book, order, volume)
    market.tell(order).canceled(order, volume, reason, ref)


def modify(market: ModelMarket, order: Order, volume: int) -> None:
    """Reduce an order for its owner; the order keeps its place."""
    _shrink(market, market.book_at(order.locate), order, volume)
    market.tell(order).modified(order)


def _shrink(market: ModelMarket, book: ModelBook, order: Order, volume: int) -> None:
    undisplayed = min(volume, order.reserve)
    order.reserve -= undisplayed
    order.volume -= volume - undisplayed
    if volume > undisplayed and not order.flags & HIDDEN and not book.is_waiting(order):
        market.feed.reduced(order, volume - undisplayed)


def in_mass_order(book: ModelBook, orders: Iterable[Order]) -> list[Order]:
    """Return orders of one symbol in the order in which a mass cancel ends them."""
    chosen = {order.order_id for order in orders}
    ranked = book.by_priority("B") + book.by_priority("S")
    ranked += sorted(book.waiting, key=lambda order: order.order_id)
    return [order for order in ranked if order.order_id in chosen]
