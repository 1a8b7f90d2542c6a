"""Own orders through their life, as immutable records.

```
new ──A──▶ accepted ──E──▶ partially_filled ──F──▶ filled
 │            ├──X──▶ (the same, smaller)
 │            ├──U──▶ (the same, under another number of the exchange: replaced)
 │            └──D──▶ cancelled, or expired
 ├──R──▶ rejected                       (by the exchange)
 ├──────▶ refused                       (by our own risk limits; never on the wire)
 └─connection lost─▶ unknown ──▶ the status that the private stream reports, or never_sent
```
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["TERMINAL", "EventKind", "Order", "OrderEvent", "OrderStatus", "Side"]


class Side(StrEnum):
    """Side of an order; the values are the letters of the wire."""

    BUY = "B"
    SELL = "S"

    @property
    def sign(self) -> int:
        """+1 for a purchase, -1 for a sale."""
        return 1 if self is Side.BUY else -1


class OrderStatus(StrEnum):
    """State of an order."""

    NEW = "new"
    """The order is in the journal; the exchange has not answered yet."""
    ACCEPTED = "accepted"
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """The order's `OrderOptions.expire_ns` has passed."""
    REJECTED = "rejected"
    """The exchange rejected the order."""
    REFUSED = "refused"
    """A limit of the engine or the kill switch refused the order; it was never sent."""
    UNKNOWN = "unknown"
    """The connection was lost before the exchange answered."""
    NEVER_SENT = "never_sent"
    """The exchange never received the order, as a later connection has shown."""


TERMINAL: Final = frozenset(
    {
        OrderStatus.FILLED,
        OrderStatus.CANCELLED,
        OrderStatus.EXPIRED,
        OrderStatus.REJECTED,
        OrderStatus.REFUSED,
        OrderStatus.NEVER_SENT,
    }
)
"""States of an order that has ended."""

