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
"""What is not executed at once is cancelled."""
MARKET: Final = 1 << 1
"""No limit; never rests. `Order.price_ticks` is 0."""
MINIMUM: Final = 1 << 2
"""Executes at least `Order.minimum` lots at once or nothing; of the whole volume: fill-or-kill. Only with IOC."""
POST_ONLY: Final = 1 << 3
"""Cancelled in place of an execution on entry."""
HIDDEN: Final = 1 << 4
"""Rests, but is in no feed; behind what is displayed at its price."""
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
"""Not in the book: it waits."""


class Order(msgspec.Struct, gc=False, array_like=True):
    """An order: what its owner asked for, and what of it is still open.

    Plain data and no references, so that a snapshot is the orders themselves. A limit order for the day, with nothing
    special about it, has `flags` 0: the one question that the fast way through the book asks.
    """

    order_id: int
    """Unique in the market, given on entry; what its owner knows it by."""
    feed_id: int
    """What the feed knows it by: `order_id`, until an iceberg shows its next part as a new one."""
    locate: int
    """Its instrument's number, from 1."""
    side: Side
    """B or S."""
    price_ticks: int
    """The limit; 0 is a market order."""
    volume: int
    """Lots open in its place of the queue: all of them, but of an iceberg the displayed part."""
    broker_id: int
    """Whose it is on the feed."""
    account: int = 0
    """Index of the account that is told of it; 0 for agents and recordings, of which nobody is told."""
    ref: int | bytes = 0
    """Its owner's name for it: client id (text), user reference number (OUCH 5.0) or token (OUCH 4.2)."""
    flags: int = 0
    """The bits above."""
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
    """What its protocol keeps of the request to say it again; the market does not look at it."""
