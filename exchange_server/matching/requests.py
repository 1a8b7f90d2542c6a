"""Requests: acceptance and refusal of orders, and the effect of replacements and cancellations on live orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from exchange_server.matching.book import Book
from exchange_server.matching.inputs import Replace
from exchange_server.matching.levels import NOTHING
from exchange_server.matching.market_state import INT64_MAX, MarketState
from exchange_server.matching.order import (
    AUCTIONS,
    CLOSING,
    EXPIRES,
    HALTED_ONLY,
    HIDDEN,
    ICEBERG,
    IOC,
    MARKET,
    MINIMUM,
    OPENING,
    OUTSIDE,
    POST_ONLY,
    STOP,
    Account,
    CancelReason,
    Order,
    RefuseReason,
)
from exchange_server.matching.special_orders import trigger_stops

__all__ = [
    "MOST_PARTS",
    "Refusal",
    "cancel_account",
    "cancel_all",
    "cancel_order",
    "has_tokens",
    "refusal_of",
    "replace_or_reduce",
    "replace_order",
]

Refusal = tuple[RefuseReason, str]
"""Reason of a refusal, and its text."""

MOST_PARTS: Final = 1_000
"""Largest ratio of an iceberg's volume to its displayed part: an order that executes the whole iceberg has a match for
each part.
"""

_BILLION: Final = 1_000_000_000
_EXCLUDING: Final = (
    (MARKET, POST_ONLY | HIDDEN | ICEBERG | EXPIRES),
    (IOC, POST_ONLY | HIDDEN | ICEBERG | EXPIRES),
    (POST_ONLY, HIDDEN),
    (HIDDEN, ICEBERG),
    (STOP, POST_ONLY | MINIMUM | AUCTIONS),
    (OPENING, ~(OPENING | MARKET)),
    (CLOSING, ~(CLOSING | MARKET)),
    (HALTED_ONLY, ~(HALTED_ONLY | MARKET)),
)
"""Attributes, each with the flags that it excludes."""


def refusal_of(shared: MarketState, book: Book | None, order: Order, old: Order | None = None) -> Refusal | None:
    """Return why an order is refused, None if it is accepted; `old` is the order to be replaced.

    The call counts as one request of the account's request rate.
    """
    account = shared.accounts[order.account]
    if not has_tokens(account, shared.now.time_ns):
        return RefuseReason.RATE, f"expected at most {account.limits.requests_per_s} requests in a second"
    if account.killed:
        return RefuseReason.KILLED, "the account is stopped"
    if book is None:
        return RefuseReason.UNKNOWN_SYMBOL, "unknown symbol"
    if book.is_followed:
        return RefuseReason.REPLAYED, "replayed"
    return _phase(book, order) or _attributes(shared, order) or _limits(book, account, order, old)


def has_tokens(account: Account, time_ns: int) -> bool:
    """Return True if an account's request rate allows one more request at `time_ns`, and count the request."""
    rate = account.limits.requests_per_s
    if not rate:
        return True
    account.bucket = min(rate * _BILLION, account.bucket + (time_ns - account.bucket_ns) * rate)
    account.bucket_ns = time_ns
    if account.bucket < _BILLION:
        return False
    account.bucket -= _BILLION
    return True


def _phase(book: Book, order: Order) -> Refusal | None:
    phase = book.phase
    if phase == "continuous":
        return None
    if phase == "closed":
        return RefuseReason.CLOSED, "closed"
    if phase == "halted":
        return RefuseReason.HALTED, "halted"
    if order.flags & (MARKET | IOC) and not order.flags & (STOP | AUCTIONS):
        return RefuseReason.HALTED, f"no execution now: {phase}"
    return None


