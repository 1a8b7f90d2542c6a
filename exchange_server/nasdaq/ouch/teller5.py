"""Private stream of an account of OUCH 5.0."""

from __future__ import annotations

import struct
from typing import Final

from deltabook.wire import ouch5
from deltabook.wire.ouch5 import Option
from exchange_server.matching.inputs import Party
from exchange_server.matching.order import Order
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.nasdaq.ouch.reasons import CANCELED_5, REJECTED_5, Rejection
from exchange_server.nasdaq.ouch.teller import BROKEN, DAY_NS, LIQUIDITY, OuchTeller

__all__ = ["ECHO_BYTES", "LAST_REF", "Teller5"]

ECHO_BYTES: Final = 47
"""Bytes of an `Order.echo` without options, which Accepted and Replaced repeat, in two pieces: 27 bytes in front
of the order's reference number (number, side, quantity, symbol, price, time in force, display) and 20 behind it
(capacity, sweep, cross, state, the client's id, length of the options)."""

# Each is a whole packet: its length, its type S, and the message.
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
"""The largest number of an order."""
_LARGEST_PRICE: Final = 2**64 - 1

_STRATEGIES: Final = {"allow": b" ", "newest": b"N", "oldest": b"O", "both": b"B", "decrement": b"D"}


class Teller5(OuchTeller):
    """Packets of OUCH 5.0.

    * An order that has options in its request has them said again.
    * One whose minimum quantity cannot be executed is accepted dead (state D), and that is all that is said of it.
    * An iceberg that displays its next part is restated (R), with the number that the feed has for it now.
    """

    __slots__ = ()

    def accepted(self, order: Order) -> None:
        """A."""
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
        """U."""
        echo = order.echo
        assert isinstance(old.ref, int)
        stamp = self._now.time_ns % DAY_NS
        head = _REPLACED(len(echo) + 22, b"SU", stamp, old.ref, echo, order.order_id, echo[27:])
        self._say(head + echo[ECHO_BYTES:])

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        """E."""
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
        except struct.error:  # a price that the other side's protocol can say and this one cannot
            packet = _EXECUTED(b"\x00\x25SE", stamp, order.ref, shares, _LARGEST_PRICE, flag, match_id)
        packets.append(packet)

    def busted(self, party: Party, match_id: int) -> None:
        """B."""
        client_id = party.echo[31:45].ljust(14)
        self._say(_BROKEN(37, b"SB", self._now.time_ns % DAY_NS, party.ref, match_id, BROKEN, client_id))

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """C, or the order's acceptance becomes that of a dead one."""
        del ref
        if reason is CancelReason.MINIMUM and self._accepted_dead(order):
            return
        packets = self._packets
        if not packets:
            self._touched.append(self)
        shares = volume * self._scales[order.locate][2]
        packets.append(_CANCELED(19, b"SC", self._now.time_ns % DAY_NS, order.ref, shares, CANCELED_5[reason]))

    def prevented(self, order: Order, volume: int, prevented: int, price_ticks: int) -> None:
        """D."""
        _, tick, lot = self._scales[order.locate]
        stamp = self._now.time_ns % DAY_NS
        price = min(price_ticks * tick, _LARGEST_PRICE)
        flag = self._flag(order, stamp)
        strategy = _STRATEGIES[self.account.self_trade]
        self._say(_PREVENTED(33, b"SD", stamp, order.ref, volume * lot, b"Q", prevented * lot, price, flag, strategy))

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """J."""
        del detail
        code, echo = REJECTED_5[reason], b""
        if isinstance(item, Rejection):
            code, echo = code if item.code is None else item.code, item.echo
        elif isinstance(item, Order):
            echo = item.echo
        self._say(_REJECTED(30, b"SJ", self._now.time_ns % DAY_NS, ref, code, echo[31:45].ljust(14)))

    def modified(self, order: Order) -> None:
        """M."""
        shares = (order.volume + order.reserve) * self._scales[order.locate][2]
        self._say(_MODIFIED(19, b"SM", self._now.time_ns % DAY_NS, order.ref, order.echo[4:5], shares))

    def refreshed(self, order: Order) -> None:
        """R."""
        shares = order.volume * self._scales[order.locate][2]
        options = ouch5.encode_options(
            {Option.DISPLAY_QUANTITY: shares, Option.SECONDARY_ORDER_REFERENCE: order.feed_id}
        )
        head = _RESTATED(15 + len(options), b"SR", self._now.time_ns % DAY_NS, order.ref, b"R")
        self._say(head + options)

    def system(self, code: str) -> None:
        """S."""
        self._say(_SYSTEM(11, b"SS", self._now.time_ns % DAY_NS, ord(code)))

    def mass_canceled(self, ref: int, firm: bytes, stock: bytes) -> None:
        """X: a mass cancel was carried out; the orders that it ended come before it, each with its C."""
        self._say(_MASS_CANCELED(28, b"SX", self._now.time_ns % DAY_NS, ref, firm, stock))

    def queried(self) -> None:
        """Q: the number that the account's next order must have at least; the last one there is once that is used."""
        next_ref = min(self.account.last_ref + 1, LAST_REF)
        self._say(_QUERIED(14, b"SQ", self._now.time_ns % DAY_NS, next_ref))

    @staticmethod
    def _takes(packet: bytes, order: Order) -> bool:
        at = 12 if packet[3:4] == b"A" else 16 if packet[3:4] == b"U" else 0
        return at > 0 and int.from_bytes(packet[at : at + 4]) == order.ref

    @staticmethod
    def _state_at(packet: bytes) -> int:
        return 50 if packet[3:4] == b"A" else 54
