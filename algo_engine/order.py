"""An own order through its life, as immutable records.

```
new ──A──▶ accepted ──E──▶ partially_filled ──F──▶ filled
 │            ├──X──▶ (the same, smaller)
 │            ├──U──▶ (the same, under another number of the exchange: replaced)
 │            └──D──▶ cancelled, or expired
 ├──R──▶ rejected                       (by the exchange)
 ├──────▶ refused                       (by our own risk limits; never on the wire)
 └─connection lost─▶ unknown ──▶ what the private stream says, or never_sent
```
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from deltabook.wire.text import PLAIN, OrderOptions

__all__ = ["TERMINAL", "EventKind", "Order", "OrderEvent", "OrderStatus", "Side"]


class Side(StrEnum):
    """Side of an order; the letters of the wire."""

    BUY = "B"
    SELL = "S"

    @property
    def sign(self) -> int:
        """+1 for a purchase, -1 for a sale."""
        return 1 if self is Side.BUY else -1


class OrderStatus(StrEnum):
    """State of an order's life."""

    NEW = "new"
    """In the journal; the exchange has not answered yet."""
    ACCEPTED = "accepted"
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Its `OrderOptions.expire_ns` has passed."""
    REJECTED = "rejected"
    """By the exchange."""
    REFUSED = "refused"
    """By a limit of the engine or the kill switch; it was never sent."""
    UNKNOWN = "unknown"
    """The connection broke before an answer."""
    NEVER_SENT = "never_sent"
    """The exchange never received it, as a later connection has shown."""


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


TIMEOUT: Final = "timeout"
"""The exchange's word for an order whose time is over."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """One order at one moment; a later moment is another record."""

    client_id: int
    """Our own number of it, strictly increasing per broker."""
    symbol: str
    """Instrument."""
    side: Side
    """Buy or sell."""
    volume_lots: int
    """Ordered lots."""
    price_ticks: int
    """Limit; 0 is a market order."""
    status: OrderStatus = OrderStatus.NEW
    """State of its life."""
    order_id: int = 0
    """The exchange's number of it, 0 before it is accepted."""
    filled_lots: int = 0
    """Executed so far."""
    removed_lots: int = 0
    """Taken away so far by reductions and the cancellation."""
    options: OrderOptions = PLAIN
    """Immediate, post-only, iceberg and so on."""
    reason: str = ""
    """Why it ended, where it was not filled: the exchange's word, or that of our own limits."""

    @property
    def remaining_lots(self) -> int:
        """Lots that can still be executed."""
        return 0 if self.status in TERMINAL else self.volume_lots - self.filled_lots - self.removed_lots

    @property
    def is_open(self) -> bool:
        """True if it may still trade; orders of unknown fate count as open."""
        return self.status not in TERMINAL

    def accepted(self, order_id: int) -> Order:
        """Return the order as the exchange has accepted it, under this number."""
        return msgspec.structs.replace(self, status=OrderStatus.ACCEPTED, order_id=order_id, reason="")

    def executed(self, volume_lots: int, *, last: bool) -> Order:
        """Return the order after an execution of a part, or with ``last`` of its rest."""
        filled_lots = self.filled_lots + volume_lots
        whole = last or filled_lots + self.removed_lots >= self.volume_lots
        status = OrderStatus.FILLED if whole else OrderStatus.PARTIALLY_FILLED
        return msgspec.structs.replace(self, status=status, filled_lots=filled_lots)

    def reduced(self, volume_lots: int) -> Order:
        """Return the order after the exchange took a part away; with nothing left it is cancelled."""
        removed_lots = self.removed_lots + volume_lots
        gone = self.filled_lots + removed_lots >= self.volume_lots
        status = OrderStatus.CANCELLED if gone else self.status
        return msgspec.structs.replace(self, status=status, removed_lots=removed_lots)

    def replaced(self, order_id: int, open_lots: int, price_ticks: int) -> Order:
        """Return the order after a replacement, with so many lots still open."""
        volume_lots = self.filled_lots + self.removed_lots + open_lots
        return msgspec.structs.replace(self, order_id=order_id, volume_lots=volume_lots, price_ticks=price_ticks)

    def cancelled(self, reason: str = "") -> Order:
        """Return the order after the exchange took its rest away: expired for the reason `TIMEOUT`, else cancelled."""
        removed_lots = self.volume_lots - self.filled_lots
        status = OrderStatus.EXPIRED if reason == TIMEOUT else OrderStatus.CANCELLED
        return msgspec.structs.replace(self, status=status, removed_lots=removed_lots, reason=reason)

    def ended(self, status: OrderStatus, reason: str = "") -> Order:
        """Return the order with this status and reason: rejected, refused, unknown or never sent."""
        return msgspec.structs.replace(self, status=status, reason=reason)


class EventKind(StrEnum):
    """Event of an order. docs/algo.md has the state of the order after each."""

    SUBMITTED = "submitted"
    """In the journal, not sent yet."""
    ACCEPTED = "accepted"
    RECONCILED = "reconciled"
    """After a reconnection: the exchange has the order."""
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    REDUCED = "reduced"
    """By `Context.reduce`, or by the exchange's prevention of self-trades."""
    REPLACED = "replaced"
    TRADE_VOID = "trade_void"
    """The exchange has declared an execution void; the order may have ended long ago."""
    TRIGGERED = "triggered"
    """Its stop price was reached, and it entered the book."""
    CANCELLED = "cancelled"
    """By a request, or by the exchange."""
    EXPIRED = "expired"
    REJECTED = "rejected"
    """By the exchange."""
    REFUSED = "refused"
    """By a limit of the engine or the kill switch; the order was never sent."""
    CANCEL_REFUSED = "cancel_refused"
    """The request was too late or not possible; the order is as before. The same holds for the next two."""
    REDUCE_REFUSED = "reduce_refused"
    REPLACE_REFUSED = "replace_refused"
    UNKNOWN = "unknown"
    """The connection broke before an answer."""
    NEVER_SENT = "never_sent"
    """After a reconnection: the exchange never received the order."""


class OrderEvent(msgspec.Struct, frozen=True, gc=False):
    """One step in the life of an order, as strategies see it."""

    kind: EventKind
    """Kind of the event."""
    order: Order
    """The order after it."""
    time_ns: int = 0
    """Market time of what the exchange said, 0 for our own steps."""
    volume_lots: int = 0
    """Executed or taken away by this step, or executed by the trade that is void."""
    price_ticks: int = 0
    """Price of an execution, or of the trade that is void."""
    reason: str = ""
    """Why, for refusals and cancellations; maker or taker for executions; the number of the match for a void trade."""
    sequence: int = 0
    """Position in the private stream, 0 for our own steps."""
    fee: int = 0
    """Fee of an execution, ticks × lots, negative for a rebate; of a void trade the fee that is given back."""
    order_id: int = 0
    """The exchange's number that the order of a void trade had; else 0."""

    @property
    def is_fill(self) -> bool:
        """True if lots changed hands."""
        return self.kind in (EventKind.PARTIALLY_FILLED, EventKind.FILLED)

    @property
    def changes_position(self) -> bool:
        """True for an execution, and for a trade that is void."""
        return self.is_fill or self.kind is EventKind.TRADE_VOID
