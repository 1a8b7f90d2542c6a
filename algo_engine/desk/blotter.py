"""All own orders of one broker, folded from the records of its journal.

The fold is deterministic: the same records give the same state, live or after a restart. Nothing here sends or writes.

**Fences.** After a login the exchange reports the request numbers that it has received, but bytes of an earlier
connection may still be on their way to the exchange. So every login sends a fence first: a cancellation without an
order, with a number above all others. Numbers must increase: when the refusal of the fence arrives, no older request
can be executed any more, and all older answers have been received. A request without an answer was then never
processed. Such requests are ended as *never sent*, and not sent again, because the market has moved since.

**Lost requests.** A power loss may remove requests that were sent and were not yet on disk (see `order_sync`). The
numbers of these requests had been reserved on the disk, so that the fence of the next login is above all of them. The
answers to lost requests come in the private stream. An order that was accepted is open again. Every request that was
answered counts toward the daily limit of the day on which its number was reserved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from algo_engine.desk.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.desk.records import Checkpoint, Intent, Noted, Opened, Received, Record, Reserved
from algo_engine.desk.void_trades import NEWEST_TRADES
from algo_engine.errors import StreamGap
from deltabook.wire.text import PLAIN, parse_options

__all__ = ["Blotter"]

_REMEMBERED_LIMIT = 1024
"""Greatest number of ended orders that can be looked up."""
_DAY_NS = 86_400 * 1_000_000_000
_BY_OWNER = "user"
"""Detail in the exchange's messages for an order that its owner has cancelled."""
_REFUSED = {
    "D": EventKind.CANCEL_REFUSED,
    "U": EventKind.REPLACE_REFUSED,
    "X": EventKind.REDUCE_REFUSED,
}
"""Event of a refused request, by the request's action."""


