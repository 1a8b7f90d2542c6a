"""New orders: their refusals, executions and places; and stops."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from exchange_server.matching.order import (
    EXPIRES,
    HIDDEN,
    ICEBERG,
    IOC,
    MARKET,
    MINIMUM,
    POST_ONLY,
    STOP,
    CancelReason,
    Order,
    RefuseReason,
)
from tests.model.book import FOR_AUCTION, ModelBook, best, left_of

if TYPE_CHECKING:
    from tests.model.market import ModelMarket

__all__ = [
    "admit",
    "refresh",
    "refusal_of_attributes",
    "refusal_of_limits",
    "refusal_of_phase",
    "rest",
    "run_stops",
    "say_replaced_is_gone",
    "trade",
]

_INT64_MAX = 2**63 - 1


def refusal_of_phase(book: ModelBook, order: Order) -> RefuseReason | None:
    """Return the reason against a new order in the symbol's phase, None if there is none."""
    if book.phase == "closed":
        return RefuseReason.CLOSED
    if book.phase == "halted":
        return RefuseReason.HALTED
    waits = order.flags & (STOP | FOR_AUCTION)
    if book.phase != "continuous" and not waits and order.flags & (MARKET | IOC):
        return RefuseReason.HALTED
    return None


def refusal_of_attributes(order: Order, now_ns: int) -> RefuseReason | None:
    """Return the reason against an order's own attributes, None if there is none."""
    flags = order.flags
    auctions = (flags & FOR_AUCTION).bit_count()
    if order.side not in {"B", "S"}:
        return RefuseReason.BAD_SIDE
    if not 1 <= order.volume <= _INT64_MAX:
        return RefuseReason.BAD_VOLUME
    if order.price_ticks < 0 or (flags & STOP and order.stop_ticks < 1):
        return RefuseReason.BAD_PRICE
    if flags & MINIMUM and not (flags & IOC and 1 <= order.minimum <= order.volume):
        return RefuseReason.BAD_MINIMUM
    if flags & ICEBERG and (order.display < 1 or order.display * 1_000 < order.volume):
        return RefuseReason.BAD_DISPLAY
    if flags & EXPIRES and order.expire_ns <= now_ns:
        return RefuseReason.BAD_TIME
    excluded = (
        flags & MARKET and flags & (POST_ONLY | HIDDEN | ICEBERG | EXPIRES),
        flags & IOC and flags & (POST_ONLY | HIDDEN | ICEBERG | EXPIRES),
        flags & POST_ONLY and flags & HIDDEN,
        flags & HIDDEN and flags & ICEBERG,
        flags & STOP and flags & (POST_ONLY | MINIMUM | FOR_AUCTION),
        auctions and flags & ~(FOR_AUCTION | MARKET),
        auctions > 1,
    )
    return RefuseReason.BAD_COMBINATION if any(excluded) else None


def refusal_of_limits(market: ModelMarket, book: ModelBook, order: Order, old: Order | None) -> RefuseReason | None:
    """Return the reason against an order by the limits of its account and of the market, None if there is none.

    The order replaces ``old``.
    """
    others = [other for other in market.live() if other is not old]
    if order.account:
        limits = market.account(order.account).limits
        mine = [other for other in others if other.account == order.account]
        if limits.open_orders and old is None and len(mine) >= limits.open_orders:
            return RefuseReason.OPEN_ORDERS
        worth = (book.reference_ticks() if order.flags & MARKET else order.price_ticks) * order.volume
        if limits.order_notional and worth > limits.order_notional:
            return RefuseReason.NOTIONAL
        held = sum(other.price_ticks * left_of(other) for other in mine)
        if limits.open_notional and held + worth > limits.open_notional:
            return RefuseReason.NOTIONAL
    return RefuseReason.MARKET_FULL if old is None and len(others) >= market.rules.max_live_orders else None


def admit(market: ModelMarket, book: ModelBook, order: Order) -> None:
    """Execute an accepted order as far as possible, then let it rest, wait or end."""
    if order.flags & (STOP | FOR_AUCTION):
        book.waiting.append(order)
    else:
        if book.phase == "continuous":
            if book.opposite(order) is not None:
                say_replaced_is_gone(market, book)
            execute(market, book, order)
        if left_of(order) and order.flags & (MARKET | IOC):
            market.end(book, order, CancelReason.MARKET if order.flags & MARKET else CancelReason.IMMEDIATE)
        if left_of(order):
            rest(market, book, order)
    say_replaced_is_gone(market, book)


def rest(market: ModelMarket, book: ModelBook, order: Order) -> None:
    """Put an order, or its rest, at its place."""
    book.resting.append(order)
    _display(order)
    if order.flags & HIDDEN:
        return
    if book.replacing is not None:
        market.feed.replaced(book.replacing, order)
        book.replacing = None
    else:
        market.feed.added(order)


def say_replaced_is_gone(market: ModelMarket, book: ModelBook) -> None:
    """Publish the end of an order that is being replaced, unless it was published."""
    if book.replacing is not None:
        old, book.replacing = book.replacing, None
        market.feed.deleted(old, old.volume)


def _display(order: Order) -> None:
    if order.flags & ICEBERG:
        total = left_of(order)
        order.volume = min(order.display, total)
        order.reserve = total - order.volume


