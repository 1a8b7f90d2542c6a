"""Records of a replayed file, and their effects on the book.

*As recorded*: the book follows the file and the feed shows it; nothing is matched and the book may be crossed. Messages
of the feed have their usual meaning: the execution of an order's last lots is published as the end of the order, an
execution that was recorded without a price has the price of the resting order, and a deletion contains the remaining
volume.

*As orders*: the orders that the file adds are limit orders that trade, so that clients can trade against them. A
recorded execution is an immediate-or-cancel order of `REPLAY_BROKER_ID` on the other side at the resting order's price;
afterwards the resting order has at most the volume that remains according to the file. A replacement (U) ends the old
order and adds the new one. While the symbol is not in continuous trading, added orders rest and nothing executes; a
halted or closed symbol accepts no added orders.

These records change nothing and are counted: records of ended orders, new orders whose id is already live, and broken
trades (C).
"""

from __future__ import annotations

from typing import Final

from exchange_server.matching.book import Book
from exchange_server.matching.inputs import REMAIN, Recorded
from exchange_server.matching.market_state import MarketState
from exchange_server.matching.order import IOC, Order, Side
from exchange_server.matching.special_orders import match_special, trigger_stops

__all__ = ["REPLAY_BROKER_ID", "apply_recorded"]

REPLAY_BROKER_ID: Final = 0
"""Broker of the immediate-or-cancel orders for recorded executions; they never rest."""

_CHANGES: Final = frozenset({"E", "F", "D", "X", "U", REMAIN})


def apply_recorded(book: Book, item: Recorded) -> None:
    """Apply one record to the book of its symbol, in the replay mode of the book."""
    shared = book.shared
    shared.replay_position = item.position
    if item.action in {"B", "S", "U"} and not _is_sane(book, item):
        _count(shared, "dropped_prices")
    elif book.is_followed:
        _as_recorded(book, item)
    else:
        _as_order(book, item)
        if book.stops:
            trigger_stops(book)


def _count(shared: MarketState, name: str) -> None:
    shared.replay_counts[name] = shared.replay_counts.get(name, 0) + 1


def _is_sane(book: Book, item: Recorded) -> bool:
    factor = book.shared.rules.outlier_factor
    if not factor:
        return True
    mid = book.mid_ticks()
    return item.price_ticks > 0 and (mid is None or item.price_ticks <= factor * mid)


def _order(item: Recorded, book: Book, side: Side, order_id: int) -> Order:
    return Order(order_id, order_id, book.locate, side, item.price_ticks, item.volume, item.broker_id)


def _side(item: Recorded) -> Side:
    return "B" if item.action == "B" else "S"


# --- as recorded --------------------------------------------------------------------------------------------------


def _as_recorded(book: Book, item: Recorded) -> None:
    shared, action, order_id = book.shared, item.action, item.order_id
    if action in {"B", "S"}:
        if _may_follow(book, item, order_id):
            _count_followed(shared)
            book.rest(_order(item, book, _side(item), order_id))
        return
    if action == "T":
        _print(book, item)
        return
    order = book.orders.get(order_id)
    if order is None:
        _count(shared, "unknown_orders" if action in _CHANGES else "ignored_records")
    elif action in {"E", "F"}:
        _follow_execution(book, order, order.volume if action == "F" else item.volume, item.price_ticks)
    elif action == "U":
        if _may_follow(book, item, item.new_id):
            _count_followed(shared)
            book.remove(order)
            book.replacing = order
            new = _order(item, book, order.side, item.new_id)
            new.broker_id = order.broker_id
            book.rest(new)
    elif action == "D":
        book.cancel(order_id)
    elif action == REMAIN:
        _leave(book, order, item.volume)
    elif action == "X":
        _leave(book, order, order.volume - item.volume)
    else:
        _count(shared, "ignored_records")


def _count_followed(shared: MarketState) -> None:
    """Count an order whose id is given by the recording."""
    shared.other_ids -= 1
    shared.full_at -= 1


def _may_follow(book: Book, item: Recorded, order_id: int) -> bool:
    if order_id in book.orders or item.volume <= 0 or order_id >= book.shared.rules.first_order_id:
        _count(book.shared, "refused_adds")
        return False
    return True


