"""Sends messages again to receivers that lost them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger

from deltabook.wire.errors import WireError
from deltabook.wire.mold import PAYLOAD_LIMIT_BYTES, parse_request
from exchange_server.errors import DamagedStreamError
from exchange_server.nasdaq.mold.packing import datagrams
from exchange_server.readers import Timers
from exchange_server.tail import Records

__all__ = ["MoldRequestServer", "RequestLimits"]


class RequestLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of what is sent again. The address that a datagram comes from can be forged: this is also the most that
    the server can be made to send to somebody who never asked."""

    replies_per_s: int = 500
    """To one host, whatever its ports; so many may come at once."""
    all_replies_per_s: int = 5_000
    """To all hosts together."""
    hosts: int = 1_024
    """Remembered; the one that has not asked for longest is forgotten first."""


class _Bucket:
    """So many a second, and as many at once."""

    __slots__ = ("_filled_s", "_left", "_per_s", "next_number", "next_offset")

    def __init__(self, per_s: int, now_s: float) -> None:
        self._per_s = per_s
        self._left = float(per_s)
        self._filled_s = now_s
        self.next_number = 0
        """What this host will ask for next if it goes on where its last reply ended,"""
        self.next_offset = 0
        """and where that begins."""

    def fill(self, now_s: float) -> bool:
        """Return True if one may be taken."""
        self._left = min(self._per_s, self._left + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s
        return self._left >= 1

    def take(self) -> None:
        """Take one."""
        self._left -= 1


class MoldRequestServer(DatagramProtocol):
    """Answers a request with one datagram, of as many of the messages as fit into it, to the address it came from.

    What is no request, of another session, beyond the stream or beyond the limits is not answered at all.
    """

    _log = Logger()
    transport: Any

    def __init__(self, records: Records, session: str, clock: Timers, limits: RequestLimits) -> None:
        self._records = records
        self._session = session
        self._clock = clock
        self._limits = limits
        self._hosts: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(limits.all_replies_per_s, clock.seconds())
        self.replies = 0
        """Sent so far."""
        self.unanswered = 0
        """Datagrams that were not answered."""

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        """Answer one request."""
        reply = self._reply(datagram, addr[0])
        if not reply:
            self.unanswered += 1
            return
        try:
            self.transport.write(reply, addr)
        except OSError as error:
            self._log.info("mold: {peer} not answered: {error}", peer=f"{addr[0]}:{addr[1]}", error=error)
            self.unanswered += 1
        else:
            self.replies += 1

    def _reply(self, datagram: bytes, host: str) -> bytes:
        try:
            request = parse_request(datagram)
        except WireError:
            return b""
        if request.session.upper() != self._session.upper() or request.sequence >= self._records.next_number:
            return b""
        now_s = self._clock.seconds()
        bucket = self._bucket(host, now_s)
        if not self._all.fill(now_s) or not bucket.fill(now_s):
            return b""
        self._all.take()
        bucket.take()
        number = request.sequence
        try:
            offset = bucket.next_offset if number == bucket.next_number else self._records.offset_of(number)
            # A packet is one byte longer than its message with its length, so there is never too little.
            packets = self._records.read(offset, 2 * PAYLOAD_LIMIT_BYTES)
        except DamagedStreamError as error:
            self._log.error("{reason}", reason=str(error))
            return b""
        for reply, count, size in datagrams(packets, self._session, number, request.count):
            bucket.next_number, bucket.next_offset = number + count, offset + size
            return reply
        return b""

    def _bucket(self, host: str, now_s: float) -> _Bucket:
        bucket = self._hosts.get(host)
        if bucket is None:
            while len(self._hosts) >= self._limits.hosts:
                self._hosts.popitem(last=False)
            bucket = self._hosts[host] = _Bucket(self._limits.replies_per_s, now_s)
        self._hosts.move_to_end(host)
        return bucket
