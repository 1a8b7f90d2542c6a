"""An order in the market, the account that owns it, and the reasons why orders are refused or cancelled.

Every protocol has its own code for each reason.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, Literal

import msgspec

__all__ = [
    "AUCTIONS",
    "CLOSING",
    "EXPIRES",
    "HALTED_ONLY",
    "HIDDEN",
    "ICEBERG",
    "IOC",
    "MARKET",
    "MINIMUM",
    "OPENING",
    "OUTSIDE",
    "POST_ONLY",
    "STOP",
    "Account",
    "AccountLimits",
    "CancelReason",
    "Order",
    "RefuseReason",
    "SelfTrade",
    "Side",
]


class RefuseReason(IntEnum):
    """Reason why a request has no effect."""

    UNKNOWN_SYMBOL = 1
    BAD_SIDE = 2
    BAD_VOLUME = 3
    BAD_PRICE = 4
    BAD_TICK = 5
    BAD_LOT = 6
    BAD_MINIMUM = 7
    BAD_DISPLAY = 8
    BAD_TIME = 9
    """The order's time in force is impossible (expired, or unknown)."""
    BAD_COMBINATION = 10
    """The order's attributes exclude each other."""
    HALTED = 11
    CLOSED = 12
    REPLAYED = 13
    """The symbol follows a recording and takes no orders."""
    MARKET_FULL = 14
    """The market has its largest number of live orders."""
    OPEN_ORDERS = 15
    """The account has its largest number of live orders."""
    RATE = 16
    """The account has sent more requests in a second than allowed."""
    NOTIONAL = 17
    """The value of the order, or of all live orders of the account, exceeds its limit."""
    KILLED = 18
    """The account is stopped."""
    UNKNOWN_ORDER = 19
    FOREIGN_ORDER = 20
    """The order belongs to another broker."""
    UNKNOWN_ACTION = 21
    LATE = 22
    """The order is too late for the auction."""
    OTHER = 23
    EXHAUSTED = 24
    """The account has used the last reference of its protocol."""


class CancelReason(IntEnum):
    """Reason why an order, or a part of it, was cancelled."""

    USER = 1
    IMMEDIATE = 2
    """The rest of an immediate-or-cancel order is cancelled."""
    MARKET = 3
    """The rest of a market order is cancelled."""
    TIMEOUT = 4
    SUPERVISORY = 5
    """The operator of the exchange cancelled the order."""
    SELF_TRADE = 6
    COLLAR = 7
    """The order would execute outside the collar."""
    CLOSED = 9
    POST_ONLY = 10
    CROSS = 11
    """The rest of an order for an auction is cancelled."""
    DISCONNECT = 12
    """The owner's last connection ended."""
    MINIMUM = 13
    """The order's minimum could not be executed."""


SelfTrade = Literal["allow", "newest", "oldest", "both", "decrement"]
"""Policy for two orders of one broker that would trade with each other.

``allow``: they trade; ``newest`` or ``oldest``: that order is cancelled; ``both``: both are cancelled; ``decrement``:
both are reduced by the lots that would have traded.
"""


Limit = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Limit that the journal can represent; 0 is no limit."""


class AccountLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of an account; 0 is no limit."""

    requests_per_s: Limit = 0
    """Largest number of requests in a second of market time; it is also the capacity of the account's token bucket."""
    open_orders: Limit = 0
    """Largest number of live orders."""
    order_notional: Limit = 0
    """Largest price times volume of one order, in ticks times lots."""
    open_notional: Limit = 0
    """Largest total of price times volume of all live orders, in ticks times lots."""


