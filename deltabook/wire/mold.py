"""MoldUDP64: numbered messages in datagrams, and the request for lost messages.

A downstream packet consists of the session (10 bytes), the number of its first message (8), the number of messages (2),
and the messages, each after its length in two bytes. A packet without messages is a heartbeat, and one with the count
65,535 is the end of the session; both have the number of the next message. A request has the same twenty bytes: the
session, the first message and the number of messages requested.

>>> packet = parse_packet(encode_packet("S1", 7, [b"one", b"two"]))
>>> packet.sequence, packet.messages, packet.next_sequence
(7, (b'one', b'two'), 9)
>>> parse_request(encode_request(MoldRequest("S1", 9, 2)))
MoldRequest(session='S1', sequence=9, count=2)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from deltabook.wire.errors import WireError

__all__ = [
    "END_OF_SESSION",
    "HEADER_BYTES",
    "PAYLOAD_LIMIT_BYTES",
    "MoldPacket",
    "MoldRequest",
    "encode_end",
    "encode_head",
    "encode_packet",
    "encode_request",
    "parse_packet",
    "parse_request",
]

END_OF_SESSION: Final = 0xFFFF
"""Count of the packet after which nothing follows."""
PAYLOAD_LIMIT_BYTES: Final = 1400
"""Largest size of a datagram in bytes, header included, so that usual networks do not fragment it."""

_HEAD: Final = struct.Struct(">10sQH")
_LENGTH: Final = struct.Struct(">H")
_SEQUENCE_MAX: Final = 2**64 - 1

HEADER_BYTES: Final = _HEAD.size
"""Size in bytes of a datagram without messages."""


class MoldPacket(msgspec.Struct, frozen=True):
    """One downstream packet."""

    session: str
    """Session, at most 10 characters."""
    sequence: int
    """Number of the first message; in a packet without messages, number of the next message."""
    messages: tuple[bytes, ...] = ()
    """Messages; empty in a heartbeat and at the end."""
    is_end: bool = False
    """True if the session is over."""

    @property
    def next_sequence(self) -> int:
        """Number of the message after the packet."""
        return self.sequence + len(self.messages)


class MoldRequest(msgspec.Struct, frozen=True):
    """Request to send messages again."""

    session: str
    """Session, at most 10 characters."""
    sequence: int
    """Number of the first message."""
    count: int
    """Number of messages, 1 to 65,535; fewer may be sent."""


def encode_head(session: str, sequence: int, count: int) -> bytes:
    """Return the head of a packet; raise `WireError` for values that it cannot hold."""
    if len(session) > 10 or not session.isascii():
        raise WireError(f"expected a session of at most 10 ASCII characters, was {session!r}")
    if not 0 <= sequence <= _SEQUENCE_MAX or not 0 <= count <= END_OF_SESSION:
        raise WireError(f"expected a sequence of 64 bits and a count of 16, was {sequence} and {count}")
    return _HEAD.pack(session.encode("ascii").ljust(10), sequence, count)


def encode_packet(session: str, sequence: int, messages: Sequence[bytes] = ()) -> bytes:
    """Return a packet of these messages, a heartbeat if there are none.

    Raise `WireError` for too many messages, or for one that is too long.
    """
    if len(messages) >= END_OF_SESSION:
        raise WireError(f"expected fewer than {END_OF_SESSION} messages in a packet, was {len(messages)}")
    if messages and not all(len(message) <= 0xFFFF for message in messages):
        raise WireError("expected messages of at most 65535 bytes")
    blocks = [part for message in messages for part in (_LENGTH.pack(len(message)), message)]
    return encode_head(session, sequence, len(messages)) + b"".join(blocks)


def encode_end(session: str, sequence: int) -> bytes:
    """Return the packet that ends a session."""
    return encode_head(session, sequence, END_OF_SESSION)


def parse_packet(data: bytes) -> MoldPacket:
    """Return a packet's record; raise `WireError` for an invalid datagram, and for one whose length does not fit its
    header.
    """
    if len(data) < HEADER_BYTES:
        raise WireError(f"expected a packet of {HEADER_BYTES} bytes or more, was {len(data)}")
    raw_session, sequence, count = _HEAD.unpack_from(data)
    session = _session(raw_session)
    if count == END_OF_SESSION:
        count, is_end = 0, True
    else:
        is_end = False
    messages: list[bytes] = []
    at = HEADER_BYTES
    for _ in range(count):
        start = at + 2
        at = start + _LENGTH.unpack_from(data, at)[0] if start <= len(data) else len(data) + 1
        if at > len(data):
            raise WireError(f"expected {count} messages in a packet of {len(data)} bytes, was {len(messages)}")
        messages.append(data[start:at])
    if at != len(data):
        raise WireError(f"expected {count} messages in {at} bytes, was a packet of {len(data)}")
    return MoldPacket(session, sequence, tuple(messages), is_end)


def encode_request(request: MoldRequest) -> bytes:
    """Return the datagram of a request."""
    return encode_head(request.session, request.sequence, request.count)


def parse_request(data: bytes) -> MoldRequest:
    """Return a request's record; raise `WireError` for an invalid datagram."""
    if len(data) != HEADER_BYTES:
        raise WireError(f"expected a request of {HEADER_BYTES} bytes, was {len(data)}")
    raw_session, sequence, count = _HEAD.unpack(data)
    if not sequence or not count:
        raise WireError(f"expected a sequence and a count of 1 or more, was {sequence} and {count}")
    return MoldRequest(_session(raw_session), sequence, count)


def _session(data: bytes) -> str:
    try:
        return data.decode("ascii").strip(" \0")
    except UnicodeDecodeError:
        raise WireError(f"expected a session in ASCII, was {data!r}") from None
