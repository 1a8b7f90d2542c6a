"""Orders of OUCH 4.2 as the market has them, and why not."""

from __future__ import annotations

import struct
from itertools import product
from typing import Final

from deltabook.wire.ouch42 import IMMEDIATE, MARKET_HOURS, SYSTEM_HOURS, Display, RejectReason
from exchange_server.matching.account import Account
from exchange_server.matching.order import (
    CLOSING,
    EXPIRES,
    HALTED_ONLY,
    HIDDEN,
    IOC,
    MARKET,
    MINIMUM,
    OPENING,
    POST_ONLY,
    Order,
)
from exchange_server.matching.reasons import RefuseReason
from exchange_server.nasdaq.ouch.protocol import SIDES
from exchange_server.nasdaq.ouch.reasons import Refusal
from exchange_server.nasdaq.ouch.scale import LARGEST_QUANTITY, MARKET_UNITS, Scales

__all__ = ["order_of"]

_BLOCK: Final = struct.Struct(">14ssI8sII4s3sIs")
"""`Order.echo`: token, side, shares, stock, price, time in force, firm, the three letters of `_FLAGS`, minimum,
cross."""
_DISPLAYS: Final = {
    Display.VISIBLE: 0,
    Display.ATTRIBUTABLE: 0,
    Display.HIDDEN: HIDDEN,
    Display.POST_ONLY: POST_ONLY,
    Display.POST_ONLY_ATTRIBUTABLE: POST_ONLY,
}
_FLAGS: Final = {
    "".join(letters).encode("ascii"): _DISPLAYS[letters[0]] for letters in product(_DISPLAYS, "APRO", "YN")
}
"""Display, capacity and sweep → the order's flags, for all that can be."""
_CROSSES: Final = {b"N": 0, b"O": OPENING, b"C": CLOSING, b"H": HALTED_ONLY}
_AUCTIONS: Final = OPENING | CLOSING | HALTED_ONLY


def order_of(echo: bytes, account: Account, scales: Scales, time_ns: int) -> Order:
    """The order that an `Order.echo` asks for at a time; raises `Refusal`."""
    token, side, shares, stock, units, seconds, _, letters, minimum, cross = _BLOCK.unpack(echo)
    scale = scales.by_stock.get(stock)
    if scale is None:
        raise Refusal(RefuseReason.UNKNOWN_SYMBOL, RejectReason.INVALID_STOCK, f"unknown symbol {stock!r}")
    if side not in SIDES:
        raise Refusal(RefuseReason.BAD_SIDE, RejectReason.OTHER, f"expected a side B S T E, was {side!r}")
    locate, tick, lot = scale
    if units < 1 or (units < MARKET_UNITS and units % tick):
        words = f"expected a price of whole ticks of {tick} ten-thousandths, was {units}"
        raise Refusal(RefuseReason.BAD_TICK, RejectReason.INVALID_PRICE, words)
    if not 1 <= shares <= LARGEST_QUANTITY or shares % lot:
        words = f"expected 1 to {LARGEST_QUANTITY} shares in lots of {lot}, was {shares}"
        if shares % lot:
            raise Refusal(RefuseReason.BAD_LOT, RejectReason.ODD_LOT_RESTRICTION, words)
        raise Refusal(RefuseReason.BAD_VOLUME, RejectReason.SHARES_EXCEED_THRESHOLD, words)
    ticks = 0 if units >= MARKET_UNITS else units // tick
    order = Order(0, 0, locate, SIDES[side], ticks, shares // lot, account.broker_id, account.index, token)
    order.echo = echo
    order.flags = _flags_of(letters, cross, seconds) | (0 if ticks else MARKET)
    if order.flags & (IOC | MARKET | _AUCTIONS):
        # Never seen: whether it is hidden makes no difference.
        order.flags &= ~HIDDEN
    if order.flags & EXPIRES:
        order.expire_ns = time_ns + seconds * 10**9
    if minimum:
        # Rounded up: fewer shares would not be the minimum that was asked for.
        order.flags |= MINIMUM
        order.minimum = -(-minimum // lot)
    return order


def _flags_of(letters: bytes, cross: bytes, seconds: int) -> int:
    """An order for an auction ends with it in any case: how long it is in force makes no difference."""
    flags, auction = _FLAGS.get(letters), _CROSSES.get(cross)
    if flags is None:
        code = RejectReason.OTHER if letters[:1].decode("latin-1") in _DISPLAYS else RejectReason.INVALID_DISPLAY
        raise Refusal(RefuseReason.BAD_DISPLAY, code, f"expected display, capacity and sweep, was {letters!r}")
    if auction is None:
        raise Refusal(RefuseReason.OTHER, RejectReason.INVALID_CROSS, f"expected a cross N O C H, was {cross!r}")
    if seconds > SYSTEM_HOURS:
        words = f"expected a time in force up to {SYSTEM_HOURS}, was {seconds}"
        raise Refusal(RefuseReason.BAD_TIME, RejectReason.OTHER, words)
    if auction:
        return flags | auction
    if seconds == IMMEDIATE:
        return flags | IOC
    return flags | EXPIRES if seconds < MARKET_HOURS else flags
