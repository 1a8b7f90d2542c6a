"""What a record of a played file does to the market.

*As recorded*: the book follows the file and the feed shows it; nothing is matched and the book may be crossed. The
feed keeps its own meaning of every letter: an execution that empties an order is F, executions without a price carry
the resting order's price, D carries what remained.
*As orders*: adds are limit orders that trade, so that clients can trade against them. A recorded execution is an
immediate-or-cancel order of `REPLAY_BROKER_ID` on the other side at the resting order's price; afterwards the resting
order has at most what the file says remains.

Records that find their order gone, ids that are live already, and crosses (C) change nothing and are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from exchange_server.book import Book, Order, Side
from exchange_server.inputs import REMAIN, Input

if TYPE_CHECKING:
    from exchange_server.market import Market

__all__ = ["REPLAY_BROKER_ID", "apply_recording"]

REPLAY_BROKER_ID: Final = 0
"""Broker of the immediate-or-cancel orders that recorded executions become; they never rest."""


def apply_recording(market: Market, item: Input) -> None:
    """Apply one record in the mode of its symbol."""
    market.replay_position = item.client_id
    book = market.books[item.symbol]
    if item.action in {"B", "S"} and not _is_sane(market, book, item):
        _count(market, "dropped_prices")
    elif market.rules.replay_mode == "as-recorded":
        _as_recorded(market, book, item)
    else:
        _as_order(market, book, item)


def _count(market: Market, name: str) -> None:
    market.replay_counts[name] = market.replay_counts.get(name, 0) + 1


def _is_sane(market: Market, book: Book, item: Input) -> bool:
    factor = market.rules.outlier_factor
    if not factor:
        return True
    mid = book.mid_ticks()
    return item.price_ticks > 0 and (mid is None or item.price_ticks <= factor * mid)


def _as_recorded(market: Market, book: Book, item: Input) -> None:
    action, order_id = item.action, item.order_id
    if action in {"B", "S"}:
        if order_id in book.orders or item.volume <= 0 or order_id >= market.rules.first_order_id:
            _count(market, "refused_adds")
            return
        side: Side = "B" if action == "B" else "S"
        market.orders += 1
        market.rest(book, Order(order_id, item.broker_id, side, item.price_ticks, item.volume))
        return
    if action == "T":
        market.trades += 1
        market.publish(order_id, item.broker_id, "T", item.volume, item.price_ticks, item.symbol)
        return
    order = book.orders.get(order_id)
    if order is None:
        _count(market, "unknown_orders")
    elif action in {"E", "F"}:
        _execute_recorded(market, book, order, order.volume if action == "F" else item.volume, item.price_ticks)
    elif action == "D":
        market.cancel(book, order, "user")
    elif action == REMAIN:
        _leave(market, book, order, item.volume)
    elif action == "X":
        _leave(market, book, order, order.volume - item.volume)
    else:
        _count(market, "ignored_records")


def _execute_recorded(market: Market, book: Book, order: Order, volume: int, price: int) -> None:
    executed = min(volume, order.volume)
    if executed <= 0:
        _count(market, "empty_executions")
        return
    last = executed == order.volume
    book.take(order, executed)
    market.live_orders -= last
    market.trades += 1
    market.publish(
        order.order_id, order.broker_id, "F" if last else "E", executed, price or order.price_ticks, book.symbol
    )


def _leave(market: Market, book: Book, order: Order, volume: int) -> None:
    """Reduce an order to `volume`; a record that says more than there is changes nothing."""
    if volume >= order.volume:
        _count(market, "without_effect")
    elif volume <= 0:
        market.cancel(book, order, "user")
    else:
        market.reduce(book, order, order.volume - volume)


def _as_order(market: Market, book: Book, item: Input) -> None:
    action, order_id = item.action, item.order_id
    if action in {"B", "S"}:
        _add_order(market, book, item)
        return
    known = market.recorded_ids.get(order_id)
    order = None if known is None else book.orders.get(known[0])
    if known is None or order is None:
        market.recorded_ids.pop(order_id, None)
        _count(market, "gone_orders" if action in {"E", "F", "D", "X", REMAIN} else "ignored_records")
        return
    if action in {"E", "F"}:
        _execute_order(market, book, order, item, known[1])
    elif action == "D":
        market.cancel(book, order, "user")
    elif action == REMAIN:
        market.recorded_ids[order_id] = (order.order_id, item.volume)
        _leave(market, book, order, item.volume)
    elif action == "X":
        market.recorded_ids[order_id] = (order.order_id, known[1] - item.volume)
        _leave(market, book, order, known[1] - item.volume)
    else:
        _count(market, "ignored_records")
    if order.order_id not in book.orders:
        del market.recorded_ids[order_id]


def _add_order(market: Market, book: Book, item: Input) -> None:
    known = market.recorded_ids.get(item.order_id)
    if (known is not None and known[0] in book.orders) or item.volume <= 0 or item.price_ticks <= 0:
        _count(market, "refused_adds")
        return
    side: Side = "B" if item.action == "B" else "S"
    order_id = market.next_order_id
    market.next_order_id += 1
    market.orders += 1
    left = market.match(book, side, item.price_ticks, item.volume, order_id, item.broker_id, 0)
    if left:
        market.rest(book, Order(order_id, item.broker_id, side, item.price_ticks, left))
        market.recorded_ids[item.order_id] = (order_id, item.volume)
    else:
        market.recorded_ids.pop(item.order_id, None)


def _execute_order(market: Market, book: Book, order: Order, item: Input, recorded_volume: int) -> None:
    volume = recorded_volume if item.action == "F" else min(item.volume, recorded_volume)
    if volume <= 0:
        _count(market, "empty_executions")
        return
    remains = recorded_volume - volume
    market.recorded_ids[item.order_id] = (order.order_id, remains)
    aggressor: Side = "S" if order.side == "B" else "B"
    aggressor_id = market.next_order_id
    market.next_order_id += 1
    market.match(book, aggressor, order.price_ticks, volume, aggressor_id, REPLAY_BROKER_ID, 0)
    if order.order_id in book.orders and order.volume > remains:
        _leave(market, book, order, remains)