class Blotter:
    """Orders by client id and by the exchange's order id, and requests without an answer."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.session = ""
        """Session of the private stream; empty before the first login."""
        self.sequence = 0
        """Number of the last message of the private stream."""
        self.last_client_id = 0
        """Highest request number used."""
        self.fills = 0
        """Number of executions."""
        self.filled_orders = 0
        """Number of orders filled completely."""
        self.sent = 0
        """Number of requests to buy or sell."""
        self.rejected = 0
        """Number of orders that the exchange rejected."""
        self.void_trades = 0
        """Number of executions that were declared void."""
        self._void_matches: dict[tuple[str, int], None] = {}
        """Latest void trades, by match and the exchange's order id: the exchange may declare a trade void twice."""
        self.refused = 0
        """Number of orders refused by the engine's limits since the start; refused orders are in no journal."""
        self._day = self._sent_on_day = 0
        self.reserved_client_id = 0
        """Highest reserved request number."""
        self._reserved_day = 0
        self._lost_from, self._lost_to = 1, 0
        self.unmatched = 0
        """Number of private messages that fit no order; stays 0 if the exchange keeps the contract."""
        self._open: dict[int, Order] = {}
        self._ended: dict[int, Order] = {}
        self._ended_ids: deque[int] = deque()
        self._by_order_id: dict[int, int] = {}
        self._pending: dict[int, Intent] = {}

    def order(self, client_id: int) -> Order | None:
        """Return an open order, or one of the last thousand that ended; None for any other."""
        return self._open.get(client_id) or self._ended.get(client_id)

    def open_orders(self) -> list[Order]:
        """Return all orders that may still trade, oldest first."""
        return list(self._open.values())

    def ended_orders(self) -> list[Order]:
        """Return the last thousand orders that ended, oldest first."""
        return list(self._ended.values())

    def sent_on_day(self, now_ns: int) -> int:
        """Return the number of requests to buy, sell or replace on the UTC day of ``now_ns``."""
        return self._sent_on_day if now_ns // _DAY_NS == self._day else 0

    def refuse(self, order: Order) -> None:
        """Record an order that the engine's limits refused; its number is used up."""
        self.last_client_id = order.client_id
        self.refused += 1
        self._remember(order)

    def replacements(self) -> list[tuple[Order, Intent]]:
        """Return the orders that are being replaced, each with the requested replacement."""
        pairs = [(self._open.get(i.target), i) for i in self._pending.values() if i.action == "U"]
        return [(order, intent) for order, intent in pairs if order is not None]

    def pending(self) -> Iterable[Intent]:
        """Return the requests without an answer, oldest first."""
        return list(self._pending.values())

    def is_leaving(self, client_id: int) -> bool:
        """Return True if a cancellation of this order is pending."""
        return any(intent.action == "D" and intent.target == client_id for intent in self._pending.values())

    def checkpoint(self) -> Checkpoint:
        """Return the state as one record, without holdings and memories, which `DeskState` adds."""
        return Checkpoint(
            broker_id=self.broker_id,
            session=self.session,
            sequence=self.sequence,
            last_client_id=self.last_client_id,
            orders=self.open_orders(),
            pending=list(self._pending.values()),
            fills=self.fills,
            filled_orders=self.filled_orders,
            sent=self.sent,
            rejected=self.rejected,
            void_trades=self.void_trades,
            void_matches=list(self._void_matches),
            day=self._day,
            sent_on_day=self._sent_on_day,
            reserved_client_id=self.reserved_client_id,
            reserved_day=self._reserved_day,
            lost_from=self._lost_from,
            lost_to=self._lost_to,
        )

    def apply(self, record: Record) -> list[OrderEvent]:
        """Apply one record, in the order of the journal; return the events for strategies.

        Raise `StreamGap` for a message that is not the next one of the private stream.
        """
        if isinstance(record, Received):
            return self._apply_message(record)
        if isinstance(record, Intent):
            return self._intent(record)
        if isinstance(record, Opened):
            self.session = record.session
        elif isinstance(record, Noted):
            self._noted(record.client_id)
        elif isinstance(record, Reserved):
            self.reserved_client_id, self._reserved_day = record.client_id, record.day
        elif isinstance(record, Checkpoint):
            self._restore(record)
        return []

    def lost(self) -> list[OrderEvent]:
        """Note that the connection was lost: the state of orders without an answer is unknown until the next fence."""
        events = []
        for client_id in self._pending:
            order = self._open.get(client_id)
            if order is not None and order.status is OrderStatus.NEW:
                self._open[client_id] = order.ended(OrderStatus.UNKNOWN, "connection lost")
                events.append(OrderEvent(EventKind.UNKNOWN, self._open[client_id], reason="connection lost"))
        return events

    def _restore(self, state: Checkpoint) -> None:
        self.session, self.sequence, self.last_client_id = state.session, state.sequence, state.last_client_id
        self.fills, self.filled_orders, self.sent = state.fills, state.filled_orders, state.sent
        self.rejected, self._day, self._sent_on_day = state.rejected, state.day, state.sent_on_day
        self.reserved_client_id, self._reserved_day = state.reserved_client_id, state.reserved_day
        self._lost_from, self._lost_to = state.lost_from, state.lost_to
        self.void_trades, self._void_matches = state.void_trades, dict.fromkeys(state.void_matches)
        self._open = {order.client_id: order for order in state.orders}
        self._by_order_id = {order.order_id: order.client_id for order in state.orders if order.order_id}
        self._pending = {intent.client_id: intent for intent in state.pending}

    def _noted(self, client_id: int) -> None:
        """Note that request numbers up to ``client_id`` may be in use.

        A reserved number whose request is missing from the journal counts as lost.
        """
        lost_to = min(client_id, self.reserved_client_id)
        if lost_to > self.last_client_id:
            if self._lost_from > self._lost_to:
                self._lost_from = self.last_client_id + 1
            self._lost_to = lost_to
        self.last_client_id = max(self.last_client_id, client_id)

    def _count_lost(self, message: Received) -> None:
        """Count a lost request at its first answer: the exchange answers requests in the order of their numbers."""
        self._lost_from = message.client_id + 1
        self.sent += message.action == "A"
        if self._reserved_day >= self._day:
            self._count_on_day(self._reserved_day)

    def _count_on_day(self, day: int) -> None:
        self._sent_on_day = self._sent_on_day + 1 if day == self._day else 1
        self._day = day

    def _intent(self, intent: Intent) -> list[OrderEvent]:
        self.last_client_id = max(self.last_client_id, intent.client_id)
        self._pending[intent.client_id] = intent
        if intent.action in ("B", "S", "U"):
            self._count_on_day(intent.time_ns // _DAY_NS)
        if intent.action not in ("B", "S"):
            return []
        self.sent += 1
        order = Order(
            client_id=intent.client_id,
            symbol=intent.symbol,
            side=Side(intent.action),
            volume_lots=intent.volume_lots,
            price_ticks=intent.price_ticks,
            options=parse_options(intent.options, b"") if intent.options else PLAIN,
        )
        self._open[order.client_id] = order
        return [OrderEvent(EventKind.SUBMITTED, order)]

    def _apply_message(self, message: Received) -> list[OrderEvent]:
        if message.sequence:
            if message.sequence <= self.sequence:
                return []
            if message.sequence != self.sequence + 1:
                raise StreamGap(
                    f"expected message {self.sequence + 1} of the private stream of broker {self.broker_id}, "
                    f"was message {message.sequence}"
                )
            self.sequence = message.sequence
            self.last_client_id = max(self.last_client_id, message.client_id)
            if self._lost_from <= message.client_id <= self._lost_to:
                self._count_lost(message)
        if message.action == "R":
            return self._refused(message)
        if message.sequence == 0:
            return []
        if message.action == "A":
            return self._accepted(message)
        if message.action == "U":
            return self._replaced(message)
        if message.action == "B":
            return self._voided(message)
        order = self._open.get(self._by_order_id.get(message.order_id, message.client_id))
        if order is None:
            self.unmatched += 1
            return []
        if message.action in ("E", "F"):
            return self._executed(order, message)
        if message.action == "T":
            return [OrderEvent(EventKind.TRIGGERED, order, message.time_ns, sequence=message.sequence)]
        # The displayed part of an iceberg is not tracked here.
        return self._taken_away(order, message) if message.action in ("X", "D") else []

    def _accepted(self, message: Received) -> list[OrderEvent]:
        self._pending.pop(message.client_id, None)
        known = self._open.get(message.client_id)
        if known is None and message.detail not in (Side.BUY, Side.SELL):
            self.unmatched += 1
            return []
        # The order may be missing from this journal. Its fills and its remaining lots count nevertheless.
        order = known or Order(
            message.client_id, message.symbol, Side(message.detail), message.volume_lots, message.price_ticks
        )
        is_news = known is None or known.status is OrderStatus.UNKNOWN
        order = order.accepted(message.order_id)
        self._ended.pop(order.client_id, None)
        self._open[order.client_id] = order
        self._by_order_id[message.order_id] = order.client_id
        kind = EventKind.RECONCILED if is_news else EventKind.ACCEPTED
        return [OrderEvent(kind, order, message.time_ns, sequence=message.sequence)]

    def _replaced(self, message: Received) -> list[OrderEvent]:
        """Apply a replacement, with or without a request here: the order continues under another order id."""
        request = self._pending.pop(message.client_id, None)
        client_id = self._by_order_id.pop(int(message.detail), None) if message.detail.isdigit() else None
        if client_id is None:
            self.unmatched += 1
            return []
        after = self._open[client_id].replaced(message.order_id, message.volume_lots, message.price_ticks)
        self._by_order_id[message.order_id] = client_id
        self._keep(after)
        kind = EventKind.RECONCILED if request is None else EventKind.REPLACED
        return [OrderEvent(kind, after, message.time_ns, sequence=message.sequence)]

    def _executed(self, order: Order, message: Received) -> list[OrderEvent]:
        after = order.executed(message.volume_lots, last=message.action == "F")
        self.fills += 1
        self.filled_orders += after.status is OrderStatus.FILLED
        self._keep(after)
        kind = EventKind.FILLED if after.status is OrderStatus.FILLED else EventKind.PARTIALLY_FILLED
        lots, price_ticks, liquidity = message.volume_lots, message.price_ticks, message.detail
        return [OrderEvent(kind, after, message.time_ns, lots, price_ticks, liquidity, message.sequence, message.fee)]

    def is_void(self, message: Received) -> bool:
        """Return True if the trade that a B message declares void was void before."""
        return (message.detail, message.order_id) in self._void_matches

    def _voided(self, message: Received) -> list[OrderEvent]:
        """Apply a void trade; the state of the order does not change."""
        void = message.void
        if void is None:
            self.unmatched += not self.is_void(message)
            return []
        self.void_trades += 1
        self._void_matches[message.detail, message.order_id] = None
        if len(self._void_matches) > NEWEST_TRADES:
            del self._void_matches[next(iter(self._void_matches))]
        lots, price_ticks = message.volume_lots, message.price_ticks
        # Only the trade is known, if the order ended long ago.
        order = self.order(void.client_id) or Order(
            void.client_id, message.symbol, void.side, lots, price_ticks, OrderStatus.FILLED, message.order_id, lots
        )
        return [
            OrderEvent(
                EventKind.TRADE_VOID, order, message.time_ns, lots, price_ticks, message.detail, message.sequence,
                void.fee, message.order_id,
            )
        ]  # fmt: skip

    def _taken_away(self, order: Order, message: Received) -> list[OrderEvent]:
        if message.action == "X":
            request = self._pending.pop(message.client_id, None)
            # The exchange carries out a replacement at the same price with fewer lots as a reduction.
            kind = EventKind.REPLACED if request is not None and request.action == "U" else EventKind.REDUCED
            after = order.reduced(message.volume_lots)
        else:
            self._answer_change(order.client_id, message.detail)
            after, kind = order.cancelled(message.detail), EventKind.CANCELLED
        self._keep(after)
        if after.status is OrderStatus.CANCELLED:
            kind = EventKind.CANCELLED
        elif after.status is OrderStatus.EXPIRED:
            kind = EventKind.EXPIRED
        return [
            OrderEvent(
                kind, after, message.time_ns, message.volume_lots, reason=message.detail, sequence=message.sequence
            )
        ]

    def _refused(self, message: Received) -> list[OrderEvent]:
        intent = self._pending.pop(message.client_id, None)
        if intent is None:
            return []
        if intent.is_fence:
            # The refusal of a retransmitted fence has sequence 0; it too shows that no older request will be executed.
            return self._drop_before(intent.client_id)
        return self._end_request(intent, OrderStatus.REJECTED, message.detail, message.time_ns, message.sequence)

    def _drop_before(self, fence_id: int) -> list[OrderEvent]:
        if fence_id > self._lost_to:
            self._lost_from, self._lost_to = 1, 0
        dropped = [intent for client_id, intent in self._pending.items() if client_id < fence_id]
        events = []
        for intent in dropped:
            del self._pending[intent.client_id]
            events.extend(self._end_request(intent, OrderStatus.NEVER_SENT, "never reached the exchange"))
        return events

    def _end_request(
        self, intent: Intent, status: OrderStatus, reason: str, time_ns: int = 0, sequence: int = 0
    ) -> list[OrderEvent]:
        """End a request that had no effect: end its new order, or report that the existing order is unchanged."""
        if intent.is_fence:
            return []
        if intent.action in ("B", "S"):
            order = self._open.get(intent.client_id)
            if order is None or order.order_id:
                return []
            after = order.ended(status, reason)
            self._keep(after)
            self.rejected += status is OrderStatus.REJECTED
            kind = EventKind.REJECTED if status is OrderStatus.REJECTED else EventKind.NEVER_SENT
            return [OrderEvent(kind, after, time_ns, reason=reason, sequence=sequence)]
        target = self.order(intent.target)
        if target is None:
            return []
        return [OrderEvent(_REFUSED[intent.action], target, time_ns, reason=reason, sequence=sequence)]

    def _answer_change(self, client_id: int, reason: str) -> None:
        """Answer the oldest pending request for a removed order, if its owner requested the removal.

        The message names no request: it may answer a cancellation, or a reduction by all remaining lots. The exchange
        will refuse other pending requests for the order.
        """
        requests = (i.client_id for i in self._pending.values() if i.target == client_id and not i.is_fence)
        oldest = next(requests, None)
        if oldest is not None and reason == _BY_OWNER:
            del self._pending[oldest]

    def _keep(self, order: Order) -> None:
        if order.is_open:
            self._open[order.client_id] = order
            return
        self._open.pop(order.client_id, None)
        self._by_order_id.pop(order.order_id, None)
        self._remember(order)

    def _remember(self, order: Order) -> None:
        self._ended[order.client_id] = order
        self._ended_ids.append(order.client_id)
        if len(self._ended_ids) > _REMEMBERED_LIMIT:
            self._ended.pop(self._ended_ids.popleft(), None)

    def _check(self) -> None:
        """Assert the invariants that hold after every record."""
        assert all(order.is_open and order.remaining_lots > 0 for order in self._open.values())
        assert {o.order_id: i for i, o in self._open.items() if o.order_id} == self._by_order_id
        assert not set(self._open) & set(self._ended)
        assert max([0, self._lost_to, *self._open, *self._pending]) <= self.last_client_id
        assert self._lost_from >= 1
        waiting = {i for i, o in self._open.items() if o.status in (OrderStatus.NEW, OrderStatus.UNKNOWN)}
        assert waiting <= set(self._pending), "an order without an answer has a request without an answer"
