"""OUCH 4.2: decoding of orders, execution of requests, and the private stream of an account."""

from __future__ import annotations

import struct
from itertools import product
from typing import Final

from deltabook.wire.ouch42 import IMMEDIATE, MARKET_HOURS, SYSTEM_HOURS, Display, RejectReason
from exchange_server.matching.inputs import Party, Wire
from exchange_server.matching.market import Market
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
    Account,
    CancelReason,
    Order,
    RefuseReason,
    SelfTrade,
)
from exchange_server.matching.outputs import Now, Touched
from exchange_server.nasdaq.ouch.protocol import (
    BROKEN,
    CANCELED_42,
    DAY_NS,
    HEAD_BYTES,
    LARGEST_QUANTITY,
    LIQUIDITY,
    LIVE,
    MARKET_UNITS,
    REJECTED_42,
    SIDES,
    ListedScales,
    OuchProtocol,
    OuchTeller,
    Refusal,
    Rejection,
)

__all__ = ["REMEMBERED_TOKENS", "Ouch42"]

_BLOCK: Final = struct.Struct(">14ssI8sII4s3sIs")
"""Layout of `Order.echo`: token, side, shares, stock, price, time in force, firm, the three letters of `_FLAGS`,
minimum, cross.
"""
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
"""Flags of the order by display, capacity and sweep, for all possible combinations."""
_CROSSES: Final = {b"N": 0, b"O": OPENING, b"C": CLOSING, b"H": HALTED_ONLY}
_AUCTIONS: Final = OPENING | CLOSING | HALTED_ONLY


