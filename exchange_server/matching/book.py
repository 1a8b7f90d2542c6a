"""The book of one symbol, and the fast way through it."""

from __future__ import annotations

from typing import Final

from exchange_server.matching.floor import Floor
from exchange_server.matching.ladder import Ladder
from exchange_server.matching.levels import SHORT, Levels
from exchange_server.matching.order import HIDDEN, ICEBERG, OUTSIDE, Order
from exchange_server.matching.outputs import FeedEncoder
from exchange_server.matching.taking import enter_specially

__all__ = ["Book"]

_APART: Final = OUTSIDE | HIDDEN | ICEBERG


class Book(Ladder):
    """Orders of one symbol in price-time priority.

    By itself it is a matching engine for limit orders (`enter` with an id that is new, `cancel`); the market adds
    everything else. An order without flags costs the look at the other side's best price and three dict entries; a
    match one walk over the level for all that one order executes there. Memory is bounded by the live orders.

    >>> from exchange_server.matching.silence import Silence
    >>> book = Book(1, "ACME", Silence())
    >>> book.enter(Order(1, 1, 1, "B", 100, 5, 7))
    >>> book.enter(Order(2, 2, 1, "S", 100, 3, 8))
    >>> list(book.levels("B")), book.best("S")
    ([(100, 2, 1)], None)
    """

    __slots__ = ("_ask_queues", "_bid_queues", "_deleted", "_executed")

    def __init__(
        self, locate: int, symbol: str, feed: FeedEncoder, floor: Floor | None = None, reference_ticks: int = 0
    ) -> None:
        super().__init__(locate, symbol, feed, floor, reference_ticks)
        self._executed, self._deleted = feed.executed, feed.deleted
        self._bid_queues, self._ask_queues = self.bids.queues, self.asks.queues

    def enter(self, order: Order) -> None:
        """Match an order that has its ids, and rest what is left of it."""
        if order.flags or self.is_special:
            enter_specially(self, order)
            return
        price = order.price_ticks
        is_buy = order.side == "B"
        if price >= self.ask_edge if is_buy else price <= self.bid_edge:
            if self.unusual:
                enter_specially(self, order)
                return
            if is_buy:
                self.execute(order, self.asks, -price)
            else:
                self.execute(order, self.bids, price)
            if not order.volume:
                return
        level = (self._bid_queues if is_buy else self._ask_queues).get(price)
        if level is None:
            level = self._open(self.bids if is_buy else self.asks, price)
        order_id = order.order_id
        level[order_id] = self.orders[order_id] = order
        if order.account:
            self._accounts[order.account].orders[order.ref] = order
        self._added(order)

    def enter_specially(self, order: Order) -> None:
        """Match, rest, keep outside or end an order with any attributes."""
        enter_specially(self, order)

    def execute(self, order: Order, levels: Levels, bound: int) -> None:  # noqa: PLR0912 - a call a match costs a tenth
        """Execute against plain orders as far as `bound`, its limit's rank; `order.volume` becomes what is left."""
        floor, ranks, mine = self.floor, levels.ranks, order.account
        remember = floor.executions.append
        volume = order.volume
        taken, match_id, price = volume, floor.next_match_id, 0
        while ranks and ranks[-1] >= bound:
            price = ranks[-1] * levels.sign
            level = levels.queues[price]
            if len(level) > SHORT:
                level = levels.walk(price)
            gone: list[Order] = []
            for resting in level.values():
                done = resting.volume
                if volume < done:
                    resting.volume = done - volume
                    resting.executed += volume
                    done, volume = volume, 0
                else:
                    volume -= done
                    resting.volume = 0
                    gone.append(resting)
                self._executed(resting, done, price, match_id)
                if resting.account:
                    account = self._accounts[resting.account]
                    if account.open_notional:
                        account.open_notional -= done * price
                    remember((match_id, resting, done, price))
                    self._tellers[resting.account].executed(resting, done, price, "A", match_id)
                if mine:
                    order.volume = volume
                    remember((match_id, order, done, price))
                    self._tellers[mine].executed(order, done, price, "R", match_id)
                match_id += 1
                if not volume:
                    break
            for resting in gone:
                del level[resting.order_id], self.orders[resting.order_id]
                if resting.account:
                    del self._accounts[resting.account].orders[resting.ref]
            if not level:
                self._close(levels, price)
            if not volume:
                break
        order.volume = volume
        if volume:
            order.executed += taken - volume
        self.last_trade_ticks = price
        floor.next_match_id = match_id

    def cancel(self, order_id: int) -> int:
        """End an order, whatever it is, for everybody but its owner; the lots that it had.

        Whoever tells its owner makes its `volume` 0 first. Raises `KeyError` if there is none of this id.
        """
        order = self.orders.pop(order_id)
        if order.flags & _APART:
            return self._withdraw(order)
        price = order.price_ticks
        queues = self._bid_queues if order.side == "B" else self._ask_queues
        level = queues[price]
        del level[order_id]
        left = len(level)
        if not left:
            self._close(self.bids if order.side == "B" else self.asks, price)
        elif left == SHORT:
            queues[price] = dict(level)
        volume = order.volume
        if order.account:
            account = self._accounts[order.account]
            del account.orders[order.ref]
            if account.open_notional:
                account.open_notional -= volume * price
        self._deleted(order, volume)
        return volume

    def _withdraw(self, order: Order) -> int:
        self.orders[order.order_id] = order
        self.remove(order)
        displayed, volume = order.volume, order.volume + order.reserve
        order.volume = order.reserve = 0
        if not order.flags & (OUTSIDE | HIDDEN):
            self._deleted(order, displayed)
        return volume
