"""What a record of a played file does to the market.

*As recorded*: the book follows the file and the feed shows it; nothing is matched and the book may be crossed. The
feed keeps its own meaning of every message: an execution that empties an order says so, executions without a price
carry the resting order's price, a deletion says what remained.
*As orders*: adds are limit orders that trade, so that clients can trade against them. A recorded execution is an
immediate-or-cancel order of `REPLAY_BROKER_ID` on the other side at the resting order's price; afterwards the resting
order has at most what the file says remains. A replacement (U) ends one order and adds the other. While the symbol is
not in continuous trading, adds rest and nothing executes; a symbol that is halted or closed takes none.

Records that find their order gone, ids that are live already, and crosses (C) change nothing and are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from exchange_server.matching.inputs import REMAIN, Recorded
from exchange_server.matching.order import IOC, Order, Side
from exchange_server.matching.taking import meet

if TYPE_CHECKING:
    from exchange_server.matching.book import Book
    from exchange_server.matching.market import Market

__all__ = ["REPLAY_BROKER_ID", "apply_recorded"]

REPLAY_BROKER_ID: Final = 0
"""Broker of the immediate-or-cancel orders that recorded executions become; they never rest."""

_CHANGES: Final = frozenset({"E", "F", "D", "X", "U", REMAIN})


def apply_recorded(market: Market, item: Recorded) -> None:
    """Apply one record in the mode of its symbol."""
    market.replay_position = item.position
    book = market.books[item.symbol]
    if item.action in {"B", "S", "U"} and not _is_sane(market, book, item):
        _count(market, "dropped_prices")
    elif book.is_followed:
        _as_recorded(market, book, item)
    else:
        _as_order(market, book, item)
        if book.stops:
            market.trigger(book)


def _count(market: Market, name: str) -> None:
    market.replay_counts[name] = market.replay_counts.get(name, 0) + 1


def _is_sane(market: Market, book: Book, item: Recorded) -> bool:
    factor = market.rules.outlier_factor
    if not factor:
        return True
    mid = book.mid_ticks()
    return item.price_ticks > 0 and (mid is None or item.price_ticks <= factor * mid)


def _order(item: Recorded, book: Book, side: Side, order_id: int) -> Order:
    return Order(order_id, order_id, book.locate, side, item.price_ticks, item.volume, item.broker_id)


def _side(item: Recorded) -> Side:
    return "B" if item.action == "B" else "S"


# --- as recorded --------------------------------------------------------------------------------------------------


def _as_recorded(market: Market, book: Book, item: Recorded) -> None:
    action, order_id = item.action, item.order_id
    if action in {"B", "S"}:
        if _may_follow(market, book, item, order_id):
            _count_followed(market)
            book.rest(_order(item, book, _side(item), order_id))
        return
    if action == "T":
        _print(market, book, item)
        return
    order = book.orders.get(order_id)
    if order is None:
        _count(market, "unknown_orders" if action in _CHANGES else "ignored_records")
    elif action in {"E", "F"}:
        _follow_execution(market, book, order, order.volume if action == "F" else item.volume, item.price_ticks)
    elif action == "U":
        if _may_follow(market, book, item, item.new_id):
            _count_followed(market)
            book.remove(order)
            book.replacing = order
            new = _order(item, book, order.side, item.new_id)
            new.broker_id = order.broker_id
            book.rest(new)
    elif action == "D":
        book.cancel(order_id)
    elif action == REMAIN:
        _leave(market, book, order, item.volume)
    elif action == "X":
        _leave(market, book, order, order.volume - item.volume)
    else:
        _count(market, "ignored_records")


def _count_followed(market: Market) -> None:
    """An order with an id of its own is taken."""
    market.other_ids -= 1
    market.full_at -= 1


def _may_follow(market: Market, book: Book, item: Recorded, order_id: int) -> bool:
    if order_id in book.orders or item.volume <= 0 or order_id >= market.rules.first_order_id:
        _count(market, "refused_adds")
        return False
    return True


def _print(market: Market, book: Book, item: Recorded) -> None:
    match_id = market.next_match_id
    market.next_match_id += 1
    book.last_trade_ticks = item.price_ticks
    book.feed.printed(book.locate, item.broker_id, item.volume, item.price_ticks, match_id)


def _follow_execution(market: Market, book: Book, order: Order, volume: int, price: int) -> None:
    executed = min(volume, order.volume)
    if executed <= 0:
        _count(market, "empty_executions")
        return
    order.volume -= executed
    order.executed += executed
    match_id = market.next_match_id
    market.next_match_id += 1
    book.last_trade_ticks = price or order.price_ticks
    book.feed.executed(order, executed, price or order.price_ticks, match_id)
    if not order.volume:
        book.remove(order)


def _leave(market: Market, book: Book, order: Order, volume: int) -> None:
    """Reduce an order to `volume`; a record that says more than there is changes nothing."""
    if volume >= order.volume:
        _count(market, "without_effect")
    elif volume <= 0:
        book.cancel(order.order_id)
    else:
        book.reduce(order, order.volume - volume)


# --- as orders ----------------------------------------------------------------------------------------------------


def _as_order(market: Market, book: Book, item: Recorded) -> None:
    action, order_id = item.action, item.order_id
    if action in {"B", "S"}:
        _add_order(market, book, item, _side(item), order_id, item.broker_id)
        return
    known = market.recorded_ids.get(order_id)
    order = None if known is None else book.orders.get(known[0])
    if known is None or order is None:
        market.recorded_ids.pop(order_id, None)
        _count(market, "gone_orders" if action in _CHANGES else "ignored_records")
        return
    if action in {"E", "F"}:
        _execute_order(market, book, order, item, known[1])
    elif action == "U":
        book.cancel(order.order_id)
        _add_order(market, book, item, order.side, item.new_id, order.broker_id)
    elif action == "D":
        book.cancel(order.order_id)
    elif action == REMAIN:
        market.recorded_ids[order_id] = (order.order_id, item.volume)
        _leave(market, book, order, item.volume)
    elif action == "X":
        market.recorded_ids[order_id] = (order.order_id, known[1] - item.volume)
        _leave(market, book, order, known[1] - item.volume)
    else:
        _count(market, "ignored_records")
    known = market.recorded_ids.get(order_id)
    if known is not None and known[0] not in book.orders:
        del market.recorded_ids[order_id]


def _add_order(  # noqa: PLR0917 - what a replacement has from elsewhere
    market: Market, book: Book, item: Recorded, side: Side, recorded_id: int, broker_id: int
) -> None:
    known = market.recorded_ids.get(recorded_id)
    is_live = known is not None and known[0] in book.orders
    if is_live or item.volume <= 0 or item.price_ticks <= 0 or book.phase in {"halted", "closed"}:
        _count(market, "refused_adds")
        return
    order = _order(item, book, side, 0)
    order.broker_id = broker_id
    market.number(order)
    if book.is_special:
        book.rest(order)
    else:
        meet(book, order, 0)
    if order.volume:
        market.recorded_ids[recorded_id] = (order.order_id, item.volume)
    else:
        market.recorded_ids.pop(recorded_id, None)


def _execute_order(market: Market, book: Book, order: Order, item: Recorded, recorded_volume: int) -> None:
    volume = recorded_volume if item.action == "F" else min(item.volume, recorded_volume)
    if volume <= 0:
        _count(market, "empty_executions")
        return
    remains = recorded_volume - volume
    market.recorded_ids[item.order_id] = (order.order_id, remains)
    if not book.is_special:
        aggressor_id = market.next_order_id
        market.next_order_id += 1
        market.other_ids += 1
        side: Side = "S" if order.side == "B" else "B"
        aggressor = Order(
            aggressor_id, aggressor_id, book.locate, side, order.price_ticks, volume, REPLAY_BROKER_ID, flags=IOC
        )
        meet(book, aggressor, 0)
    if order.order_id in book.orders and order.volume > remains:
        _leave(market, book, order, remains)
