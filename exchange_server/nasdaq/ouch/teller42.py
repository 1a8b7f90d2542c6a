"""Private stream of an account of OUCH 4.2."""

from __future__ import annotations

import struct
from typing import Final

from exchange_server.matching.inputs import Party
from exchange_server.matching.order import Order
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.nasdaq.ouch.reasons import CANCELED_42, REJECTED_42, Rejection
from exchange_server.nasdaq.ouch.teller import BROKEN, DAY_NS, LIQUIDITY, LIVE, OuchTeller

__all__ = ["Teller42"]

# Each is a whole packet: its length, its type S, and the message. `Order.echo` is Enter Order behind its type byte up
# to the cross type: its first 40 and its last 7 bytes stand in Accepted and Replaced in one piece each.
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

    An order whose minimum quantity cannot be executed is accepted dead (state D), and that is all that is said of it.
    """

    __slots__ = ()

    def accepted(self, order: Order) -> None:
        """A."""
        packets = self._packets
        if not packets:
            self._touched.append(self)
        echo = order.echo
        packets.append(_ACCEPTED(67, b"SA", self._now.time_ns % DAY_NS, echo, order.order_id, echo[40:], LIVE, b" "))

    def replaced(self, old: Order, order: Order) -> None:
        """U."""
        echo, stamp = order.echo, self._now.time_ns % DAY_NS
        self._say(_REPLACED(81, b"SU", stamp, echo, order.order_id, echo[40:], LIVE, old.ref, b" "))

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None:
        """E."""
        packets = self._packets
        if not packets:
            self._touched.append(self)
        _, tick, lot = self._scales[order.locate]
        stamp, flag, price = self._now.time_ns % DAY_NS, LIQUIDITY[liquidity], price_ticks * tick
        price = min(price, _LARGEST_PRICE)  # the other side's protocol may have a higher one
        packets.append(_EXECUTED(41, b"SE", stamp, order.ref, volume * lot, price, flag, match_id))

    def busted(self, party: Party, match_id: int) -> None:
        """B."""
        self._say(_BROKEN(33, b"SB", self._now.time_ns % DAY_NS, party.ref, match_id, BROKEN))

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None:
        """C, or the order's acceptance becomes that of a dead one."""
        del ref
        if reason is CancelReason.MINIMUM and self._accepted_dead(order):
            return
        shares = volume * self._scales[order.locate][2]
        self._say(_CANCELED(29, b"SC", self._now.time_ns % DAY_NS, order.ref, shares, CANCELED_42[reason]))

    def prevented(self, order: Order, volume: int, prevented: int, price_ticks: int) -> None:
        """D."""
        _, tick, lot = self._scales[order.locate]
        stamp = self._now.time_ns % DAY_NS
        price = min(price_ticks * tick, _LARGEST_PRICE)
        flag = self._flag(order, stamp)
        self._say(_PREVENTED(38, b"SD", stamp, order.ref, volume * lot, b"Q", prevented * lot, price, flag))

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """J."""
        del detail
        own = item.code if isinstance(item, Rejection) else None
        code = REJECTED_42[reason] if own is None else own
        self._say(_REJECTED(25, b"SJ", self._now.time_ns % DAY_NS, ref, code))

    def modified(self, order: Order) -> None:
        """M."""
        shares = (order.volume + order.reserve) * self._scales[order.locate][2]
        self._say(_MODIFIED(29, b"SM", self._now.time_ns % DAY_NS, order.ref, order.echo[14:15], shares))

    def refreshed(self, order: Order) -> None:
        """OUCH 4.2 has no icebergs."""

    def system(self, code: str) -> None:
        """S."""
        self._say(_SYSTEM(11, b"SS", self._now.time_ns % DAY_NS, ord(code)))

    @staticmethod
    def _takes(packet: bytes, order: Order) -> bool:
        return packet[3:4] in b"AU" and packet[12:26] == order.ref

    @staticmethod
    def _state_at(packet: bytes) -> int:
        del packet
        return _STATE
