"""MoldUDP64: numbered messages in datagrams, and the request for those that were lost.

A downstream packet is session (10), number of its first message (8), how many there are (2), and the messages, each
behind its length in two bytes. Without messages it is a heartbeat, with the count 65,535 the end of the session; the
number of either is the next message's. A request is the same twenty bytes: the first message wanted, and how many.

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
"""The count of a packet that says that nothing will follow."""
PAYLOAD_LIMIT_BYTES: Final = 1400
"""Largest size of a datagram, header included: below what any link carries in one piece."""

_HEAD: Final = struct.Struct(">10sQH")
_LENGTH: Final = struct.Struct(">H")
_SEQUENCE_MAX: Final = 2**64 - 1

HEADER_BYTES: Final = _HEAD.size
"""What a datagram holds beside its messages."""


class MoldPacket(msgspec.Struct, frozen=True):
    """One downstream packet."""

    session: str
    """At most 10 characters."""
    sequence: int
    """Number of its first message, or of the next one if it has none."""
    messages: tuple[bytes, ...] = ()
    """Empty in a heartbeat and at the end."""
    is_end: bool = False
    """The session is over."""

    @property
    def next_sequence(self) -> int:
        """Number of the message behind it."""
        return self.sequence + len(self.messages)


class MoldRequest(msgspec.Struct, frozen=True):
    """Asks for messages again."""

    session: str
    """At most 10 characters."""
    sequence: int
    """The first one."""
    count: int
    """How many, 1 to 65,535; fewer may come."""


def encode_head(session: str, sequence: int, count: int) -> bytes:
    """The head of a packet; raises `WireError` for what it cannot hold."""
    if len(session) > 10 or not session.isascii():
        raise WireError(f"expected a session of at most 10 ASCII characters, was {session!r}")
    if not 0 <= sequence <= _SEQUENCE_MAX or not 0 <= count <= END_OF_SESSION:
        raise WireError(f"expected a sequence of 64 bits and a count of 16, was {sequence} and {count}")
    return _HEAD.pack(session.encode("ascii").ljust(10), sequence, count)


def encode_packet(session: str, sequence: int, messages: Sequence[bytes] = ()) -> bytes:
    """A packet of these messages, without any a heartbeat; raises `WireError` if they are more than it can hold."""
    if len(messages) >= END_OF_SESSION:
        raise WireError(f"expected fewer than {END_OF_SESSION} messages in a packet, was {len(messages)}")
    if messages and not all(len(message) <= 0xFFFF for message in messages):
        raise WireError("expected messages of at most 65535 bytes")
    blocks = [part for message in messages for part in (_LENGTH.pack(len(message)), message)]
    return encode_head(session, sequence, len(messages)) + b"".join(blocks)


def encode_end(session: str, sequence: int) -> bytes:
    """The packet that ends a session."""
    return encode_head(session, sequence, END_OF_SESSION)


def parse_packet(data: bytes) -> MoldPacket:
    """A packet's record; raises `WireError` for a datagram that is none, or has more or less in it than it says."""
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
    """The datagram of a request."""
    return encode_head(request.session, request.sequence, request.count)


def parse_request(data: bytes) -> MoldRequest:
    """A request's record; raises `WireError` for a datagram that is none."""
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
