"""Accounts: the owners of orders, and what each may do."""

from __future__ import annotations

from typing import Literal

import msgspec

from exchange_server.matching.order import Order

__all__ = ["Account", "AccountLimits", "SelfTrade"]

SelfTrade = Literal["allow", "newest", "oldest", "both", "decrement"]
"""Policy for two orders of one broker that would trade with each other: they trade (allow), the newest, the oldest or
both are cancelled, or both are reduced by the lots that would have traded (decrement)."""


class AccountLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of an account; 0 is no limit."""

    requests_per_s: int = 0
    """Requests in a second of market time, as a bucket that holds one second's."""
    open_orders: int = 0
    """Live orders at once."""
    order_notional: int = 0
    """Price times volume of one order, in ticks times lots."""
    open_notional: int = 0
    """Price times volume of all live orders together."""


class Account(msgspec.Struct):
    """One name that owns orders. Part of the market's state: only inputs change it."""

    index: int
    """Its number in the market, from 1, in order of appearance."""
    name: str
    """Unique: ``text:7`` for broker 7 of the text protocol, ``ouch:ALPHA`` for a user of OUCH."""
    protocol: str
    """Protocol of its messages: ``text``, ``ouch5`` or ``ouch42``."""
    broker_id: int
    """Whose orders they are on the feed; several accounts may be one broker's."""
    limits: AccountLimits = AccountLimits()
    """Limits of its requests and orders."""
    self_trade: SelfTrade = "allow"
    """Policy for its orders that would trade with its broker's."""
    cancel_on_disconnect: bool = False
    """True if its live orders are cancelled when its last connection ends."""
    killed: bool = False
    """True if new orders are refused."""
    last_ref: int = 0
    """The highest numeric reference that was used: lower ones are retransmissions."""
    open_notional: int = 0
    """Worth of its live orders, ticks times lots."""
    orders: dict[int | bytes, Order] = msgspec.field(default_factory=dict)
    """Its live orders, by reference."""
    next_message: int = 1
    """Number of the next message that it is told."""
    bucket: int = 0
    """Bucket of the request rate: requests times 10⁹ that may still be sent."""
    bucket_ns: int = 0
    """Time of that value."""
    tokens: dict[bytes, None] = msgspec.field(default_factory=dict)
    """Its latest references that are tokens (OUCH 4.2): a request with one of them is a repetition …"""
    older_tokens: dict[bytes, None] = msgspec.field(default_factory=dict)
    """… and those before them; of a bounded number, see `exchange_server.nasdaq.ouch.protocol42`."""

    def worth(self) -> int:
        """Return the value that `open_notional` has to have: ticks times lots of its live orders, 0 without that
        limit."""
        if not self.limits.open_notional:
            return 0
        return sum((order.volume + order.reserve) * order.price_ticks for order in self.orders.values())