TIMEOUT: Final = "timeout"
"""Detail in the exchange's message for an order whose time is over."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """One order at one moment; each later state is a new record."""

    client_id: int
    """Client id of the order, strictly increasing per broker."""
    symbol: str
    """Symbol of the instrument."""
    side: Side
    """Buy or sell."""
    volume_lots: int
    """Number of ordered lots."""
    price_ticks: int
    """Limit price in ticks; 0 for a market order."""
    status: OrderStatus = OrderStatus.NEW
    """State of the order."""
    order_id: int = 0
    """Order id of the exchange, 0 before it is accepted."""
    filled_lots: int = 0
    """Number of lots executed so far."""
    removed_lots: int = 0
    """Number of lots removed so far by reductions and the cancellation."""
    options: OrderOptions = PLAIN
    """Options such as immediate, post-only or iceberg."""
    reason: str = ""
    """Reason of the end unless the order was filled: the exchange's word, or the engine's own."""

    @property
    def remaining_lots(self) -> int:
        """Number of lots that can still be executed."""
        return 0 if self.status in TERMINAL else self.volume_lots - self.filled_lots - self.removed_lots

    @property
    def is_open(self) -> bool:
        """True if the order may still trade; orders in the state unknown count as open."""
        return self.status not in TERMINAL

    def accepted(self, order_id: int) -> Order:
        """Return the order as accepted by the exchange under this order id."""
        return msgspec.structs.replace(self, status=OrderStatus.ACCEPTED, order_id=order_id, reason="")

    def executed(self, volume_lots: int, *, last: bool) -> Order:
        """Return the order after the execution of some lots or, with ``last``, of all its remaining lots."""
        filled_lots = self.filled_lots + volume_lots
        whole = last or filled_lots + self.removed_lots >= self.volume_lots
        status = OrderStatus.FILLED if whole else OrderStatus.PARTIALLY_FILLED
        return msgspec.structs.replace(self, status=status, filled_lots=filled_lots)

    def reduced(self, volume_lots: int) -> Order:
        """Return the order after a reduction by the exchange; with nothing left it is cancelled."""
        removed_lots = self.removed_lots + volume_lots
        is_empty = self.filled_lots + removed_lots >= self.volume_lots
        status = OrderStatus.CANCELLED if is_empty else self.status
        return msgspec.structs.replace(self, status=status, removed_lots=removed_lots)

    def replaced(self, order_id: int, open_lots: int, price_ticks: int) -> Order:
        """Return the order after a replacement, with ``open_lots`` lots still open."""
        volume_lots = self.filled_lots + self.removed_lots + open_lots
        return msgspec.structs.replace(self, order_id=order_id, volume_lots=volume_lots, price_ticks=price_ticks)

    def cancelled(self, reason: str = "") -> Order:
        """Return the order after a cancel by the exchange: expired for the reason `TIMEOUT`, else cancelled."""
        removed_lots = self.volume_lots - self.filled_lots
        status = OrderStatus.EXPIRED if reason == TIMEOUT else OrderStatus.CANCELLED
        return msgspec.structs.replace(self, status=status, removed_lots=removed_lots, reason=reason)

    def ended(self, status: OrderStatus, reason: str = "") -> Order:
        """Return the order with this status and reason: rejected, refused, unknown or never sent."""
        return msgspec.structs.replace(self, status=status, reason=reason)


class EventKind(StrEnum):
    """Kind of an event of an order. docs/algo.md has the state of the order after each."""

    SUBMITTED = "submitted"
    """The order is in the journal, and not sent yet."""
    ACCEPTED = "accepted"
    RECONCILED = "reconciled"
    """After a reconnection: the exchange has the order."""
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    REDUCED = "reduced"
    """`Context.reduce`, or the exchange's prevention of self-trades, reduced the order."""
    REPLACED = "replaced"
    TRADE_VOID = "trade_void"
    """The exchange has declared an execution void; the order may have ended long ago."""
    TRIGGERED = "triggered"
    """The stop price was reached: the order is now an ordinary limit or market order."""
    CANCELLED = "cancelled"
    """A request or the exchange cancelled the order."""
    EXPIRED = "expired"
    REJECTED = "rejected"
    """The exchange rejected the order."""
    REFUSED = "refused"
    """A limit of the engine or the kill switch refused the order; it was never sent."""
    CANCEL_REFUSED = "cancel_refused"
    """The request was too late or impossible; the order is unchanged. The same holds for the next two kinds."""
    REDUCE_REFUSED = "reduce_refused"
    REPLACE_REFUSED = "replace_refused"
    UNKNOWN = "unknown"
    """The connection was lost before the exchange answered."""
    NEVER_SENT = "never_sent"
    """After a reconnection: the exchange never received the order."""


class OrderEvent(msgspec.Struct, frozen=True, gc=False):
    """One step in the life of an order, as strategies see it."""

    kind: EventKind
    """Kind of the event."""
    order: Order
    """The order after the event."""
    time_ns: int = 0
    """Market time of the exchange's message, 0 for steps of the engine."""
    volume_lots: int = 0
    """Number of lots executed or removed by this event, or executed by the void trade."""
    price_ticks: int = 0
    """Price of the execution or of the void trade, in ticks."""
    reason: str = ""
    """Reason of a refusal or cancellation; maker or taker for an execution; the match number for a void trade."""
    sequence: int = 0
    """Position in the private stream, 0 for steps of the engine."""
    fee: int = 0
    """Fee of an execution in ticks × lots, negative for a rebate; for a void trade the fee that is refunded."""
    order_id: int = 0
    """For a void trade, the order id that the exchange gave its order; otherwise 0."""

    @property
    def is_fill(self) -> bool:
        """True if lots changed hands."""
        return self.kind in (EventKind.PARTIALLY_FILLED, EventKind.FILLED)

    @property
    def changes_position(self) -> bool:
        """True for an execution, and for a void trade."""
        return self.is_fill or self.kind is EventKind.TRADE_VOID
