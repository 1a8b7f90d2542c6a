"""An order in the market."""

from __future__ import annotations

from typing import Final, Literal

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
    "Order",
    "Side",
]

Side = Literal["B", "S"]

IOC: Final = 1 << 0
"""Immediate-or-cancel: lots that do not execute at once are cancelled."""
MARKET: Final = 1 << 1
"""No limit; never rests. `Order.price_ticks` is 0."""
MINIMUM: Final = 1 << 2
"""Executes at least `Order.minimum` lots at once or none; fill-or-kill if that is the whole volume. Only with IOC."""
POST_ONLY: Final = 1 << 3
"""Cancelled in place of an execution on entry."""
HIDDEN: Final = 1 << 4
"""Rests behind the displayed orders of its price, and is in no feed."""
ICEBERG: Final = 1 << 5
"""Displays `Order.display` lots at a time, the rest is in `Order.reserve`."""
STOP: Final = 1 << 6
"""Waits outside the book until a trade reaches `Order.stop_ticks`."""
EXPIRES: Final = 1 << 7
"""Ends at `Order.expire_ns`."""
OPENING: Final = 1 << 8
"""Takes part in the opening auction alone."""
CLOSING: Final = 1 << 9
"""Takes part in the closing auction alone."""
HALTED_ONLY: Final = 1 << 10
"""Takes part in the auction that ends a halt alone."""

AUCTIONS: Final = OPENING | CLOSING | HALTED_ONLY
"""Takes part in one kind of auction alone."""
OUTSIDE: Final = STOP | AUCTIONS
"""Waits outside the book."""


class Order(msgspec.Struct, gc=False, array_like=True):
    """An order: the owner's terms, and the lots that are still open.

    Plain data and no references, so that a snapshot is the orders themselves. A limit order for the day without
    attributes has `flags` 0, which is all that plain matching checks.
    """

    order_id: int
    """Id for its owner, given on entry; unique in the market."""
    feed_id: int
    """Id on the feed: `order_id`, until an iceberg displays its next part as a new order."""
    locate: int
    """Its instrument's number, from 1."""
    side: Side
    """B or S."""
    price_ticks: int
    """The limit; 0 is a market order."""
    volume: int
    """Open lots in its place of the queue: all of them, or the displayed part of an iceberg."""
    broker_id: int
    """Broker of the order on the feed."""
    account: int = 0
    """Index of the account that is notified; 0 for agents and recordings, without notifications."""
    ref: int | bytes = 0
    """The owner's reference: client id (text), user reference number (OUCH 5.0) or token (OUCH 4.2)."""
    flags: int = 0
    """Attributes: the bits above."""
    reserve: int = 0
    """Lots of an iceberg that are not displayed."""
    display: int = 0
    """Lots that an iceberg displays at a time."""
    minimum: int = 0
    """See `MINIMUM`."""
    stop_ticks: int = 0
    """See `STOP`."""
    expire_ns: int = 0
    """See `EXPIRES`; market time."""
    executed: int = 0
    """Lots executed, those of the orders that it replaced included."""
    echo: bytes = b""
    """Bytes of the request that its protocol repeats in answers; opaque to the market."""
