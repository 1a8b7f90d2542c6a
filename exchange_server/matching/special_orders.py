"""Special orders: icebergs, hidden, post-only, market and minimum orders, stops, self-trades and the collar.

These are the rules that plain matching (`Book.execute`) does not apply. The attributes are the flags of
`exchange_server.matching.order`; orders for an auction wait here and execute in `exchange_server.matching.auctions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain

from exchange_server.matching.book import Book
from exchange_server.matching.levels import NOTHING, Levels, ranks_of
from exchange_server.matching.order import (
    HIDDEN,
    IOC,
    MARKET,
    MINIMUM,
    OUTSIDE,
    POST_ONLY,
    STOP,
    CancelReason,
    Order,
    SelfTrade,
)

__all__ = ["end", "enter_special", "match_special", "show_next_part", "trigger_stops"]


def enter_special(book: Book, order: Order) -> None:
    """Process an order of any kind in a phase that accepts it: match, rest or end it, or keep it outside the book."""
    if order.flags & OUTSIDE:
        book.wait(order)
    elif book.phase == "continuous":
        match_special(book, order, book.shared.collar_bps)
    else:
        book.rest(order)


def match_special(book: Book, order: Order, collar_bps: int) -> None:
    """Match an order under the rules of its attributes, its account and the collar; rest or end the remaining lots.

    Prices are ranks of the other side here: the higher, the better for the order.
    """
    flags = order.flags
    is_buy = order.side == "B"
    shown, hidden = (book.asks, book.hidden_asks) if is_buy else (book.bids, book.hidden_bids)
    sign = shown.sign
    bound = NOTHING if flags & MARKET else sign * order.price_ticks
    executed = order.executed  # not 0 for a replacement
    edge = max(shown.top(), hidden.top())
    reach = bound
    if collar_bps:
        reference = book.reference() * sign
        width = abs(reference) * collar_bps // 10_000
        # Executions begin at the best price: if it is better than the collar allows, nothing executes.
        reach = max(bound, reference - width) if edge <= reference + width else edge + 1
    if edge >= bound and edge != NOTHING:
        policy = book.shared.accounts[order.account].self_trade if order.account else "allow"
        if flags & POST_ONLY and edge >= reach:
            end(book, order, CancelReason.POST_ONLY)
        elif flags & MINIMUM and _executable(order, shown, hidden, reach, policy) < order.minimum:
            end(book, order, CancelReason.MINIMUM)
        else:
            _take(book, order, shown, hidden, reach, policy)
        if not order.volume:
            book.settle_replaced()
            return
        edge = max(shown.top(), hidden.top())
    if edge >= bound and edge != NOTHING:
        end(book, order, CancelReason.COLLAR)
    elif flags & MINIMUM and order.executed == executed:
        end(book, order, CancelReason.MINIMUM)
    elif flags & MARKET:
        end(book, order, CancelReason.MARKET)
    elif flags & IOC:
        end(book, order, CancelReason.IMMEDIATE)
    else:
        book.rest(order)
        return
    book.settle_replaced()


def end(book: Book, order: Order, reason: CancelReason) -> None:
    """Cancel the remaining lots of an order that is not in the book, and notify its owner."""
    volume, order.volume = order.volume, 0
    book.shared.tellers[order.account].canceled(order, volume, reason, order.ref)


def _is_own(order: Order, resting: Order) -> bool:
    # The brokers of two orders of one account differ if the account's settings have changed between them.
    return resting.account > 0 and (resting.account == order.account or resting.broker_id == order.broker_id)


def _take(book: Book, order: Order, shown: Levels, hidden: Levels, reach: int, policy: SelfTrade) -> None:  # noqa: PLR0917 - one call
    while order.volume:
        rank = max(shown.top(), hidden.top())
        if rank < reach or rank == NOTHING:
            return
        price = rank * shown.sign
        levels = shown if price in shown else hidden
        _take_queue(book, order, levels.walk(price), price, policy)


def _take_queue(book: Book, order: Order, queue: dict[int, Order], price: int, policy: SelfTrade) -> None:
    """Execute against the orders of one queue, up to the first order that needs a special rule."""
    gone: list[Order] = []
    refreshed: Order | None = None
    own: Order | None = None
    for resting in queue.values():
        if policy != "allow" and _is_own(order, resting):
            own = resting
            break
        _execute(book, order, resting, price)
        if not resting.volume:
            if resting.reserve:
                refreshed = resting
                break
            gone.append(resting)
        if not order.volume:
            break
    for resting in gone:
        book.remove(resting)
    if refreshed is not None:
        show_next_part(book, refreshed)
    if own is not None:
        _prevent(book, order, own, policy)


def _execute(book: Book, order: Order, resting: Order, price: int) -> None:
    """Execute one match and publish it; the resting order stays in its queue."""
    shared = book.shared
    match_id = shared.next_match_id
    shared.next_match_id = match_id + 1
    done = min(order.volume, resting.volume)
    order.volume -= done
    order.executed += done
    resting.volume -= done
    resting.executed += done
    book.last_trade_ticks = price
    if book.stops:
        book.stops.traded(price)
    is_hidden = resting.flags & HIDDEN
    if is_hidden:
        book.feed.traded(resting, done, price, match_id)
    else:
        book.feed.executed(resting, done, price, match_id)
    if resting.account:
        account = shared.accounts[resting.account]
        if account.open_notional:
            account.open_notional -= done * price
        shared.executions.append((match_id, resting, done, price))
        shared.tellers[resting.account].executed(resting, done, price, "J" if is_hidden else "A", match_id)
    if order.account:
        shared.executions.append((match_id, order, done, price))
        shared.tellers[order.account].executed(order, done, price, "R", match_id)


def show_next_part(book: Book, order: Order) -> None:
    """Display the next part of an iceberg whose displayed part is used up, as a new order on the feed."""
    shared = book.shared
    book.displace(order)
    order.volume = min(order.display, order.reserve)
    order.reserve -= order.volume
    order.feed_id = shared.next_order_id
    shared.next_order_id += 1
    shared.other_ids += 1
    book.place(order)
    book.feed.added(order)
    shared.tellers[order.account].refreshed(order)


def _prevent(book: Book, order: Order, own: Order, policy: SelfTrade) -> None:
    """Prevent a trade between two orders of one broker; the owner of the resting order is notified first."""
    shared, price = book.shared, own.price_ticks
    prevented = min(order.volume, own.volume)
    if policy in {"oldest", "both"}:
        volume = book.cancel(own.order_id)
        own.volume = 0
        shared.tellers[own.account].prevented(own, volume, prevented, price, "A", policy)
    elif policy == "decrement":
        _decrement(book, own, prevented)
        shared.tellers[own.account].prevented(own, prevented, prevented, price, "A", policy)
    taken = order.volume if policy in {"newest", "both"} else prevented if policy == "decrement" else 0
    if taken:
        order.volume -= taken
        shared.tellers[order.account].prevented(order, taken, prevented, price, "R", policy)
    if not own.volume and own.reserve:
        show_next_part(book, own)


def _decrement(book: Book, order: Order, volume: int) -> None:
    """Take `volume` lots off the displayed part of a resting order."""
    if volume == order.volume + order.reserve:
        book.cancel(order.order_id)
        order.volume = 0
        return
    account = book.shared.accounts[order.account]
    if account.open_notional:
        account.open_notional -= volume * order.price_ticks
    order.volume -= volume
    if order.flags & HIDDEN:
        return
    if order.volume:
        book.feed.reduced(order, volume)
    else:
        book.feed.deleted(order, volume)


def _executable(order: Order, shown: Levels, hidden: Levels, reach: int, policy: SelfTrade) -> int:
    """Return how many lots would execute at once, counted up to the order's minimum."""
    left, done = order.volume, 0
    for rank in ranks_of(shown, hidden):
        if rank < reach:
            break
        price = rank * shown.sign
        for levels in (shown, hidden):
            queue = levels.walk(price) if price in levels else {}
            later: deque[tuple[int, int, int, bool]] = deque()
            for volume, reserve, display, is_own in chain(_parts(order, queue, policy), _drained(later)):
                if not left or done >= order.minimum or (is_own and policy in {"newest", "both"}):
                    return done
                if is_own and policy == "oldest":
                    continue
                part = min(left, volume)
                left -= part
                done += 0 if is_own else part
                if reserve:
                    later.append((min(display, reserve), max(0, reserve - display), display, is_own))
    return done


def _parts(order: Order, queue: dict[int, Order], policy: SelfTrade) -> Iterator[tuple[int, int, int, bool]]:
    for resting in queue.values():
        is_own = policy != "allow" and _is_own(order, resting)
        yield resting.volume, resting.reserve, resting.display, is_own


def _drained(queue: deque[tuple[int, int, int, bool]]) -> Iterator[tuple[int, int, int, bool]]:
    while queue:
        yield queue.popleft()


def trigger_stops(book: Book) -> None:
    """Enter the stop orders that trades have reached, then those that the trades of the entered orders reach, and so
    on.
    """
    if book.phase != "continuous":
        return
    while reached := book.stops.reached():
        for order_id in reached:
            order = book.orders[order_id]
            book.remove(order)
            order.flags &= ~STOP
            book.shared.tellers[order.account].triggered(order)
            book.enter_special(order)
