"""The feed as MoldUDP64: datagrams to a group or an address, and a port that resends lost messages.

```
the exchange's stream "itch" ──▶ MoldSender ──▶ group:port       lost datagrams ──▶ MoldRequestServer ──▶ sender
          └──────────────────────── `datagrams`: packets of the stream as datagrams ──┘
```
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger

from deltabook.wire.errors import WireError
from deltabook.wire.mold import HEADER_BYTES, PAYLOAD_LIMIT_BYTES, encode_end, encode_head, encode_packet, parse_request
from exchange_server.errors import DamagedStreamError
from exchange_server.readers import Count, Records, SequencedStream, Timers

__all__ = ["MoldRequestServer", "MoldSender", "RequestLimits", "datagrams", "framed_messages"]


def framed_messages(packets: bytes) -> Iterator[bytes]:
    """Yield the messages of whole sequenced packets, each with its two-byte length.

    >>> list(framed_messages(b"\\0\\4Sone\\0\\4Stwo"))
    [b'\\x00\\x03one', b'\\x00\\x03two']
    """
    at, size = 0, len(packets)
    while at < size:
        length = packets[at] << 8 | packets[at + 1]
        end = at + 2 + length
        # A packet's length counts its type byte; a message's length does not.
        yield (length - 1).to_bytes(2, "big") + packets[at + 3 : end]
        at = end


_ROOM_BYTES: Final = PAYLOAD_LIMIT_BYTES - HEADER_BYTES


def datagrams(packets: bytes, session: str, sequence: int, most: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Yield the messages of whole sequenced packets as datagrams.

    Each datagram is yielded with its number of messages, and with the number of bytes that these messages have in
    ``packets``.

    ``most`` is the largest total number of messages, 0 for any number. A message that is longer than a datagram should
    be is sent as a datagram of its own, since no message can be left out.
    """
    blocks: list[bytes] = []
    room = _ROOM_BYTES
    for block in islice(framed_messages(packets), most or None):
        if len(block) > room and blocks:
            yield _datagram(blocks, session, sequence)
            sequence += len(blocks)
            blocks, room = [], _ROOM_BYTES
        blocks.append(block)
        room -= len(block)
    if blocks:
        yield _datagram(blocks, session, sequence)


def _datagram(blocks: list[bytes], session: str, sequence: int) -> tuple[bytes, int, int]:
    data = b"".join(blocks)
    # A packet has one byte more than its message: the type.
    return encode_head(session, sequence, len(blocks)) + data, len(blocks), len(data) + len(blocks)


_TURN_BYTES: Final = 128 * 1024
"""Number of bytes of the stream sent in one turn of the reactor; receivers on this machine can read between turns."""


def _is_multicast(host: str) -> bool:
    return 224 <= int(host.partition(".")[0]) <= 239