def refresh(market: ModelMarket, book: ModelBook, order: Order) -> None:
    """Display the next part of an iceberg whose displayed part is gone, behind all other orders."""
    book.remove(order)
    book.resting.append(order)
    _display(order)
    order.feed_id = market.take_order_id()
    market.feed.added(order)
    market.tell(order).refreshed(order)


def _collar(market: ModelMarket, book: ModelBook) -> tuple[int, int]:
    if not market.rules.collar_bps:
        return 0, _INT64_MAX
    reference = book.reference_ticks()
    width = reference * market.rules.collar_bps // 10_000
    return reference - width, reference + width


def _are_prevented(order: Order, other: Order) -> bool:
    is_same = order.account == other.account or order.broker_id == other.broker_id
    return bool(order.account and other.account) and is_same


def execute(market: ModelMarket, book: ModelBook, order: Order) -> None:
    """Trade as far as the order's limit, its account and the collar allow."""
    low, high = _collar(market, book)
    first = book.opposite(order)
    if order.flags & POST_ONLY and first is not None:
        is_inside = low <= first.price_ticks <= high
        market.end(book, order, CancelReason.POST_ONLY if is_inside else CancelReason.COLLAR)
        return
    if order.flags & MINIMUM and _trial(market, book, order, low, high) < order.minimum:
        market.end(book, order, CancelReason.MINIMUM)
        return
    while order.volume and (other := book.opposite(order)) is not None:
        if not low <= other.price_ticks <= high:
            market.end(book, order, CancelReason.COLLAR)
        elif _are_prevented(order, other) and market.account(order.account).self_trade != "allow":
            _prevent(market, book, order, other)
        else:
            trade(market, book, order, other, min(order.volume, other.volume))


def trade(market: ModelMarket, book: ModelBook, order: Order, other: Order, volume: int) -> None:
    """Execute a trade of two orders at the resting one's price."""
    price, match_id = other.price_ticks, market.take_match_id()
    is_hidden = bool(other.flags & HIDDEN)
    for one in (order, other):
        one.volume -= volume
        one.executed += volume
    if not left_of(other):
        book.remove(other)
    say = market.feed.traded if is_hidden else market.feed.executed
    say(other, volume, price, match_id)
    market.tell(other).executed(other, volume, price, "J" if is_hidden else "A", match_id)
    market.tell(order).executed(order, volume, price, "R", match_id)
    book.last_trade_ticks = price
    book.fresh.append(price)
    if not other.volume and other.reserve:
        refresh(market, book, other)


def _prevent(market: ModelMarket, book: ModelBook, order: Order, other: Order) -> None:
    mode = market.account(order.account).self_trade
    price, prevented = other.price_ticks, min(order.volume, other.volume)
    if mode == "decrement":
        other.volume -= prevented
        order.volume -= prevented
        if not left_of(other):
            book.remove(other)
        if not other.flags & HIDDEN:
            if other.volume:
                market.feed.reduced(other, prevented)
            else:
                market.feed.deleted(other, prevented)
        market.tell(other).prevented(other, prevented, prevented, price, "A", mode)
        market.tell(order).prevented(order, prevented, prevented, price, "R", mode)
        if not other.volume and other.reserve:
            refresh(market, book, other)
        return
    if mode in {"oldest", "both"}:
        displayed, total = other.volume, left_of(other)
        book.remove(other)
        other.volume = other.reserve = 0
        if not other.flags & HIDDEN:
            market.feed.deleted(other, displayed)
        market.tell(other).prevented(other, total, prevented, price, "A", mode)
    if mode in {"newest", "both"}:
        total, order.volume = order.volume, 0
        market.tell(order).prevented(order, total, prevented, price, "R", mode)


def _trial(market: ModelMarket, book: ModelBook, order: Order, low: int, high: int) -> int:
    """Return the number of lots that would execute, tried on a copy of the book."""
    others = [copy.copy(other) for other in book.resting]
    mode = market.account(order.account).self_trade if order.account else "allow"
    left, executed = order.volume, 0
    while left and (other := best(order, others)) is not None:
        volume = min(left, other.volume)
        if not low <= other.price_ticks <= high:
            break
        if mode != "allow" and _are_prevented(order, other):
            if mode in {"newest", "both"}:
                break
            if mode == "oldest":
                other.volume = other.reserve = 0
            else:
                other.volume -= volume
                left -= volume
        else:
            other.volume -= volume
            left -= volume
            executed += volume
        if not other.volume:
            others = [one for one in others if one is not other]
            if other.reserve:
                _display(other)
                others.append(other)
    return executed


def run_stops(market: ModelMarket, book: ModelBook) -> None:
    """Enter the stops that trades have reached, and those that their own trades reach."""
    while book.fresh:
        low, high = min(book.fresh), max(book.fresh)
        book.fresh = []
        stops = [order for order in book.waiting if order.flags & STOP]
        buys = [order for order in stops if order.side == "B" and order.stop_ticks <= high]
        sells = [order for order in stops if order.side == "S" and order.stop_ticks >= low]
        buys.sort(key=lambda order: (order.stop_ticks, order.order_id))
        sells.sort(key=lambda order: (-order.stop_ticks, order.order_id))
        for order in buys + sells:
            book.remove(order)
            order.flags &= ~STOP
            market.tell(order).triggered(order)
            admit(market, book, order)
