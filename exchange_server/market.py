"""The market: applies inputs to the books and says what became of them.

A pure function of its rules and inputs: no clock, no randomness, no I/O. Its output are finished lines of the text
protocol, encoded once for whoever reads them.
"""

from __future__ import annotations

from typing import Final

from exchange_server.book import Book, Order, Side
from exchange_server.inputs import CLIENT, RECORDING, Input, MarketRules
from exchange_server.recording import apply_recording

__all__ = ["Market"]

_INT64_MAX: Final = 2**63 - 1


class Market:
    """Books of several symbols under price-time priority.

    `apply` appends to `feed` and `private`; whoever drives the market takes the lines with `take_output`. All feed
    messages of one input share its time, and the feed shows resting quantity only: first the executions of resting
    orders, then what is left of the aggressor as a new resting order.
    """

    def __init__(self, rules: MarketRules) -> None:
        self.rules = rules
        self.books: dict[str, Book] = {instrument.symbol: Book(instrument.symbol) for instrument in rules.instruments}
        self.feed: list[str] = []
        self.private: dict[int, list[str]] = {}
        self.next_sequence = 1
        self.next_order_id = rules.first_order_id
        self.next_private: dict[int, int] = {}
        self.last_client_id: dict[int, int] = {}
        self.last_time_ns = 0
        self.live_orders = 0
        self.inputs = 0
        self.orders = 0
        self.trades = 0
        self.replay_position = 0
        self.recorded_ids: dict[int, tuple[int, int]] = {}
        """As orders: id in the file → the market's order id and the volume that the file says remains."""
        self.replay_counts: dict[str, int] = {}

    def take_output(self) -> tuple[list[str], dict[int, list[str]]]:
        """Feed lines and private lines per broker since the last call."""
        feed, private = self.feed, self.private
        self.feed, self.private = [], {}
        return feed, private

    def apply(self, item: Input) -> int:
        """Apply one input; returns the id of the order that it left in the book, 0 if none."""
        self.inputs += 1
        self.last_time_ns = item.time_ns
        if item.origin == RECORDING:
            apply_recording(self, item)
            return 0
        if item.origin == CLIENT:
            if item.client_id <= self.last_client_id.get(item.broker_id, 0):
                return 0
            self.last_client_id[item.broker_id] = item.client_id
        book = self.books.get(item.symbol)
        if book is None:
            self.refuse(item, f"unknown symbol {item.symbol}")
        elif item.symbol == self.rules.replay_symbol and self.rules.replay_mode == "as-recorded":
            self.refuse(item, "replayed")
        elif item.action == "B":
            return self._order(book, item, "B")
        elif item.action == "S":
            return self._order(book, item, "S")
        elif item.action in {"X", "D"}:
            self._change(book, item)
        else:
            self.refuse(item, f"unknown action {item.action}")
        return 0

    def refuse(self, item: Input, reason: str) -> None:
        """Answer a client's input with R; agents and recordings are not told."""
        if item.origin == CLIENT:
            self.tell(
                item.broker_id, item.order_id, "R", item.volume, item.price_ticks, item.symbol, item.client_id, reason
            )

    def tell(  # noqa: PLR0917 - the fields of the line, in its order
        self,
        broker_id: int,
        order_id: int,
        action: str,
        volume: int,
        price: int,
        symbol: str,
        client_id: int,
        detail: str,
    ) -> None:
        """Append one line to a broker's private stream."""
        sequence = self.next_private.get(broker_id, 1)
        self.next_private[broker_id] = sequence + 1
        line = (
            f"{sequence},{self.last_time_ns},{order_id},{broker_id},{action},{volume},{price},{symbol},"
            f"{client_id},{detail}\n"
        )
        lines = self.private.get(broker_id)
        if lines is None:
            self.private[broker_id] = [line]
        else:
            lines.append(line)

    def publish(  # noqa: PLR0917 - the fields of the line, in its order
        self, order_id: int, broker_id: int, action: str, volume: int, price: int, symbol: str
    ) -> None:
        """Append one message to the feed."""
        self.feed.append(
            f"{self.next_sequence},{self.last_time_ns},{order_id},{broker_id},{action},{volume},{price},{symbol}\n"
        )
        self.next_sequence += 1

    def _order(self, book: Book, item: Input, side: Side) -> int:
        price, volume = item.price_ticks, item.volume
        if not 0 < volume <= _INT64_MAX:
            self.refuse(item, f"expected a volume of 1 or more was {volume}")
            return 0
        if not 0 <= price <= _INT64_MAX:
            self.refuse(item, f"expected a price of 0 or more was {price}")
            return 0
        if self.live_orders >= self.rules.max_live_orders:
            self.refuse(item, f"the market holds {self.live_orders} live orders and takes no more")
            return 0
        order_id = self.next_order_id
        self.next_order_id += 1
        self.orders += 1
        client_id = item.client_id if item.origin == CLIENT else 0
        if client_id:
            self.tell(item.broker_id, order_id, "A", volume, price, item.symbol, client_id, side)
        left = self.match(book, side, price, volume, order_id, item.broker_id, client_id)
        if not left:
            return 0
        if price:
            self.rest(book, Order(order_id, item.broker_id, side, price, left, client_id))
            return order_id
        if client_id:
            self.tell(item.broker_id, order_id, "D", left, price, item.symbol, client_id, "market")
        return 0

    def rest(self, book: Book, order: Order) -> None:
        """Put an order into the book and on the feed."""
        book.add(order)
        self.live_orders += 1
        self.publish(order.order_id, order.broker_id, order.side, order.volume, order.price_ticks, book.symbol)

    def match(  # noqa: PLR0917 - called once per order: keywords cost a tenth of it
        self, book: Book, side: Side, limit: int, volume: int, order_id: int, broker_id: int, client_id: int
    ) -> int:
        """Execute against the other side as far as the limit (0: any price) reaches; returns the volume left."""
        levels = book.asks if side == "B" else book.bids
        best_index = 0 if side == "B" else -1
        symbol = book.symbol
        while volume and levels:
            price, level = levels.peekitem(best_index)
            if limit and (price > limit if side == "B" else price < limit):
                break
            # One walk over the level per aggressor: asking for the first entry again after each removal would step
            # over all removed entries of the dict every time.
            filled: list[Order] = []
            for resting in level.values():
                executed = min(volume, resting.volume)
                volume -= executed
                last = executed == resting.volume
                action = "F" if last else "E"
                self.trades += 1
                self.publish(resting.order_id, resting.broker_id, action, executed, price, symbol)
                if resting.client_id:
                    self.tell(
                        resting.broker_id, resting.order_id, action, executed, price, symbol, resting.client_id, "maker"
                    )
                if client_id:
                    self.tell(broker_id, order_id, "E" if volume else "F", executed, price, symbol, client_id, "taker")
                if last:
                    filled.append(resting)
                else:
                    resting.volume -= executed
                if not volume:
                    break
            for resting in filled:
                book.remove(resting)
            self.live_orders -= len(filled)
        return volume

    def cancel(self, book: Book, order: Order, detail: str) -> None:
        """Take an order out of the book, on the feed and on its owner's stream."""
        book.remove(order)
        self.live_orders -= 1
        self.publish(order.order_id, order.broker_id, "D", order.volume, order.price_ticks, book.symbol)
        if order.client_id:
            self.tell(
                order.broker_id,
                order.order_id,
                "D",
                order.volume,
                order.price_ticks,
                book.symbol,
                order.client_id,
                detail,
            )

    def reduce(self, book: Book, order: Order, volume: int) -> None:
        """Take part of an order's volume away; the order keeps its place."""
        order.volume -= volume
        self.publish(order.order_id, order.broker_id, "X", volume, order.price_ticks, book.symbol)

    def _change(self, book: Book, item: Input) -> None:
        order = book.orders.get(item.order_id)
        if order is None:
            self.refuse(item, f"unknown order {item.order_id}")
        elif order.broker_id != item.broker_id or (order.client_id == 0) != (item.origin != CLIENT):
            self.refuse(item, f"order {item.order_id} belongs to another broker")
        elif item.action == "D":
            self.cancel(book, order, "user")
        elif item.volume <= 0:
            self.refuse(item, f"expected a volume of 1 or more was {item.volume}")
        elif item.volume >= order.volume:
            # A reduction by all that is left is a cancellation, and is answered as one.
            self.cancel(book, order, "user")
        else:
            self.reduce(book, order, item.volume)
            if order.client_id:
                self.tell(
                    order.broker_id,
                    order.order_id,
                    "X",
                    item.volume,
                    order.price_ticks,
                    book.symbol,
                    item.client_id,
                    "user",
                )

    def _check(self) -> None:
        """Assert every invariant of the market and its books."""
        recorded = self.rules.replay_symbol if self.rules.replay_mode == "as-recorded" else None
        for symbol, book in self.books.items():
            book._check(crossed=symbol == recorded)
        assert self.live_orders == sum(map(len, self.books.values())), "live orders miscounted"
