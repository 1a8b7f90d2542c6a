"""Messages of OUCH 5.0 sessions as prepared bytes, so that the load costs as little as possible."""

from __future__ import annotations

import struct
from typing import Final

__all__ = [
    "ACCEPTED_BYTES",
    "EXECUTED_BYTES",
    "HEARTBEAT",
    "LAST_WORD",
    "PASSWORD",
    "QUERY",
    "login",
    "pairs",
    "resting",
]

PASSWORD: Final = "secret"
ACCEPTED_BYTES: Final = 3 + 64
"""Size of a packet with Accepted, without appendage, in bytes."""
EXECUTED_BYTES: Final = 3 + 36
"""Size of a packet with Executed, in bytes."""
QUERY: Final = b"\x00\x02UQ"
"""Packet of an account query, whose answer is the last message."""
HEARTBEAT: Final = b"\x00\x01R"
LAST_WORD: Final = b"\x00\x0eSQ"
"""First bytes of the answer to `QUERY`."""

_ENTER: Final = struct.Struct(">HcsI1sI8sQ1s1s1s1s1s14sH")
_MID_UNITS: Final = 1_000_000
"""Middle price of 100.00, in ten-thousandths."""
_TICK_UNITS: Final = 100


def login(user: str, sequence: int = 1) -> bytes:
    """Return a login request of SoupBinTCP 3.00."""
    body = f"L{user:<6}{PASSWORD:<10}{'':<10}{sequence:>20}".encode("ascii")
    return struct.pack(">H", len(body)) + body


def _enter(ref: int, side: bytes, shares: int, units: int, symbol: bytes) -> bytes:
    head = (_ENTER.size - 2, b"U", b"O", ref, side, shares, symbol, units)
    return _ENTER.pack(*head, b"0", b"Y", b"A", b"N", b"N", b" " * 14, 0)


def resting(first_ref: int, orders: int, symbol: str) -> bytes:
    """Return orders on both sides, far from the prices of `pairs`."""
    stock = symbol.encode("ascii").ljust(8)
    parts = []
    for number in range(orders):
        away = (50 + number % 100) * _TICK_UNITS
        side, units = (b"B", _MID_UNITS - away) if number % 2 else (b"S", _MID_UNITS + away)
        parts.append(_enter(first_ref + number, side, 100, units, stock))
    return b"".join(parts)


def pairs(first_ref: int, orders: int, symbol: str) -> bytes:
    """Return pairs of orders: a resting sale, then a purchase that executes it; prices vary over 20 ticks."""
    stock = symbol.encode("ascii").ljust(8)
    parts = []
    for number in range(0, orders, 2):
        units = _MID_UNITS + (number // 2 % 20) * _TICK_UNITS
        shares = 100 * (1 + number // 2 % 9)
        parts.append(_enter(first_ref + number, b"S", shares, units, stock))
        parts.append(_enter(first_ref + number + 1, b"B", shares, _MID_UNITS + 20 * _TICK_UNITS, stock))
    return b"".join(parts)