def _print(book: Book, item: Recorded) -> None:
    shared = book.shared
    match_id = shared.next_match_id
    shared.next_match_id += 1
    book.last_trade_ticks = item.price_ticks
    book.feed.printed(book.locate, item.broker_id, item.volume, item.price_ticks, match_id)


def _follow_execution(book: Book, order: Order, volume: int, price: int) -> None:
    shared = book.shared
    executed = min(volume, order.volume)
    if executed <= 0:
        _count(shared, "empty_executions")
        return
    order.volume -= executed
    order.executed += executed
    match_id = shared.next_match_id
    shared.next_match_id += 1
    book.last_trade_ticks = price or order.price_ticks
    book.feed.executed(order, executed, price or order.price_ticks, match_id)
    if not order.volume:
        book.remove(order)


def _leave(book: Book, order: Order, volume: int) -> None:
    """Reduce an order to `volume` lots, or end it if no lot is left. An order that has no more lots does not change."""
    if volume >= order.volume:
        _count(book.shared, "without_effect")
    elif volume <= 0:
        book.cancel(order.order_id)
    else:
        book.reduce(order, order.volume - volume)


# --- as orders ----------------------------------------------------------------------------------------------------


def _as_order(book: Book, item: Recorded) -> None:
    shared, action, order_id = book.shared, item.action, item.order_id
    if action in {"B", "S"}:
        _add_order(book, item, _side(item), order_id, item.broker_id)
        return
    known = shared.recorded_ids.get(order_id)
    order = None if known is None else book.orders.get(known[0])
    if known is None or order is None:
        shared.recorded_ids.pop(order_id, None)
        _count(shared, "gone_orders" if action in _CHANGES else "ignored_records")
        return
    if action in {"E", "F"}:
        _execute_order(book, order, item, known[1])
    elif action == "U":
        book.cancel(order.order_id)
        _add_order(book, item, order.side, item.new_id, order.broker_id)
    elif action == "D":
        book.cancel(order.order_id)
    elif action == REMAIN:
        shared.recorded_ids[order_id] = (order.order_id, item.volume)
        _leave(book, order, item.volume)
    elif action == "X":
        shared.recorded_ids[order_id] = (order.order_id, known[1] - item.volume)
        _leave(book, order, known[1] - item.volume)
    else:
        _count(shared, "ignored_records")
    known = shared.recorded_ids.get(order_id)
    if known is not None and known[0] not in book.orders:
        del shared.recorded_ids[order_id]


def _add_order(book: Book, item: Recorded, side: Side, recorded_id: int, broker_id: int) -> None:
    shared = book.shared
    known = shared.recorded_ids.get(recorded_id)
    is_live = known is not None and known[0] in book.orders
    if is_live or item.volume <= 0 or item.price_ticks <= 0 or book.phase in {"halted", "closed"}:
        _count(shared, "refused_adds")
        return
    order = _order(item, book, side, 0)
    order.broker_id = broker_id
    shared.number(order)
    if book.is_special:
        book.rest(order)
    else:
        match_special(book, order, 0)
    if order.volume:
        shared.recorded_ids[recorded_id] = (order.order_id, item.volume)
    else:
        shared.recorded_ids.pop(recorded_id, None)


def _execute_order(book: Book, order: Order, item: Recorded, recorded_volume: int) -> None:
    shared = book.shared
    volume = recorded_volume if item.action == "F" else min(item.volume, recorded_volume)
    if volume <= 0:
        _count(shared, "empty_executions")
        return
    remains = recorded_volume - volume
    shared.recorded_ids[item.order_id] = (order.order_id, remains)
    if not book.is_special:
        aggressor_id = shared.next_order_id
        shared.next_order_id += 1
        shared.other_ids += 1
        side: Side = "S" if order.side == "B" else "B"
        aggressor = Order(
            aggressor_id, aggressor_id, book.locate, side, order.price_ticks, volume, REPLAY_BROKER_ID, flags=IOC
        )
        match_special(book, aggressor, 0)
    if order.order_id in book.orders and order.volume > remains:
        _leave(book, order, remains)