def order_of(echo: bytes, account: Account, scales: ListedScales, time_ns: int) -> Order:
    """Return the order that an `Order.echo` requests at a time; raise `Refusal` for an impossible order."""
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
        # The order is never displayed, so that hiding has no effect.
        order.flags &= ~HIDDEN
    if order.flags & EXPIRES:
        order.expire_ns = time_ns + seconds * 10**9
    if minimum:
        # The minimum is rounded up to whole lots: fewer shares would be less than requested.
        order.flags |= MINIMUM
        order.minimum = -(-minimum // lot)
    return order


def _flags_of(letters: bytes, cross: bytes, seconds: int) -> int:
    """Return the flags of an order.

    An order for an auction ends with the auction, so that its time in force has no effect.
    """
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


# Each layout is a whole packet: its length, its type S, and the message. `Order.echo` has the fields of Enter Order,
# from the token to the cross type. Accepted and Replaced contain its first 40 bytes and, in another place, its last 7.
_SYSTEM: Final = struct.Struct(">H2sQB").pack
_ACCEPTED: Final = struct.Struct(">H2sQ40sQ7sBc").pack
_REPLACED: Final = struct.Struct(">H2sQ40sQ7sB14sc").pack
_EXECUTED: Final = struct.Struct(">H2sQ14sIIBQ").pack
_CANCELED: Final = struct.Struct(">H2sQ14sIB").pack
_PREVENTED: Final = struct.Struct(">H2sQ14sIcIIc").pack
_REJECTED: Final = struct.Struct(">H2sQ14sB").pack
_BROKEN: Final = struct.Struct(">H2sQ14sQc").pack
_MODIFIED: Final = struct.Struct(">H2sQ14s1sI").pack
_LARGEST_PRICE: Final = 2**32 - 1
_STATE: Final = 3 + 64
"""Offset of the order's state in Accepted and Replaced."""


class Teller42(OuchTeller):
    """Packets of OUCH 4.2.

    An order whose minimum quantity cannot be executed is accepted dead (state D), without a further message.
    """

    __slots__ = ()

    def accepted(self, order: Order) -> None:
        """Append A, an acceptance."""
        packets = self._packets
        if not packets:
            self._touched.append(self)
        echo = order.echo
        packets.append(_ACCEPTED(67, b"SA", self._now.time_ns % DAY_NS, echo, order.order_id, echo[40:], LIVE, b" "))

    def replaced(self, old: Order, order: Order) -> None:
        """Append U, a replacement."""
        echo, stamp = order.echo, self._now.time_ns % DAY_NS
        self._write(_REPLACED(81, b"SU", stamp, echo, order.order_id, echo[40:], LIVE, old.ref, b" "))

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        """Append E, an execution."""
        packets = self._packets
        if not packets:
            self._touched.append(self)
        _, tick, lot = self._scales[order.locate]
        stamp, flag, price = self._now.time_ns % DAY_NS, LIQUIDITY[liquidity], price_ticks * tick
        price = min(price, _LARGEST_PRICE)  # the other order's protocol may allow a higher price
        packets.append(_EXECUTED(41, b"SE", stamp, order.ref, volume * lot, price, flag, match_id))

    def busted(self, party: Party, match_id: int) -> None:
        """Append B, a broken trade."""
        self._write(_BROKEN(33, b"SB", self._now.time_ns % DAY_NS, party.ref, match_id, BROKEN))

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """Append C, a cancellation, or change the order's acceptance into that of a dead order."""
        del ref
        if reason is CancelReason.MINIMUM and self._accepted_dead(order):
            return
        shares = volume * self._scales[order.locate][2]
        self._write(_CANCELED(29, b"SC", self._now.time_ns % DAY_NS, order.ref, shares, CANCELED_42[reason]))

    def prevented(  # noqa: PLR0917 - the fields of the message
        self, order: Order, volume: int, prevented: int, price_ticks: int, liquidity: str, policy: SelfTrade
    ) -> None:
        """Append D, a cancellation that prevents a self-trade."""
        _, tick, lot = self._scales[order.locate]
        stamp = self._now.time_ns % DAY_NS
        price = min(price_ticks * tick, _LARGEST_PRICE)
        flag = liquidity.encode("ascii")
        self._write(_PREVENTED(38, b"SD", stamp, order.ref, volume * lot, b"Q", prevented * lot, price, flag))

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """Append J, a rejection."""
        del detail
        own = item.code if isinstance(item, Rejection) else None
        code = REJECTED_42[reason] if own is None else own
        self._write(_REJECTED(25, b"SJ", self._now.time_ns % DAY_NS, ref, code))

    def modified(self, order: Order) -> None:
        """Append M, a modification."""
        shares = (order.volume + order.reserve) * self._scales[order.locate][2]
        self._write(_MODIFIED(29, b"SM", self._now.time_ns % DAY_NS, order.ref, order.echo[14:15], shares))

    def refreshed(self, order: Order) -> None:
        """Do nothing: OUCH 4.2 has no icebergs."""

    def system(self, code: str) -> None:
        """Append S, a system event."""
        self._write(_SYSTEM(11, b"SS", self._now.time_ns % DAY_NS, ord(code)))

    @staticmethod
    def _takes(packet: bytes, order: Order) -> bool:
        return packet[3:4] in b"AU" and packet[12:26] == order.ref

    @staticmethod
    def _state_at(packet: bytes) -> int:
        del packet
        return _STATE


REMEMBERED_TOKENS: Final = 1 << 16
"""Least number of latest tokens that an account remembers; an order with one of them is a repetition."""

_REPLACE: Final = struct.Struct(">14s14sI8s1s1s4s")
"""Layout of Replace Order without its type: old token, new token, shares, price and time in force, display, sweep,
minimum.
"""
_CANCEL: Final = struct.Struct(">14sI").unpack_from
_MODIFY: Final = struct.Struct(">14ssI").unpack_from
_LENGTHS: Final = {b"O": 49, b"U": 47, b"X": 19, b"M": 20, b"N": 15}


class Ouch42(OuchProtocol):
    """Decodes packets of OUCH 4.2, and notifies accounts in OUCH 4.2.

    A token identifies one order of the account's session: a used token marks a repetition. The account remembers the
    latest `REMEMBERED_TOKENS` tokens and those of its live orders. Trade Now has no effect, since no order waits for a
    midpoint.
    """

    name = "ouch42"
    side_at = 14

    def teller(self, account: Account, now: Now, touched: Touched) -> Teller42:
        """Return a teller that writes OUCH 4.2 for an account."""
        return Teller42(account, now, touched, self._scales)

    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Carry out the messages; return why the session must be closed, or an empty string."""
        data, time_ns, size, at = item.data, item.time_ns, len(item.data), 0
        now = market.now
        while at < size:
            if size - at <= HEAD_BYTES or (end := at + 2 + (data[at] << 8 | data[at + 1])) > size:
                return f"expected whole packets, was {data[at : at + 16]!r}"
            now.time_ns = time_ns
            if time_ns >= market.next_due_ns:
                market.expire()
            time_ns += 1
            message = data[at + HEAD_BYTES : end]
            letter = message[:1]
            if _LENGTHS.get(letter) != len(message):
                return f"expected a message O U X M or N of its length, was {message[:16]!r} of {len(message)} bytes"
            if letter == b"O":
                self._enter(market, account, message[1:48])
            elif letter == b"X":
                self._cancel(market, account, *_CANCEL(message, 1))
            elif letter == b"U":
                self._replace(market, account, message)
            elif letter == b"M":
                self._modify(market, account, *_MODIFY(message, 1))
            at = end
        return ""

    def _enter(self, market: Market, account: Account, echo: bytes) -> None:
        token = echo[:14]
        if _is_used(account, token):
            return
        _use(account, token)
        try:
            order = order_of(echo, account, self._scales, market.now.time_ns)
        except Refusal as refusal:
            self._refuse(market, account, token, refusal, echo)
        else:
            market.enter(order)

    def _replace(self, market: Market, account: Account, message: bytes) -> None:
        existing, token, shares, numbers, display, sweep, minimum = _REPLACE.unpack_from(message, 1)
        old = market.order_of(account, existing)
        if old is None or _is_used(account, token):
            return
        was = old.echo
        # Both the answer and the new order have the number of shares still open.
        still_open = max(shares - old.executed * self._lot_of(old), 0).to_bytes(4)
        echo = b"".join(
            (
                token,
                was[14:15],
                still_open,
                was[19:27],
                numbers,
                was[35:39],
                display,
                was[40:41],
                sweep,
                minimum,
                was[46:],
            )
        )
        try:
            order = order_of(echo, account, self._scales, market.now.time_ns)
            if shares > LARGEST_QUANTITY:
                raise Refusal(RefuseReason.BAD_VOLUME, RejectReason.SHARES_EXCEED_THRESHOLD, "expected fewer shares")
        except Refusal:
            self._end(market, old)
            return
        _use(account, token)
        order.executed = old.executed
        market.replace(old, order)


def _is_used(account: Account, token: bytes) -> bool:
    return token in account.tokens or token in account.older_tokens or token in account.orders


def _use(account: Account, token: bytes) -> None:
    """Remember a used token.

    Tokens are in two generations. When the newer generation is full, it becomes the older one, and the previous older
    one is dropped.
    """
    if len(account.tokens) >= REMEMBERED_TOKENS:
        account.older_tokens, account.tokens = account.tokens, {}
    account.tokens[token] = None
