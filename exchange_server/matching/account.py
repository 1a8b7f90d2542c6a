"""Accounts: the owners of orders, and what each may do."""

from __future__ import annotations

from typing import Literal

import msgspec

from exchange_server.matching.order import Order

__all__ = ["Account", "AccountLimits", "SelfTrade"]

SelfTrade = Literal["allow", "newest", "oldest", "both", "decrement"]
"""What becomes of two orders of one broker that would trade with each other: both live on and trade, the newest or the
oldest or both are cancelled, or both are made smaller by what would have traded."""


class AccountLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an account may do; 0 is no limit."""

    requests_per_s: int = 0
    """Requests in a second of market time, as a bucket that holds one second's."""
    open_orders: int = 0
    """Live orders at once."""
    order_notional: int = 0
    """Price times volume of one order, in ticks times lots."""
    open_notional: int = 0
    """The same of all live orders together."""


class Account(msgspec.Struct):
    """One name that owns orders. Part of the market's state: only inputs change it."""

    index: int
    """Its number in the market, from 1, in order of appearance."""
    name: str
    """Unique: ``text:7`` for broker 7 of the text protocol, ``ouch:ALPHA`` for a user of OUCH."""
    protocol: str
    """What it is told in: ``text``, ``ouch5`` or ``ouch42``."""
    broker_id: int
    """Whose orders they are on the feed; several accounts may be one broker's."""
    limits: AccountLimits = AccountLimits()
    """What it may do."""
    self_trade: SelfTrade = "allow"
    """What becomes of its orders that would trade with its broker's."""
    cancel_on_disconnect: bool = False
    """Whether its live orders are cancelled when its last connection ends."""
    killed: bool = False
    """Whether new orders are refused."""
    last_ref: int = 0
    """The highest numeric reference that was used: lower ones are retransmissions."""
    open_notional: int = 0
    """Worth of its live orders, ticks times lots."""
    orders: dict[int | bytes, Order] = msgspec.field(default_factory=dict)
    """Its live orders: by reference."""
    next_message: int = 1
    """Number of the next message that it is told."""
    bucket: int = 0
    """Bucket of the request rate: requests times 10⁹ that may still be sent."""
    bucket_ns: int = 0
    """Time of that value."""
    tokens: dict[bytes, None] = msgspec.field(default_factory=dict)
    """Its newest references that are tokens (OUCH 4.2): one of them again is a repetition …"""
    older_tokens: dict[bytes, None] = msgspec.field(default_factory=dict)
    """… and those before them; of a bounded number, see `exchange_server.nasdaq.ouch.protocol42`."""

    def worth(self) -> int:
        """What `open_notional` has to be: ticks times lots of its live orders, 0 where nobody limits that."""
        if not self.limits.open_notional:
            return 0
        return sum((order.volume + order.reserve) * order.price_ticks for order in self.orders.values())
