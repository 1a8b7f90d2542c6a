"""Records of a replayed file."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING

from exchange_server.matching.inputs import REMAIN, Recorded
from exchange_server.matching.order import HIDDEN, CancelReason, Order
from tests.model.book import ModelBook, left_of
from tests.model.entering import rest, run_stops, trade

if TYPE_CHECKING:
    from tests.model.market import ModelMarket

__all__ = ["Recording"]

_REPLAY_BROKER_ID = 0
_CHANGES = {"E", "F", "D", "X", "U", REMAIN}


class Recording:
    """Effects of a file's records on its symbol, and the number of records without effect."""

    def __init__(self, market: ModelMarket) -> None:
        self._market = market
        self.position = 0
        self.counts: Counter[str] = Counter()
        self.known: dict[int, tuple[int, int]] = {}
        """As orders: id in the file → id in the market, and the volume that remains by the file."""

    def apply(self, item: Recorded) -> None:
        """Apply one record."""
        self.position = item.position
        book = self._market.book_of(item.symbol)
        assert book is not None
        if item.action in {"B", "S", "U"} and not self._is_sane(book, item):
            self.counts["dropped_prices"] += 1
        elif self._market.is_played(book):
            self._follow(book, item)
        else:
            self._order(book, item)
            run_stops(self._market, book)

    def _is_sane(self, book: ModelBook, item: Recorded) -> bool:
        factor = self._market.rules.outlier_factor
        if not factor:
            return True
        displayed = [[o.price_ticks for o in book.by_priority(side) if not o.flags & HIDDEN] for side in "BS"]
        tops = [prices[0] for prices in displayed if prices]
        if item.price_ticks <= 0:
            return False
        return not tops or item.price_ticks <= factor * (sum(tops) // len(tops))

    # -- as recorded

    def _follow(self, book: ModelBook, item: Recorded) -> None:
        market = self._market
        order = next((order for order in book.resting if order.order_id == item.order_id), None)
        if item.action in {"B", "S"}:
            if self._may_follow(book, item, item.order_id):
                self._add(book, item, item.action, item.broker_id, item.order_id)
        elif item.action == "T":
            book.last_trade_ticks = item.price_ticks
            match_id = market.take_match_id()
            market.feed.printed(book.locate, item.broker_id, item.volume, item.price_ticks, match_id)
        elif order is None:
            self.counts["unknown_orders" if item.action in _CHANGES else "ignored_records"] += 1
        elif item.action in {"E", "F"}:
            self._execute(book, order, order.volume if item.action == "F" else item.volume, item.price_ticks)
        elif item.action == "U":
            if self._may_follow(book, item, item.new_id):
                book.remove(order)
                book.replacing = order
                self._add(book, item, order.side, order.broker_id, item.new_id)
        elif item.action == "D":
            market.end(book, order, CancelReason.USER)
        elif item.action in {REMAIN, "X"}:
            self._leave(book, order, item.volume if item.action == REMAIN else order.volume - item.volume)
        else:
            self.counts["ignored_records"] += 1

    def _may_follow(self, book: ModelBook, item: Recorded, order_id: int) -> bool:
        is_there = any(order.order_id == order_id for order in book.resting)
        if is_there or item.volume <= 0 or order_id >= self._market.rules.first_order_id:
            self.counts["refused_adds"] += 1
            return False
        return True

    def _add(self, book: ModelBook, item: Recorded, side: str, broker_id: int, order_id: int) -> None:
        rest(self._market, book, _order(item, book, side, broker_id, order_id))

    def _execute(self, book: ModelBook, order: Order, volume: int, price_ticks: int) -> None:
        volume = min(volume, order.volume)
        if volume <= 0:
            self.counts["empty_executions"] += 1
            return
        order.volume -= volume
        order.executed += volume
        if not order.volume:
            book.remove(order)
        book.last_trade_ticks = price_ticks or order.price_ticks
        self._market.feed.executed(order, volume, book.last_trade_ticks, self._market.take_match_id())

    def _leave(self, book: ModelBook, order: Order, volume: int) -> None:
        market = self._market
        if volume >= left_of(order):
            self.counts["without_effect"] += 1
        elif volume <= 0:
            market.end(book, order, CancelReason.USER)
        else:
            off = order.volume - volume
            order.volume = volume
            market.feed.reduced(order, off)

    # -- as orders

    def _order(self, book: ModelBook, item: Recorded) -> None:
        market, action = self._market, item.action
        if action in {"B", "S"}:
            self._enter(book, item, action, item.broker_id, item.order_id)
            return
        order_id, left = self.known.get(item.order_id, (0, 0))
        order = next((order for order in book.resting if order.order_id == order_id), None)
        if order is None:
            self.known.pop(item.order_id, None)
            self.counts["gone_orders" if action in _CHANGES else "ignored_records"] += 1
            return
        if action in {"E", "F"}:
            self._take(book, order, item, left)
        elif action in {"D", "U"}:
            market.end(book, order, CancelReason.USER)
            if action == "U":
                self._enter(book, item, order.side, order.broker_id, item.new_id)
        elif action in {REMAIN, "X"}:
            left = item.volume if action == REMAIN else left - item.volume
            self.known[item.order_id] = (order.order_id, left)
            self._leave(book, order, left)
        else:
            self.counts["ignored_records"] += 1
        if self.known.get(item.order_id, (0, 0))[0] == order.order_id and not left_of(order):
            del self.known[item.order_id]

    def _enter(self, book: ModelBook, item: Recorded, side: str, broker_id: int, recorded_id: int) -> None:
        known = self.known.get(recorded_id, (0, 0))[0]
        is_live = any(order.order_id == known for order in book.resting)
        if is_live or item.volume <= 0 or item.price_ticks <= 0 or book.phase in {"halted", "closed"}:
            self.counts["refused_adds"] += 1
            return
        self.known.pop(recorded_id, None)
        order = _order(item, book, side, broker_id, self._market.take_order_id())
        if book.phase == "continuous":
            self._trade(book, order)
        if order.volume:
            rest(self._market, book, order)
            self.known[recorded_id] = (order.order_id, item.volume)

    def _trade(self, book: ModelBook, order: Order) -> None:
        """Trade as far as the order's limit reaches, without a collar and without notifications."""
        while order.volume and (other := book.opposite(order)) is not None:
            trade(self._market, book, order, other, min(order.volume, other.volume))

    def _take(self, book: ModelBook, order: Order, item: Recorded, left: int) -> None:
        volume = left if item.action == "F" else min(item.volume, left)
        if volume <= 0:
            self.counts["empty_executions"] += 1
            return
        remains = left - volume
        self.known[item.order_id] = (order.order_id, remains)
        if book.phase == "continuous":
            taker = copy.copy(order)
            taker.order_id = self._market.take_order_id()
            taker.side, taker.volume, taker.broker_id = "S" if order.side == "B" else "B", volume, _REPLAY_BROKER_ID
            self._trade(book, taker)
        if left_of(order) > remains:
            self._leave(book, order, remains)


def _order(item: Recorded, book: ModelBook, side: str, broker_id: int, order_id: int) -> Order:
    return Order(
        order_id, order_id, book.locate, side, item.price_ticks, item.volume, broker_id,  # type: ignore[arg-type]
    )  # fmt: skip
