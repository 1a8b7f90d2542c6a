"""Expected contents of the relations after a number of messages: an order book in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from deltabook.wire.text import FeedMessage
from runtime.relations import Retention

__all__ = ["Book", "Order", "Row"]

Row = tuple[Any, ...]


def moment_of(time_ns: int) -> datetime:
    """Return a time as a timestamp of SQL."""
    return datetime(1970, 1, 1) + timedelta(microseconds=time_ns // 1000)  # noqa: DTZ001 - it has no zone


class Order:
    """Resting order."""

    __slots__ = ("broker_id", "id", "price", "symbol", "t", "volume")

    def __init__(self, message: FeedMessage) -> None:
        self.t = message.time_ns
        self.id = message.order_id
        self.broker_id = message.broker_id
        self.volume = message.volume
        self.price = message.price
        self.symbol = message.symbol

    def row(self) -> Row:
        """Return the order as a row of the relation."""
        return (self.t, self.id, self.broker_id, self.volume, self.price, self.symbol)


class Book:
    """Relations BIDS, ASKS and TRADES after the messages up to `sequence`."""

    def __init__(self, messages: Sequence[FeedMessage | None], retention: Retention) -> None:
        self._messages = messages
        self._retention = retention
        self.sequence = 0
        self.malformed = 0
        self.bids: dict[int, Order] = {}
        self.asks: dict[int, Order] = {}
        self.trades: list[Row] = []
        self.now: int | None = None
        """Time of the newest epoch."""
        self._latest: int | None = None

    def advance(self, sequence: int, *, expires: bool = True) -> None:
        """Apply the messages up to this one; trades expire and time passes where an epoch ends."""
        if sequence < self.sequence:
            raise AssertionError(f"expected a cut at {self.sequence} or behind it, was {sequence}")
        for number in range(self.sequence, sequence):
            message = self._messages[number]
            if message is None:
                self.malformed += 1
            else:
                self._take(message)
        self.sequence = sequence
        if expires:
            self._expire()
            self.now = self._latest

    def _take(self, message: FeedMessage) -> None:
        self._latest = message.time_ns if self._latest is None else max(self._latest, message.time_ns)
        number, action = message.order_id, message.action
        side = self.bids if number in self.bids else self.asks if number in self.asks else None
        if action in "BS":
            if side is None:
                (self.bids if action == "B" else self.asks)[number] = Order(message)
            return
        if action == "T":
            hidden = (message.time_ns, message.sequence, message.symbol, message.price, message.volume)
            self.trades.append((*hidden, None, None, None, None))
            return
        if side is None:
            return
        order = side[number]
        if action in "EF":
            aggressor = "S" if side is self.bids else "B"
            row = (message.time_ns, message.sequence, order.symbol, message.price, message.volume, aggressor, number)
            self.trades.append((*row, None, order.broker_id))
        if action in "FD" or message.volume >= order.volume:
            del side[number]
        else:
            order.volume -= message.volume

    def _expire(self) -> None:
        if self.trades:
            oldest = self.trades[-1][0] - self._retention.time_ns
            self.trades = [row for row in self.trades[-self._retention.rows :] if row[0] >= oldest]

    def relations(self) -> dict[str, Counter[Row]]:
        """Return all rows with their multiplicities, by relation."""
        return {
            "bids": Counter(order.row() for order in self.bids.values()),
            "asks": Counter(order.row() for order in self.asks.values()),
            "trades": Counter(self.trades),
            "epoch_time": Counter([] if self.now is None else [(self.now, moment_of(self.now))]),
        }
