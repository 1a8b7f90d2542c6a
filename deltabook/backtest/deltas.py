"""The market's events as deltas of BIDS, ASKS and TRADES, made without encoding a feed.

The rows equal those that `runtime.relations.FeedAdaptor` makes of the text feed of the same market: ``t`` of a book's
row is the time when its order was added, ``match_id`` is the number of the message in the feed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from exchange_server.matching import MarketRules, Now, Silence
from exchange_server.matching.order import Order
from runtime.plan import EPOCH_TIME
from runtime.relations.retention import Retention

__all__ = ["Delta", "DeltaEncoder"]

Delta = tuple[str, tuple[Any, ...], int]
"""A change of a relation: its name, the row, and +1 or -1."""

_BIDS: Final = "bids"
_ASKS: Final = "asks"
_TRADES: Final = "trades"
_INT64_MAX: Final = 2**63 - 1
_BEGIN: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone


class DeltaEncoder(Silence):
    """Collects the market's changes in `deltas` until they are taken; messages that change no row are ignored."""

    __slots__ = ("_now", "_rows", "_symbols", "_time", "_trades", "deltas", "gives_time", "messages",
                 "retention", "trades")  # fmt: skip

    def __init__(self, rules: MarketRules, now: Now, retention: Retention | None = None) -> None:
        """Make an encoder; ``retention`` limits the number and the age of the retained trades, and is applied when a
        trade is added.
        """
        self._now = now
        self._symbols = ("", *(instrument.symbol for instrument in rules.instruments))
        self._rows: dict[int, tuple[str, tuple[Any, ...]]] = {}
        self.retention = retention or Retention()
        """Limits on the number and the age of the trades that stay."""
        self._trades: deque[tuple[Any, ...]] = deque()
        self.deltas: list[Delta] = []
        """Deltas since they were last taken."""
        self.messages = 0
        """Number of feed messages so far, each a line of the text feed."""
        self.trades = 0
        """Number of trades so far."""
        self.gives_time = False
        """True if `EPOCH_TIME` is among the relations: the deltas that are taken together are then an epoch."""
        self._time: tuple[Any, ...] | None = None

    def added(self, order: Order) -> None:
        self.messages += 1
        relation = _BIDS if order.side == "B" else _ASKS
        row = (
            self._now.time_ns, order.feed_id, order.broker_id, order.volume, order.price_ticks,
            self._symbols[order.locate],
        )  # fmt: skip
        self._rows[order.feed_id] = (relation, row)
        self.deltas.append((relation, row, 1))

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1
        relation, row = self._rows[order.feed_id]
        self._trade(
            row[5], price_ticks or row[4], volume, "S" if relation is _BIDS else "B", order.feed_id, order.broker_id
        )
        self._change(order, relation, row)

    def reduced(self, order: Order, volume: int) -> None:
        self.messages += 1
        self._change(order, *self._rows[order.feed_id])

    def deleted(self, order: Order, volume: int) -> None:
        self.messages += 1
        relation, row = self._rows.pop(order.feed_id)
        self.deltas.append((relation, row, -1))

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        if order.volume:
            self.reduced(order, volume)
        else:
            self.deleted(order, volume)

    def replaced(self, old: Order, order: Order) -> None:
        self.deleted(old, old.volume)
        self.added(order)

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        self.messages += 1
        self._trade(self._symbols[locate], price_ticks, min(volume, _INT64_MAX), None, None, None)

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1
        self._trade(self._symbols[order.locate], price_ticks, volume, None, None, None)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1
        self._trade(self._symbols[locate], price_ticks, volume, None, None, None)

    def _change(self, order: Order, relation: str, row: tuple[Any, ...]) -> None:
        self.deltas.append((relation, row, -1))
        if order.volume:
            new = (*row[:3], order.volume, row[4], row[5])
            self._rows[order.feed_id] = (relation, new)
            self.deltas.append((relation, new, 1))
        else:
            del self._rows[order.feed_id]

    def _trade(  # noqa: PLR0917 - the columns of TRADES, in their order
        self, symbol: str, price: int, volume: int, side: str | None, resting_id: int | None, broker_id: int | None
    ) -> None:
        self.trades += 1
        time_ns, trades, limits = self._now.time_ns, self._trades, self.retention
        row = (time_ns, self.messages, symbol, price, volume, side, resting_id, None, broker_id)
        self.deltas.append((_TRADES, row, 1))
        trades.append(row)
        while len(trades) > limits.rows or trades[0][0] < time_ns - limits.time_ns:
            self.deltas.append((_TRADES, trades.popleft(), -1))

    def resume(self, rows: Sequence[Delta], epoch_ns: int | None) -> None:
        """Continue from rows of the relations, in the order in which they came; ``epoch_ns`` is the last
        epoch's time.
        """
        for relation, row, _ in rows:
            if relation == _TRADES:
                self._trades.append(row)
            else:
                self._rows[row[1]] = relation, row
        self._time = None if epoch_ns is None else _time_row(epoch_ns)

    def end_epoch(self) -> None:
        """Add the change of `EPOCH_TIME` to the deltas, which are about to be taken."""
        if not self.gives_time:
            return
        before, now = self._time, _time_row(self._now.time_ns)
        if now != before:
            self._time = now
            self.deltas += [] if before is None else [(EPOCH_TIME.name, before, -1)]
            self.deltas.append((EPOCH_TIME.name, now, 1))

    def rows(self) -> list[Delta]:
        """Return all rows of the relations, each as an insertion."""
        rows: list[Delta] = [(relation, row, 1) for relation, row in self._rows.values()]
        if self.gives_time:
            self._time = self._time or _time_row(self._now.time_ns)
            rows.append((EPOCH_TIME.name, self._time, 1))
        return rows + [(_TRADES, row, 1) for row in self._trades]


def _time_row(time_ns: int) -> tuple[Any, ...]:
    return time_ns, _BEGIN + timedelta(microseconds=time_ns // 1000)