def _attributes(shared: MarketState, order: Order) -> Refusal | None:
    flags, volume = order.flags, order.volume
    if order.side not in {"B", "S"}:
        return RefuseReason.BAD_SIDE, f"expected a side B or S was {order.side}"
    if not 0 < volume <= INT64_MAX:
        return RefuseReason.BAD_VOLUME, _out_of_range("a volume", 1, volume)
    if not 0 <= order.price_ticks <= INT64_MAX:
        return RefuseReason.BAD_PRICE, _out_of_range("a price", 0, order.price_ticks)
    if flags & STOP and not 0 < order.stop_ticks <= INT64_MAX:
        return RefuseReason.BAD_PRICE, _out_of_range("a stop price", 1, order.stop_ticks)
    if flags & MINIMUM and not (flags & IOC and 0 < order.minimum <= volume):
        return (
            RefuseReason.BAD_MINIMUM,
            f"expected an immediate order and a minimum of 1 to {volume} was {order.minimum}",
        )
    if flags & ICEBERG and not (0 < order.display <= INT64_MAX and order.display * MOST_PARTS >= volume):
        least = -(-volume // MOST_PARTS)
        return RefuseReason.BAD_DISPLAY, f"expected a displayed volume of {least} or more was {order.display}"
    if flags & EXPIRES and not shared.now.time_ns < order.expire_ns <= INT64_MAX:
        return RefuseReason.BAD_TIME, f"expected a time to come was {order.expire_ns}"
    for attributes, excluded in _EXCLUDING:
        if flags & attributes and flags & excluded:
            return RefuseReason.BAD_COMBINATION, "attributes that exclude each other"
    return None


def _out_of_range(what: str, least: int, value: int) -> str:
    bound = f"of {least} or more" if value < least else f"up to {INT64_MAX}"
    return f"expected {what} {bound} was {value}"


def _limits(book: Book, account: Account, order: Order, old: Order | None) -> Refusal | None:
    limits = account.limits
    if limits.open_orders and old is None and len(account.orders) >= limits.open_orders:
        return RefuseReason.OPEN_ORDERS, f"the account has {len(account.orders)} live orders and may have no more"
    worth = (order.price_ticks or book.reference()) * order.volume
    if limits.order_notional and worth > limits.order_notional:
        return RefuseReason.NOTIONAL, f"expected an order worth {limits.order_notional} or less was {worth}"
    if limits.open_notional:
        committed = account.open_notional
        if old is not None:
            committed -= old.price_ticks * (old.volume + old.reserve)
        if committed + worth > limits.open_notional:
            return (
                RefuseReason.NOTIONAL,
                f"expected open orders worth {limits.open_notional} or less were {committed + worth}",
            )
    shared = book.shared
    if old is None and not shared.has_room():
        return RefuseReason.MARKET_FULL, f"the market holds {shared.live_orders} live orders and takes no more"
    return None


def replace_or_reduce(book: Book, order: Order, item: Replace) -> int:
    """Carry out a replacement of the text protocol, as a reduction if a reduction is enough.

    Return the id of the order that is live afterwards, 0 if the request was refused.
    """
    volume, price = item.volume, item.price_ticks
    live = order.volume + order.reserve
    is_market = order.flags & MARKET > 0
    refusal: Refusal | None = None
    if volume < 1:
        refusal = RefuseReason.BAD_VOLUME, f"expected a volume of 1 or more was {volume}"
    elif is_market and price:
        refusal = RefuseReason.BAD_PRICE, f"expected price 0 for a market order was {price}"
    elif price < 0 or (price == 0 and not is_market):
        refusal = RefuseReason.BAD_PRICE, f"expected a price as the order has one was {price}"
    if refusal is not None:
        book.shared.turn_down(order.account, item.ref, *refusal, item)
        return 0
    if price == order.price_ticks and volume <= live:
        if volume < live:
            cancel_order(book, order, live - volume, CancelReason.USER, item.ref)
        else:
            book.shared.tellers[order.account].canceled(order, 0, CancelReason.USER, item.ref)
        return order.order_id
    new = Order(
        0, 0, order.locate, order.side, price, volume, order.broker_id, order.account, item.ref, order.flags,
        display=order.display, stop_ticks=order.stop_ticks, expire_ns=order.expire_ns, echo=order.echo,
    )  # fmt: skip
    replace_order(book, order, new, item)
    return new.order_id if new.order_id and new.volume > 0 else 0


def replace_order(book: Book, old: Order, new: Order, item: object) -> None:
    """End `old` and enter `new` in its place, unless `new` is refused; see `Market.replace`."""
    shared = book.shared
    new.broker_id = old.broker_id  # ITCH's message of a replacement has no broker
    new.flags = new.flags & ~MARKET if new.price_ticks else new.flags | MARKET
    refusal = refusal_of(shared, book, new, old)
    if refusal is not None:
        shared.refuse(new, *refusal, item)
        return
    book.remove(old)
    shared.number(new)
    new.executed = min(old.executed, INT64_MAX)
    shared.tellers[new.account].replaced(old, new)
    old.reserve = 0
    if old.flags & (OUTSIDE | HIDDEN):
        old.volume = 0
    else:
        book.replacing = old
        if _meets_another(book, new):
            book.settle_replaced()
    book.enter_special(new)
    if book.stops:
        trigger_stops(book)


def _meets_another(book: Book, order: Order) -> bool:
    """Return True if a resting order is within the limit of an order that enters now."""
    if book.phase != "continuous" or order.flags & OUTSIDE:
        return False
    if order.side == "B":
        return book.ask_edge < -NOTHING and (order.flags & MARKET > 0 or book.ask_edge <= order.price_ticks)
    return book.bid_edge > NOTHING and (order.flags & MARKET > 0 or book.bid_edge >= order.price_ticks)


def cancel_order(book: Book, order: Order, volume_off: int, reason: CancelReason, ref: int | bytes = 0) -> None:
    """Take lots off a live order, which keeps its place, and notify its owner.

    If `volume_off` is all of its lots or more, the order ends. `ref` is the reference of the request, by default the
    order's own.
    """
    if volume_off >= order.volume + order.reserve:
        volume_off = book.cancel(order.order_id)
        order.volume = 0
    elif volume_off > 0:
        book.reduce(order, volume_off)
    else:
        return
    if order.account:
        book.shared.tellers[order.account].canceled(order, volume_off, reason, ref or order.ref)


def cancel_all(books: Iterable[Book], reason: CancelReason, ref: int | bytes = 0) -> None:
    """End all orders of the books that do not follow a recording, book by book and in order of priority."""
    for book in books:
        if not book.is_followed:
            for order in [*book.resting(), *book.waiting.values()]:
                cancel_order(book, order, order.volume + order.reserve, reason, ref)


def cancel_account(
    book_at: Sequence[Book | None], account: Account, locate: int, reason: CancelReason, ref: int | bytes = 0
) -> None:
    """End the orders of an account in the book of `locate`, 0 for all books; book by book and in order of priority."""
    by_locate: dict[int, list[Order]] = {}
    for order in account.orders.values():
        if locate in {0, order.locate}:
            by_locate.setdefault(order.locate, []).append(order)
    for place in sorted(by_locate):
        book = book_at[place]
        assert book is not None
        for order in _in_priority(book, account.index, by_locate[place]):
            cancel_order(book, order, order.volume + order.reserve, reason, ref)


def _in_priority(book: Book, account: int, orders: Iterable[Order]) -> list[Order]:
    """Return an account's orders in a book sorted by priority; waiting orders come last."""
    places: dict[tuple[bool, int, bool], list[Order]] = {}
    waiting: list[Order] = []
    for order in orders:
        if order.flags & OUTSIDE:
            waiting.append(order)
        else:
            rank = book.levels_of(order).sign * order.price_ticks
            places.setdefault((order.side == "S", -rank, order.flags & HIDDEN > 0), []).append(order)
    resting = [order for key in sorted(places) for order in _as_queued(book, account, places[key])]
    return resting + sorted(waiting, key=lambda order: order.order_id)


def _as_queued(book: Book, account: int, orders: list[Order]) -> list[Order]:
    """Return an account's orders in one queue, sorted by their place in the queue: the order of their ids on the feed.

    Triggered stops are an exception: they entered later than their ids imply, so the whole queue is walked.
    """
    if len(orders) == 1 or not any(order.stop_ticks for order in orders):
        return sorted(orders, key=lambda order: order.feed_id)
    queue = book.levels_of(orders[0])[orders[0].price_ticks]
    return [order for order in queue.values() if order.account == account]