class Account(msgspec.Struct):
    """Owner of orders, with a name. Accounts are part of the market's state: only inputs change them."""

    index: int
    """Number of the account in the market, from 1, in order of appearance."""
    name: str
    """Unique name: ``text:7`` for broker 7 of the text protocol, ``ouch:ALPHA`` for a user of OUCH."""
    protocol: str
    """Protocol of the account's messages: ``text``, ``ouch5`` or ``ouch42``."""
    broker_id: int
    """Broker id of the account's orders on the feed; several accounts may share a broker."""
    limits: AccountLimits = AccountLimits()
    """Limits of the account's requests and orders."""
    self_trade: SelfTrade = "allow"
    """Policy for orders that would trade with orders of the same broker."""
    cancel_on_disconnect: bool = False
    """True if the account's live orders are cancelled when its last connection ends."""
    killed: bool = False
    """True if new orders are refused."""
    last_ref: int = 0
    """Highest numeric reference used so far; a request with this reference or a lower one is a retransmission."""
    open_notional: int = 0
    """Total value of the account's live orders, in ticks times lots."""
    orders: dict[int | bytes, Order] = msgspec.field(default_factory=dict)
    """Live orders of the account, by reference."""
    next_message: int = 1
    """Number of the next private message."""
    bucket: int = 0
    """Content of the token bucket of the request rate: the number of requests that may be sent now, times 10⁹."""
    bucket_ns: int = 0
    """Market time at which `bucket` was computed."""
    tokens: dict[bytes, None] = msgspec.field(default_factory=dict)
    """Latest references that are tokens (OUCH 4.2): a request with one of them is a repetition."""
    older_tokens: dict[bytes, None] = msgspec.field(default_factory=dict)
    """Tokens before the latest ones, bounded in number (`exchange_server.nasdaq.ouch.protocol42`)."""

    def worth(self) -> int:
        """Return the correct value of `open_notional`: ticks times lots of the live orders, 0 without that limit."""
        if not self.limits.open_notional:
            return 0
        return sum((order.volume + order.reserve) * order.price_ticks for order in self.orders.values())


Side = Literal["B", "S"]

IOC: Final = 1 << 0
"""The order is immediate-or-cancel: its lots that do not execute at once are cancelled."""
MARKET: Final = 1 << 1
"""The order has no limit price and never rests; its `Order.price_ticks` is 0."""
MINIMUM: Final = 1 << 2
"""At least `Order.minimum` lots of the order execute at once, or none do. A minimum of all lots is fill-or-kill. Only
with `IOC`.
"""
POST_ONLY: Final = 1 << 3
"""The order is cancelled if it would execute on entry."""
HIDDEN: Final = 1 << 4
"""The order rests behind the displayed orders of its price, and is not on the feed."""
ICEBERG: Final = 1 << 5
"""The order displays `Order.display` lots at a time; the rest is in `Order.reserve`."""
STOP: Final = 1 << 6
"""The order waits outside the book until a trade reaches `Order.stop_ticks`."""
EXPIRES: Final = 1 << 7
"""The order expires at `Order.expire_ns`."""
OPENING: Final = 1 << 8
"""The order takes part in the opening auction only."""
CLOSING: Final = 1 << 9
"""The order takes part in the closing auction only."""
HALTED_ONLY: Final = 1 << 10
"""The order takes part only in the auction that ends a halt."""

AUCTIONS: Final = OPENING | CLOSING | HALTED_ONLY
"""Attributes of an order that takes part in one kind of auction only."""
OUTSIDE: Final = STOP | AUCTIONS
"""Attributes of an order that waits outside the book."""


class Order(msgspec.Struct, gc=False, array_like=True):
    """An order: the owner's terms, and the lots that are still open.

    An order is plain data without references to other objects, so that snapshots contain the orders as they are. A
    limit order for the day without attributes has `flags` 0, which is all that plain matching checks.
    """

    order_id: int
    """Id for the owner, given on entry; unique in the market."""
    feed_id: int
    """Id on the feed: `order_id`, until an iceberg displays its next part as a new order."""
    locate: int
    """Number of the order's instrument, from 1."""
    side: Side
    """Side: B or S."""
    price_ticks: int
    """Limit price in ticks; 0 for a market order."""
    volume: int
    """Number of open lots in the queue: all open lots, or the displayed part of an iceberg."""
    broker_id: int
    """Broker of the order on the feed."""
    account: int = 0
    """Index of the account that is notified; 0 for agents and recordings, without notifications."""
    ref: int | bytes = 0
    """The owner's reference: client id (text), user reference number (OUCH 5.0) or token (OUCH 4.2)."""
    flags: int = 0
    """Attributes, as the bits above."""
    reserve: int = 0
    """Number of undisplayed lots of an iceberg."""
    display: int = 0
    """Number of lots that an iceberg displays at a time."""
    minimum: int = 0
    """Smallest number of lots to execute at once, see `MINIMUM`."""
    stop_ticks: int = 0
    """Trigger price in ticks, see `STOP`."""
    expire_ns: int = 0
    """Market time at which the order expires, see `EXPIRES`."""
    executed: int = 0
    """Number of executed lots, including those of the orders that this order replaced."""
    echo: bytes = b""
    """Bytes of the request that its protocol repeats in answers; opaque to the market."""
