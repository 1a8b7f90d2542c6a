"""Orders that are there already: reduced, replaced, ended, one or many."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING

from exchange_server.matching.inputs import Cancel, Reduce, Replace
from exchange_server.matching.order import HIDDEN, MARKET, Order
from exchange_server.matching.reasons import CancelReason, RefuseReason
from tests.model.book import ModelBook, left_of
from tests.model.entering import admit, refusal_of_attributes, refusal_of_limits, refusal_of_phase

if TYPE_CHECKING:
    from tests.model.market import ModelMarket

__all__ = ["change_order", "in_mass_order", "replace", "take_off"]

_INT64_MAX = 2**63 - 1


def change_order(market: ModelMarket, item: Reduce | Cancel | Replace) -> int:
    """A request about one order; the id of the order that a replacement leaves."""
    order = next((order for order in market.live() if order.order_id == item.order_id), None)
    if order is None:
        return market.refuse(item.account, item.ref, RefuseReason.UNKNOWN_ORDER, item)
    if order.account != item.account or (not item.account and order.broker_id != item.broker_id):
        return market.refuse(item.account, item.ref, RefuseReason.FOREIGN_ORDER, item)
    if isinstance(item, Cancel):
        take_off(market, order, left_of(order), CancelReason.USER, item.ref)
        return 0
    if not 1 <= item.volume <= _INT64_MAX:
        return market.refuse(item.account, item.ref, RefuseReason.BAD_VOLUME, item)
    if isinstance(item, Reduce):
        take_off(market, order, item.volume, CancelReason.USER, item.ref)
        return 0
    if item.price_ticks < 0 or bool(order.flags & MARKET) != (item.price_ticks == 0):
        return market.refuse(item.account, item.ref, RefuseReason.BAD_PRICE, item)
    if item.price_ticks == order.price_ticks and item.volume <= left_of(order):
        take_off(market, order, left_of(order) - item.volume, CancelReason.USER, item.ref)
        return order.order_id
    new = copy.copy(order)
    new.volume, new.reserve, new.price_ticks, new.ref = item.volume, 0, item.price_ticks, item.ref
    return replace(market, order, new, item)


def replace(market: ModelMarket, old: Order, new: Order, item: object) -> int:
    """One order ends and another is there: its id, if it rests or waits."""
    book = market.book_at(new.locate)
    refusal = (
        (RefuseReason.KILLED if new.account and market.account(new.account).killed else None)
        or refusal_of_phase(book, new)
        or refusal_of_attributes(new, market.now.time_ns)
        or refusal_of_limits(market, book, new, old)
    )
    if refusal is not None:
        return market.refuse(new.account, new.ref, refusal, item)
    is_displayed = any(other is old for other in book.resting) and not old.flags & HIDDEN
    book.remove(old)
    new.order_id = new.feed_id = market.take_order_id()
    new.executed = old.executed
    market.tell(new).replaced(old, new)
    admit(market, book, new, old if is_displayed else None)
    return new.order_id


def take_off(market: ModelMarket, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
    """Take lots off an order, the undisplayed ones first; as many as it has, or more: it ends."""
    book = market.book_at(order.locate)
    if volume >= left_of(order):
        market.end(book, order, reason, ref)
        return
    _shrink(market, book, order, volume)
    market.tell(order).canceled(order, volume, reason, ref)


def modify(market: ModelMarket, order: Order, volume: int) -> None:
    """Its owner makes it smaller, and it keeps its place."""
    _shrink(market, market.book_at(order.locate), order, volume)
    market.tell(order).modified(order)


def _shrink(market: ModelMarket, book: ModelBook, order: Order, volume: int) -> None:
    undisplayed = min(volume, order.reserve)
    order.reserve -= undisplayed
    order.volume -= volume - undisplayed
    if volume > undisplayed and not order.flags & HIDDEN and not book.is_waiting(order):
        market.feed.reduced(order, volume - undisplayed)


def in_mass_order(book: ModelBook, orders: Iterable[Order]) -> list[Order]:
    """Orders of one symbol as a mass cancel ends them."""
    chosen = {order.order_id for order in orders}
    ranked = book.by_priority("B") + book.by_priority("S")
    ranked += sorted(book.waiting, key=lambda order: order.order_id)
    return [order for order in ranked if order.order_id in chosen]
