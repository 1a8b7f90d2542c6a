"""Base of the private streams of both versions of OUCH."""

from __future__ import annotations

from abc import abstractmethod
from itertools import takewhile
from typing import Final

from exchange_server.matching.account import Account
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import Now, Teller, Touched
from exchange_server.nasdaq.ouch.scale import Scales

__all__ = ["BROKEN", "DAY_NS", "LIQUIDITY", "LIVE", "OuchTeller"]

DAY_NS: Final = 86_400 * 10**9
"""Timestamps are the rest of market time by it: nanoseconds since midnight UTC."""
BROKEN: Final = b"S"
"""Reason of a broken trade: declared by the operator of the exchange."""
LIVE: Final = ord("L")
"""State of an order that may still do something …"""
DEAD: Final = ord("D")
"""… and of one of which nothing more will be heard."""
LIQUIDITY: Final = {flag: ord(flag) for flag in "AJROCH"}


class OuchTeller(Teller):
    """Keeps the sequenced packets of one account until they are taken, one `bytes` each.

    A message costs some tenths of a microsecond: it is one pack of the order's numbers with `Order.echo`, in which the
    fields of the request already lie as the answer says them again.
    """

    __slots__ = ("_entered", "_entered_ns", "_midnight_ns", "_now", "_packets", "_scales", "_touched", "account")

    def __init__(self, account: Account, now: Now, touched: Touched, scales: Scales) -> None:
        self.account = account
        self._now = now
        self._touched = touched
        self._scales = scales.by_locate
        self._midnight_ns = 0
        self._packets: list[bytes] = []
        self._entered = b""
        self._entered_ns = 0

    def _new_day(self) -> int:
        """The timestamp of now, when that of the midnight before was too long ago."""
        stamp = self._now.time_ns % DAY_NS
        self._midnight_ns = self._now.time_ns - stamp
        return stamp

    def _say(self, packet: bytes) -> None:
        packets = self._packets
        if not packets:
            self._touched.append(self)
        packets.append(packet)

    def take(self) -> tuple[bytes, int]:
        """The packets since the last call, and how many they are."""
        packets = self._packets
        count = len(packets)
        data = b"".join(packets)
        packets.clear()
        return data, count

    def triggered(self, order: Order) -> None:
        """OUCH has no stop orders."""

    def _accepted_dead(self, order: Order) -> bool:
        """Changes what was said last into the acceptance of a dead order; False if it was not this order's."""
        packets = self._packets
        if not packets or not self._takes(packets[-1], order):
            return False
        packet = packets[-1]
        state = self._state_at(packet)
        packets[-1] = packet[:state] + bytes((DEAD,)) + packet[state + 1 :]
        return True

    def _flag(self, order: Order, stamp: int) -> bytes:
        """R of the order that the request of this time entered, A of one that was there.

        One request may end any number of orders: what it entered is looked for once.
        """
        if self._entered_ns != self._now.time_ns:
            now = stamp.to_bytes(8)
            recent = takewhile(lambda packet: packet[4:12] == now, reversed(self._packets))
            self._entered = next((packet for packet in recent if packet[3:4] in b"AU"), b"")
            self._entered_ns = self._now.time_ns
        return b"R" if self._entered and self._takes(self._entered, order) else b"A"

    @staticmethod
    @abstractmethod
    def _takes(packet: bytes, order: Order) -> bool:
        """Return True if a packet says that an order was accepted or is a replacement."""

    @staticmethod
    @abstractmethod
    def _state_at(packet: bytes) -> int:
        """Return the offset of the order's state in such a packet."""
