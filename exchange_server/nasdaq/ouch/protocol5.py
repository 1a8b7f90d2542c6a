"""OUCH 5.0: requests carried out in the market as they came."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from deltabook.wire.errors import WireError
from deltabook.wire.ouch5 import RejectReason, decode_options
from exchange_server.matching.account import Account
from exchange_server.matching.inputs import Wire
from exchange_server.matching.market import Market
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import Now, Touched
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.nasdaq.ouch.orders5 import BLOCK, PLAIN, check_appendage, echo_of, order_of
from exchange_server.nasdaq.ouch.protocol import HEAD_BYTES, SIDES, OuchProtocol
from exchange_server.nasdaq.ouch.reasons import Refusal, Rejection
from exchange_server.nasdaq.ouch.runs5 import ORDER_BYTES, SHORTEST_RUN, read_run
from exchange_server.nasdaq.ouch.scale import LARGEST_QUANTITY, MARKET_UNITS
from exchange_server.nasdaq.ouch.teller5 import LAST_REF, Teller5

__all__ = ["Ouch5"]

_REPLACE: Final = struct.Struct(">III8s2ss14s")
_PAIR: Final = struct.Struct(">II").unpack_from
_MODIFY: Final = struct.Struct(">IsI").unpack_from
_MASS: Final = struct.Struct(">I4s8s").unpack_from
_FIXED_BYTES: Final[Mapping[bytes, int]] = {b"X": 9, b"M": 10, b"C": 17, b"Q": 1}
"""Lengths of the requests other than O and U without their appendage, which each of them may have or leave out."""
_ENTER: Final = ord("O")
_CANCEL: Final = ord("X")
_CANCEL_BYTES: Final = HEAD_BYTES + 9


class Ouch5(OuchProtocol):
    """Reads packets of OUCH 5.0 and tells accounts in it.

    Numbers of orders rise over the session of an account: one that is not above the last is a repetition.
    """

    name = "ouch5"
    last_ref = LAST_REF
    side_at = 4

    def teller(self, account: Account, now: Now, touched: Touched) -> Teller5:
        """Writes OUCH 5.0 for an account."""
        return Teller5(account, now, touched, self._scales)

    def apply(self, market: Market, account: Account, item: Wire) -> str:
        """Carry the messages out; returns why the session must be closed."""
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
        """Messages of all kinds from a place on; why the session must be closed."""
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
        """Any message, not in a hurry."""
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
        """Carry out a request of `_FIXED_BYTES`. None of the options of its appendage changes what it does here."""
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
        """Cancel the account's orders in one symbol, or in all if the symbol is blank; then confirm the request.

        The account is the firm, so the firm's name makes no difference.
        """
        if not market.shared.is_new(account.index, ref):
            market.repeated(account.index, ref, None)
            return
        if stock.strip() and stock not in self._scales.by_stock:
            words = f"unknown symbol {stock!r}"
            refusal = Refusal(RefuseReason.UNKNOWN_SYMBOL, RejectReason.INVALID_SYMBOL, words)
            self._refuse(market, account, ref, refusal, b"")
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
        # The number of shares that are still open is what the answer says and what the order now is.
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