class MoldSender(DatagramProtocol):
    """Sends every message that is appended to a stream after the sender's start, once, to a group or one address.

    The sender never waits for a receiver, which can request lost datagrams again (`MoldRequestServer`). A heartbeat
    follows a second of silence. After the last message of an ended session, heartbeats are replaced by end of session.
    Damaged messages are skipped and logged: receivers notice the gap, and their requests for it are not answered.
    """

    _log = Logger()
    transport: Any

    def __init__(
        self,
        stream: SequencedStream,
        session: str,
        clock: Timers,
        destination: tuple[str, int],
        *,
        is_over: Callable[[], bool] = lambda: False,
        interface: str = "127.0.0.1",
        silence_s: float = 1.0,
        multicast_ttl: int = 1,
    ) -> None:
        """Create a sender.

        ``destination`` is an IPv4 address or group, and its port; ``interface`` is the address of this machine that
        sends to a group.
        """
        self._stream = stream
        self._session = session
        self._clock = clock
        self._destination = destination
        self._is_over = is_over
        self._interface = interface
        self._silence_s = silence_s
        self._multicast_ttl = multicast_ttl
        self._number, self._offset = 1, 0
        self._sent_s = float("-inf")
        self._is_skipping = False
        """True while the newest messages are damaged."""
        self._send_call: Any = None
        self._beat_call: Any = None
        self.datagrams = 0
        """Number of datagrams sent so far, heartbeats included."""
        self.lost = 0
        """Number of datagrams that this machine's network did not accept."""

    def startProtocol(self) -> None:
        """Start sending."""
        if _is_multicast(self._destination[0]):
            self.transport.setOutgoingInterface(self._interface)
            self.transport.setTTL(self._multicast_ttl)
            self.transport.setLoopbackMode(True)
        self._number, self._offset = self._stream.records.next_number, self._stream.records.size_bytes
        self._stream.on_append.append(self._news)
        self._beat()

    def stopProtocol(self) -> None:
        """Stop sending."""
        if self._news in self._stream.on_append:
            self._stream.on_append.remove(self._news)
        for call in (self._send_call, self._beat_call):
            if call is not None and call.active():
                call.cancel()

    def close(self) -> None:
        """Send the rest of the stream."""
        while self._offset < self._stream.records.size_bytes:
            self._send()

    def _news(self, data: bytes) -> None:
        del data
        if self._send_call is None:
            self._send_call = self._clock.callLater(0, self._send)

    def _send(self) -> None:
        if self._send_call is not None and self._send_call.active():
            self._send_call.cancel()
        self._send_call = None
        records = self._stream.records
        try:
            packets = records.read(self._offset, _TURN_BYTES)
        except DamagedStreamError as error:
            if not self._is_skipping:
                self._log.error("{reason}", reason=str(error))
            self._number, self._offset, self._is_skipping = records.next_number, records.size_bytes, True
            return
        self._is_skipping = False
        for datagram, count, size in datagrams(packets, self._session, self._number):
            self._number += count
            self._offset += size
            self._write(datagram)
        if self._offset < records.size_bytes:
            self._send_call = self._clock.callLater(0, self._send)

    def _beat(self) -> None:
        self._beat_call = self._clock.callLater(self._silence_s / 4, self._beat)
        if self._send_call is None and self._clock.seconds() - self._sent_s >= self._silence_s:
            self._write(
                encode_end(self._session, self._number)
                if self._is_over()
                else encode_packet(self._session, self._number)
            )

    def _write(self, datagram: bytes) -> None:
        self._sent_s = self._clock.seconds()
        try:
            self.transport.write(datagram, self._destination)
        except OSError as error:
            self.lost += 1
            if self.lost & (self.lost - 1) == 0:  # the 1st, 2nd, 4th, 8th …: a full queue would fill the log too
                self._log.warn("mold: {lost} datagrams not sent: {error}", lost=self.lost, error=error)
        else:
            self.datagrams += 1


class RequestLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the replies to requests.

    The source address of a datagram can be forged: the limits also bound the replies to a host that sent no request.
    """

    replies_per_s: Count = 500
    """Largest number of replies per second to one host, whatever its ports, and in one burst."""
    all_replies_per_s: Count = 5_000
    """Largest number of replies per second to all hosts together."""
    hosts: Count = 1_024
    """Largest number of remembered hosts; the host with the oldest request is forgotten first."""


class _Bucket:
    """Token bucket: allows ``per_s`` replies per second and in one burst."""

    __slots__ = ("_filled_s", "_left", "_per_s", "next_number", "next_offset")

    def __init__(self, per_s: int, now_s: float) -> None:
        self._per_s = per_s
        self._left = float(per_s)
        self._filled_s = now_s
        self.next_number = 0
        """Number of the first message after the latest reply; the host's next request probably begins with it."""
        self.next_offset = 0
        """Offset of that message in the stream."""

    def fill(self, now_s: float) -> bool:
        """Refill the bucket; return True if it has a token."""
        self._left = min(self._per_s, self._left + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s
        return self._left >= 1

    def take(self) -> None:
        """Take one token."""
        self._left -= 1


class MoldRequestServer(DatagramProtocol):
    """Answers a request with one datagram of as many messages as fit, sent to the request's source address.

    A datagram is not answered if it is invalid, for another session, or beyond the stream or the limits.
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
        """Number of replies sent so far."""
        self.unanswered = 0
        """Number of datagrams that were not answered."""

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
            # A packet is one byte longer than its message in a datagram, so twice a datagram's payload always suffices.
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
