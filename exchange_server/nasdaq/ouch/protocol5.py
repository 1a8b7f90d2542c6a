"""OUCH 5.0: execution of requests in the market, and the private stream of an account."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from deltabook.wire import ouch5
from deltabook.wire.errors import WireError
from deltabook.wire.ouch5 import Option, RejectReason, decode_options
from exchange_server.matching.inputs import Party, Wire
from exchange_server.matching.market import Market
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason, SelfTrade
from exchange_server.matching.outputs import Now, Touched
from exchange_server.nasdaq.ouch.orders5 import (
    BLOCK,
    ORDER_BYTES,
    PLAIN,
    SHORTEST_RUN,
    check_appendage,
    echo_of,
    order_of,
    read_run,
)
from exchange_server.nasdaq.ouch.protocol import (
    BROKEN,
    CANCELED_5,
    DAY_NS,
    HEAD_BYTES,
    LARGEST_QUANTITY,
    LIQUIDITY,
    MARKET_UNITS,
    REJECTED_5,
    SIDES,
    OuchProtocol,
    OuchTeller,
    Refusal,
    Rejection,
)

__all__ = ["Ouch5", "Teller5"]

ECHO_BYTES: Final = 47
"""Number of bytes of an `Order.echo` without options. Accepted and Replaced repeat these bytes in two pieces: 27 bytes
(number, side, quantity, symbol, price, time in force, display) come before the order's reference number, and 20 bytes
(capacity, sweep, cross, state, the client's id, length of the options) after it.
"""

# Each layout is a whole packet: its length, its type S, and the message.
_SYSTEM: Final = struct.Struct(">H2sQB").pack
_ACCEPTED: Final = struct.Struct(">4sQ27sQ20s").pack
_ACCEPTED_WITH: Final = struct.Struct(">H2sQ27sQ20s").pack
_REPLACED: Final = struct.Struct(">H2sQI27sQ20s").pack
_EXECUTED: Final = struct.Struct(">4sQIIQBQxx").pack
_CANCELED: Final = struct.Struct(">H2sQIIB").pack
_PREVENTED: Final = struct.Struct(">H2sQIIcIQcc").pack
_REJECTED: Final = struct.Struct(">H2sQIH14s").pack
_BROKEN: Final = struct.Struct(">H2sQIQc14s").pack
_MODIFIED: Final = struct.Struct(">H2sQI1sI").pack
_RESTATED: Final = struct.Struct(">H2sQIc").pack
_MASS_CANCELED: Final = struct.Struct(">H2sQI4s8sxx").pack
_QUERIED: Final = struct.Struct(">H2sQI").pack
LAST_REF: Final = 2**32 - 1
"""Largest number of an order."""
_LARGEST_PRICE: Final = 2**64 - 1

_STRATEGIES: Final = {"newest": b"N", "oldest": b"O", "both": b"B", "decrement": b"D"}


class Teller5(OuchTeller):
    """Packets of OUCH 5.0.

    * The answers about an order repeat the options of its request.
    * An order whose minimum quantity cannot be executed is accepted dead (state D), without a further message.
    * An iceberg that displays its next part is restated (R), with its new number on the feed.
    """

    __slots__ = ()

    def accepted(self, order: Order) -> None:
        """Append A, an acceptance."""
        packets = self._packets
        if not packets:
            self._touched.append(self)
        stamp = self._now.time_ns - self._midnight_ns
        if stamp >= DAY_NS:
            stamp = self._new_day()
        echo = order.echo
        if len(echo) == ECHO_BYTES:
            packets.append(_ACCEPTED(b"\x00\x41SA", stamp, echo, order.order_id, echo[27:]))
        else:
            head = _ACCEPTED_WITH(len(echo) + 18, b"SA", stamp, echo, order.order_id, echo[27:])
            packets.append(head + echo[ECHO_BYTES:])

    def replaced(self, old: Order, order: Order) -> None:
        """Append U, a replacement."""
        echo = order.echo
        assert isinstance(old.ref, int)
        stamp = self._now.time_ns % DAY_NS
        head = _REPLACED(len(echo) + 22, b"SU", stamp, old.ref, echo, order.order_id, echo[27:])
        self._write(head + echo[ECHO_BYTES:])

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        """Append E, an execution."""
        packets = self._packets
        if not packets:
            self._touched.append(self)
        stamp = self._now.time_ns - self._midnight_ns
        if stamp >= DAY_NS:
            stamp = self._new_day()
        _, tick, lot = self._scales[order.locate]
        shares, price, flag = volume * lot, price_ticks * tick, LIQUIDITY[liquidity]
        try:
            packet = _EXECUTED(b"\x00\x25SE", stamp, order.ref, shares, price, flag, match_id)
        except struct.error:  # a price of the other order's protocol that this protocol cannot express
            packet = _EXECUTED(b"\x00\x25SE", stamp, order.ref, shares, _LARGEST_PRICE, flag, match_id)
        packets.append(packet)

    def busted(self, party: Party, match_id: int) -> None:
        """Append B, a broken trade."""
        client_id = party.echo[31:45].ljust(14)
        self._write(_BROKEN(37, b"SB", self._now.time_ns % DAY_NS, party.ref, match_id, BROKEN, client_id))

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """Append C, a cancellation, or change the order's acceptance into that of a dead order."""
        del ref
        if reason is CancelReason.MINIMUM and self._accepted_dead(order):
            return
        packets = self._packets
        if not packets:
            self._touched.append(self)
        shares = volume * self._scales[order.locate][2]
        packets.append(_CANCELED(19, b"SC", self._now.time_ns % DAY_NS, order.ref, shares, CANCELED_5[reason]))

    def prevented(  # noqa: PLR0917 - the fields of the message
        self, order: Order, volume: int, prevented: int, price_ticks: int, liquidity: str, policy: SelfTrade
    ) -> None:
        """Append D, a cancellation that prevents a self-trade."""
        _, tick, lot = self._scales[order.locate]
        stamp = self._now.time_ns % DAY_NS
        price = min(price_ticks * tick, _LARGEST_PRICE)
        flag, strategy = liquidity.encode("ascii"), _STRATEGIES[policy]
        self._write(_PREVENTED(33, b"SD", stamp, order.ref, volume * lot, b"Q", prevented * lot, price, flag, strategy))

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """Append J, a rejection."""
        del detail
        code, echo = REJECTED_5[reason], b""
        if isinstance(item, Rejection):
            code, echo = code if item.code is None else item.code, item.echo
        elif isinstance(item, Order):
            echo = item.echo
        self._write(_REJECTED(30, b"SJ", self._now.time_ns % DAY_NS, ref, code, echo[31:45].ljust(14)))

    def modified(self, order: Order) -> None:
        """Append M, a modification."""
        shares = (order.volume + order.reserve) * self._scales[order.locate][2]
        self._write(_MODIFIED(19, b"SM", self._now.time_ns % DAY_NS, order.ref, order.echo[4:5], shares))

    def refreshed(self, order: Order) -> None:
        """Append R, a restatement."""
        shares = order.volume * self._scales[order.locate][2]
        options = ouch5.encode_options(
            {Option.DISPLAY_QUANTITY: shares, Option.SECONDARY_ORDER_REFERENCE: order.feed_id}
        )
        head = _RESTATED(15 + len(options), b"SR", self._now.time_ns % DAY_NS, order.ref, b"R")
        self._write(head + options)

    def system(self, code: str) -> None:
        """Append S, a system event."""
        self._write(_SYSTEM(11, b"SS", self._now.time_ns % DAY_NS, ord(code)))

    def mass_canceled(self, ref: int, firm: bytes, stock: bytes) -> None:
        """Append X, the confirmation of a mass cancel; the C messages of the cancelled orders come before it."""
        self._write(_MASS_CANCELED(28, b"SX", self._now.time_ns % DAY_NS, ref, firm, stock))

    def queried(self) -> None:
        """Append Q with the smallest number that the next order may have, or the largest number once that is used."""
        next_ref = min(self.account.last_ref + 1, LAST_REF)
        self._write(_QUERIED(14, b"SQ", self._now.time_ns % DAY_NS, next_ref))

    @staticmethod
    def _takes(packet: bytes, order: Order) -> bool:
        at = 12 if packet[3:4] == b"A" else 16 if packet[3:4] == b"U" else 0
        return at > 0 and int.from_bytes(packet[at : at + 4]) == order.ref

    @staticmethod
    def _state_at(packet: bytes) -> int:
        return 50 if packet[3:4] == b"A" else 54


_REPLACE: Final = struct.Struct(">III8s2ss14s")
_PAIR: Final = struct.Struct(">II").unpack_from
_MODIFY: Final = struct.Struct(">IsI").unpack_from
_MASS: Final = struct.Struct(">I4s8s").unpack_from
_FIXED_BYTES: Final[Mapping[bytes, int]] = {b"X": 9, b"M": 10, b"C": 17, b"Q": 1}
"""Lengths of the requests other than O and U, without the optional appendage."""
_ENTER: Final = ord("O")
_CANCEL: Final = ord("X")
_CANCEL_BYTES: Final = HEAD_BYTES + 9


class Ouch5(OuchProtocol):
    """Decodes packets of OUCH 5.0, and notifies accounts in OUCH 5.0.

    Numbers of orders rise over the session of an account: a number not above the last one marks a repetition.
    """

    name = "ouch5"
    last_ref = LAST_REF
    side_at = 4

    def teller(self, account: Account, now: Now, touched: Touched) -> Teller5:
        """Return a teller that writes OUCH 5.0 for an account."""
        return Teller5(account, now, touched, self._scales)

    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Carry out the messages; return why the session must be closed, or an empty string."""
        data, time_ns, at = item.data, item.time_ns, 0
        end = len(data) - SHORTEST_RUN * ORDER_BYTES
        while at <= end:
            locate, orders = read_run(data, at, self._scales, account)
            if orders:
                market.enter_run(account, locate, orders, time_ns)
            at += len(orders) * ORDER_BYTES
            time_ns += len(orders)
            if len(orders) < SHORTEST_RUN:
                break
        return self._carry_out_each(market, account, data, at, time_ns)

    def _carry_out_each(self, market: Market, account: Account, data: bytes, at: int, time_ns: int) -> str:
        """Carry out messages of all kinds from ``at`` on.

        Return why the session must be closed, or an empty string.
        """
        size, now, enter, stocks = len(data), market.now, market.enter, self._scales.by_stock
        broker, index, sides, plain, unpack = account.broker_id, account.index, SIDES, PLAIN, BLOCK.unpack_from
        while at < size:
            if size - at <= HEAD_BYTES or (end := at + 2 + (data[at] << 8 | data[at + 1])) > size:
                return f"expected whole packets, was {data[at : at + 16]!r}"
            now.time_ns = time_ns
            time_ns += 1
            letter = data[at + 3]
            if letter == _ENTER and end - at == ORDER_BYTES:
                ref, side, quantity, stock, units, letters, _, options = unpack(data, at + 4)
                scale = stocks.get(stock)
                if (
                    scale is not None
                    and letters in plain
                    and side in sides
                    and 0 < units < MARKET_UNITS
                    and 0 < quantity <= LARGEST_QUANTITY
                    and not options
                ):
                    locate, tick, lot = scale
                    if not units % tick and not quantity % lot:
                        ticks, lots, echo = units // tick, quantity // lot, echo_of(data[at + 4 : end])
                        at, side = end, sides[side]
                        enter(Order(0, 0, locate, side, ticks, lots, broker, index, ref, 0, 0, 0, 0, 0, 0, 0, echo))
                        continue
            elif letter == _CANCEL and end - at == _CANCEL_BYTES:
                self._cancel(market, account, *_PAIR(data, at + 4))
                at = end
                continue
            reason = self._carry_out(market, account, data[at + HEAD_BYTES : end])
            if reason:
                return reason
            at = end
        return ""

    def _carry_out(self, market: Market, account: Account, message: bytes) -> str:
        """Carry out a message of any kind, on the slow path."""
        if market.now.time_ns >= market.next_due_ns:
            market.expire()
        letter, length = message[:1], len(message)
        try:
            if letter == b"O" and length >= 1 + BLOCK.size:
                self._enter(market, account, message[1:])
            elif letter == b"U" and length >= 1 + _REPLACE.size + 2:
                self._replace(market, account, message)
            elif letter in _FIXED_BYTES and length >= (fixed := _FIXED_BYTES[letter]):
                if length > fixed:
                    decode_options(message[fixed:])
                self._carry_out_fixed(market, account, message)
            else:
                return f"expected a message O U X M C or Q of its length, was {message[:16]!r} of {length} bytes"
        except WireError as error:
            return str(error)
        return ""

    def _carry_out_fixed(self, market: Market, account: Account, message: bytes) -> None:
        """Carry out a request of `_FIXED_BYTES`. The options in its appendage have no effect here."""
        match message[:1]:
            case b"X":
                self._cancel(market, account, *_PAIR(message, 1))
            case b"M":
                self._modify(market, account, *_MODIFY(message, 1))
            case b"C":
                self._mass_cancel(market, account, *_MASS(message, 1))
            case _:
                self._teller(market, account).queried()

    def _mass_cancel(self, market: Market, account: Account, ref: int, firm: bytes, stock: bytes) -> None:
        """Cancel the account's orders in one symbol, or in all symbols if ``stock`` is blank; then confirm the request.

        The account is the firm, so the firm's name has no effect.
        """
        if not market.shared.is_new(account.index, ref):
            market.repeated(account.index, ref, None)
            return
        if stock.strip() and stock not in self._scales.by_stock:
            words = f"unknown symbol {stock!r}"
            market.shared.turn_down(account.index, ref, RefuseReason.UNKNOWN_SYMBOL, words, None)
            return
        market.mass_cancel(account.index, stock.decode("latin-1").rstrip(), CancelReason.USER)
        self._teller(market, account).mass_canceled(ref, firm, stock)

    @staticmethod
    def _teller(market: Market, account: Account) -> Teller5:
        teller = market.tellers[account.index]
        assert isinstance(teller, Teller5)
        return teller

    def _enter(self, market: Market, account: Account, block: bytes) -> None:
        check_appendage(block)
        ref = int.from_bytes(block[:4])
        if ref <= account.last_ref:
            market.repeated(account.index, ref, Rejection(None, echo_of(block)))
            return
        try:
            order = order_of(block, account, self._scales, market.now.time_ns)
        except Refusal as refusal:
            account.last_ref = ref
            self._refuse(market, account, ref, refusal, echo_of(block))
        else:
            market.enter(order)

    def _replace(self, market: Market, account: Account, message: bytes) -> None:
        orig, ref, quantity, price, letters, sweep, client_id = _REPLACE.unpack_from(message, 1)
        old = market.order_of(account, orig)
        if ref <= account.last_ref:
            market.repeated(account.index, ref, Rejection(None, b"".ljust(31) + client_id))
            return
        if old is None:
            return
        was, tail = old.echo, message[1 + _REPLACE.size :]
        # Both the answer and the new order have the number of shares still open.
        still_open = max(quantity - old.executed * self._lot_of(old), 0).to_bytes(4)
        numbers = (ref.to_bytes(4), was[4:5], still_open, was[9:17], price)
        block = b"".join((*numbers, letters, was[27:28], sweep, was[29:30], client_id, tail))
        check_appendage(block)
        try:
            order = order_of(block, account, self._scales, market.now.time_ns)
            if quantity > LARGEST_QUANTITY:
                raise Refusal(RefuseReason.BAD_VOLUME, RejectReason.INVALID_QUANTITY, "expected fewer shares")
        except Refusal:
            self._end(market, old)
            return
        order.executed = old.executed
        market.replace(old, order)
