"""What happens to live orders: they are replaced, triggered, and cancelled many at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from exchange_server.matching.entering import Refusal, refusal_of
from exchange_server.matching.floor import INT64_MAX
from exchange_server.matching.levels import NOTHING
from exchange_server.matching.order import HIDDEN, MARKET, OUTSIDE, STOP, Order
from exchange_server.matching.reasons import CancelReason, RefuseReason

if TYPE_CHECKING:
    from exchange_server.matching.book import Book
    from exchange_server.matching.inputs import Replace
    from exchange_server.matching.market import Market

__all__ = ["in_order", "replace", "replace_or_reduce", "trigger"]


def replace_or_reduce(market: Market, order: Order, item: Replace) -> int:
    """Carry out a replacement of the text protocol: a reduction, if that is all; the id of the order that is live, 0 if
    the request was refused."""
    volume, price = item.volume, item.price_ticks
    held = order.volume + order.reserve
    refusal: Refusal | None = None
    if volume < 1:
        refusal = RefuseReason.BAD_VOLUME, f"expected a volume of 1 or more was {volume}"
    elif price < 0 or (price == 0) != (order.flags & MARKET > 0):
        refusal = RefuseReason.BAD_PRICE, f"expected a price as the order has one was {price}"
    if refusal is not None:
        market.turn_down(order.account, item.ref, *refusal, item)
        return 0
    if price == order.price_ticks and volume <= held:
        if volume < held:
            market.cancel(order, held - volume, CancelReason.USER, item.ref)
        else:
            market.tellers[order.account].canceled(order, 0, CancelReason.USER, item.ref)
        return order.order_id
    new = Order(
        0, 0, order.locate, order.side, price, volume, order.broker_id, order.account, item.ref, order.flags,
        display=order.display, stop_ticks=order.stop_ticks, expire_ns=order.expire_ns, echo=order.echo,
    )  # fmt: skip
    replace(market, order, new, item)
    return new.order_id if new.order_id and new.volume > 0 else 0


def replace(market: Market, old: Order, new: Order, item: object) -> None:
    """`old` ends and `new` is entered, if that may be; see `Market.replace`."""
    new.flags = new.flags & ~MARKET if new.price_ticks else new.flags | MARKET
    refusal = refusal_of(market, new, old)
    if refusal is not None:
        market.refuse(new, *refusal, item)
        return
    book = market.book_at[old.locate]
    assert book is not None
    book.remove(old)
    market.number(new)
    new.executed = min(old.executed, INT64_MAX)
    market.tellers[new.account].replaced(old, new)
    old.reserve = 0
    if old.flags & (OUTSIDE | HIDDEN):
        old.volume = 0
    else:
        book.replacing = old
        if _meets_another(book, new):
            book.settle_replaced()
    book.enter_specially(new)
    if book.stops:
        market.trigger(book)


def _meets_another(book: Book, order: Order) -> bool:
    """Whether there is an order within the limit of one that enters now."""
    if book.phase != "continuous" or order.flags & OUTSIDE:
        return False
    if order.side == "B":
        return book.ask_edge < -NOTHING and (order.flags & MARKET > 0 or book.ask_edge <= order.price_ticks)
    return book.bid_edge > NOTHING and (order.flags & MARKET > 0 or book.bid_edge >= order.price_ticks)


def trigger(market: Market, book: Book, order: Order) -> None:
    """A stop that was reached enters the book."""
    book.remove(order)
    order.flags &= ~STOP
    market.tellers[order.account].triggered(order)
    book.enter_specially(order)


def in_order(market: Market, account: int, symbol: str) -> list[Order]:
    """The live orders of an account (0: of everybody, a recording that is followed apart), of one symbol or (empty) of
    all, in the order in which a mass cancel ends them."""
    wanted = market.books[symbol] if symbol else None
    if not account:
        books = market.books.values() if wanted is None else (wanted,)
        taken = (book for book in books if not book.is_followed)
        return [order for book in taken for order in (*book.resting(), *book.waiting.values())]
    by_locate: dict[int, list[Order]] = {}
    for order in market.accounts[account].orders.values():
        if wanted is None or order.locate == wanted.locate:
            by_locate.setdefault(order.locate, []).append(order)
    found: list[Order] = []
    for locate in sorted(by_locate):
        book = market.book_at[locate]
        assert book is not None
        found += _in_priority(book, account, by_locate[locate])
    return found


def _in_priority(book: Book, account: int, orders: Iterable[Order]) -> list[Order]:
    """An account's orders in a book."""
    places: dict[tuple[bool, int, bool], list[Order]] = {}
    waiting: list[Order] = []
    for order in orders:
        if order.flags & OUTSIDE:
            waiting.append(order)
        else:
            rank = book.levels_of(order).sign * order.price_ticks
            places.setdefault((order.side == "S", -rank, order.flags & HIDDEN > 0), []).append(order)
    found = [order for key in sorted(places) for order in _as_queued(book, account, places[key])]
    return found + sorted(waiting, key=lambda order: order.order_id)


def _as_queued(book: Book, account: int, orders: list[Order]) -> list[Order]:
    """An account's orders of one queue in its order, which is that of their ids on the feed.

    But for stops that were reached: they have come later than their ids say, and the whole queue is looked at.
    """
    if len(orders) == 1 or not any(order.stop_ticks for order in orders):
        return sorted(orders, key=lambda order: order.feed_id)
    queue = book.levels_of(orders[0])[orders[0].price_ticks]
    return [order for order in queue.values() if order.account == account]
