"""Reasons of refusals and cancellations; every protocol has its own code for each."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CancelReason", "RefuseReason"]


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
    """Its time in force is impossible (expired, or unknown)."""
    BAD_COMBINATION = 10
    """Attributes that exclude each other."""
    HALTED = 11
    CLOSED = 12
    REPLAYED = 13
    """The symbol follows a recording and takes no orders."""
    MARKET_FULL = 14
    """The market has its largest number of live orders."""
    OPEN_ORDERS = 15
    """The account has its largest number of live orders."""
    RATE = 16
    """More requests in a second than the account may send."""
    NOTIONAL = 17
    """The order, or all live ones of the account together, are worth more than they may be."""
    KILLED = 18
    """The account is stopped."""
    UNKNOWN_ORDER = 19
    FOREIGN_ORDER = 20
    """The order belongs to another broker."""
    UNKNOWN_ACTION = 21
    LATE = 22
    """Too late for the auction."""
    OTHER = 23
    EXHAUSTED = 24
    """The account has used the last reference that its protocol has."""


class CancelReason(IntEnum):
    """Reason why an order, or a part of it, was cancelled."""

    USER = 1
    IMMEDIATE = 2
    """Rest of an immediate-or-cancel order."""
    MARKET = 3
    """Rest of a market order."""
    TIMEOUT = 4
    SUPERVISORY = 5
    """By the operator of the exchange."""
    SELF_TRADE = 6
    COLLAR = 7
    """It would execute outside the collar."""
    HALTED = 8
    CLOSED = 9
    POST_ONLY = 10
    CROSS = 11
    """Rest of an order for an auction."""
    DISCONNECT = 12
    """Its owner's last connection ended."""
    MINIMUM = 13
    """Its minimum could not be executed."""
    REPLACED = 14
    """A replacement left nothing of it, or took its place."""
