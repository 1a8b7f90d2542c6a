"""SoupBinTCP 3.00, 4.00 and 4.10: packets that carry messages over TCP, and the login with a reader's position.

A packet is two big-endian bytes of length, one byte of type, and ``length - 1`` bytes of payload. Sequenced messages
carry no number: both ends count the packets `SEQUENCED`, and the answer to a login has the number of the first packet.

>>> login = encode_login(LoginRequest("demo", "secret", "S1", 42))
>>> splitter = PacketSplitter()
>>> [parse_login(packet) for packet in splitter.split(login)]
[LoginRequest(username='demo', password='secret', session='S1', sequence=42, heartbeat_ms=None)]
"""

from __future__ import annotations

import struct
from typing import Final, Literal, NamedTuple

import msgspec

from deltabook.wire.errors import WireError

__all__ = [
    "ACCEPTED",
    "CLIENT_HEARTBEAT",
    "CLIENT_PACKET_LIMIT_BYTES",
    "DEBUG",
    "END_OF_SESSION",
    "LOGIN",
    "LOGOUT",
    "NOT_AUTHORIZED",
    "NO_SESSION",
    "PACKET_LIMIT_BYTES",
    "REJECTED",
    "SEQUENCED",
    "SERVER_HEARTBEAT",
    "UNSEQUENCED",
    "LoginAccepted",
    "LoginRejected",
    "LoginRequest",
    "Packet",
    "PacketSplitter",
    "encode_login",
    "encode_login_reply",
    "encode_packet",
    "parse_login",
    "parse_login_reply",
]

DEBUG: Final = b"+"
"""Packet type of free text, from either side; it has no effect."""
ACCEPTED: Final = b"A"
"""Packet type of the server: the login is accepted."""
REJECTED: Final = b"J"
"""Packet type of the server: the login is rejected, and the connection is closed."""
SEQUENCED: Final = b"S"
"""Packet type of the server: one message, counted."""
UNSEQUENCED: Final = b"U"
"""Packet type of either side: one message, not counted."""
SERVER_HEARTBEAT: Final = b"H"
"""Packet type of the server: heartbeat, after a second of silence; this exchange also sends one after every burst."""
END_OF_SESSION: Final = b"Z"
"""Packet type of the server: the session is over and cannot be joined any more."""
LOGIN: Final = b"L"
"""Packet type of the client: its first packet."""
CLIENT_HEARTBEAT: Final = b"R"
"""Packet type of the client: nothing was sent for a second."""
LOGOUT: Final = b"O"
"""Packet type of the client: close the connection."""

NOT_AUTHORIZED: Final = "A"
NO_SESSION: Final = "S"

PACKET_LIMIT_BYTES: Final = 2 + 65_535
"""Greatest size of a packet in bytes."""
CLIENT_PACKET_LIMIT_BYTES: Final = 2 + 1024
"""Greatest size in bytes of a packet that a server accepts: clients send logins, heartbeats and single orders."""

_HEAD: Final = struct.Struct(">H")
_LOGIN: Final = struct.Struct(">6s10s10s20s")
_LOGIN_WITH_TIMEOUT: Final = struct.Struct(">6s10s10s20s5s")
_ACCEPTED: Final = struct.Struct(">10s20s")
_INT64_MAX: Final = 2**63 - 1
_MOST_IN_LOGIN: Final = 10**20 - 1
"""Largest number that fits a login's field; the server answers that no message has such a number."""
_BLANKS: Final = " \0"


class Packet(NamedTuple):
    """One packet, as a tuple, since a stream has very many packets."""

    type: bytes
    """Letter of the packet's type."""
    payload: bytes
    """Bytes after the type."""


class LoginRequest(msgspec.Struct, frozen=True):
    """A client's first packet."""

    username: str = ""
    """User name, at most 6 characters, case-insensitive."""
    password: str = ""
    """Password, at most 10 characters."""
    session: str = ""
    """Session to join, at most 10 characters; empty for the current one."""
    sequence: int = 1
    """Number of the first message requested, 0 for messages from now on."""
    heartbeat_ms: int | None = None
    """Milliseconds after which the server closes a silent connection (4.10); None in earlier versions."""


class LoginAccepted(msgspec.Struct, frozen=True):
    """The answer to an accepted login."""

    session: str
    """The session that was joined."""
    sequence: int
    """Number of the next sequenced message."""


class LoginRejected(msgspec.Struct, frozen=True):
    """The answer to a rejected login."""

    code: Literal["A", "S"]
    """Code of the reason: `NOT_AUTHORIZED` or `NO_SESSION`."""


def encode_packet(type_: bytes, payload: bytes = b"") -> bytes:
    """Return a packet; raise `WireError` for a payload that is too long.

    >>> encode_packet(SERVER_HEARTBEAT)
    b'\\x00\\x01H'
    """
    if len(payload) + 1 > 65_535:
        raise WireError(f"expected a payload of at most 65534 bytes, was {len(payload)}")
    return _HEAD.pack(len(payload) + 1) + type_ + payload


class PacketSplitter:
    """Splits a stream of bytes into packets; stores at most one incomplete packet.

    The length of a packet is checked as soon as it has arrived, so that a peer with another protocol is detected at its
    first bytes. After a `WireError` the splitter must not be used again.
    """

    __slots__ = ("_limit_bytes", "_partial")

    def __init__(self, limit_bytes: int = PACKET_LIMIT_BYTES) -> None:
        """Make a splitter; ``limit_bytes`` is the longest accepted packet, its length included."""
        self._partial = b""
        self._limit_bytes = limit_bytes

    @property
    def partial(self) -> bytes:
        """The beginning of an incomplete packet."""
        return self._partial

    def split(self, data: bytes) -> list[Packet]:
        """Return the packets that `data` completes; raise `WireError` for an invalid length."""
        data = self._partial + data if self._partial else data
        packets: list[Packet] = []
        at, size = 0, len(data)
        while size - at >= 2:
            length = data[at] << 8 | data[at + 1]
            self._check(length, data[at : at + 16])
            if size - at < 2 + length:
                break
            packets.append(Packet(data[at + 2 : at + 3], data[at + 3 : at + 2 + length]))
            at += 2 + length
        self._partial = data[at:]
        return packets

    def first(self, data: bytes) -> tuple[Packet | None, bytes]:
        """Return the first packet and the bytes after it; None and no bytes while the packet is incomplete.

        Raise `WireError` for an invalid length. This is for a caller that reads one packet itself and passes all later
        bytes on to another reader.
        """
        data = self._partial + data
        self._partial = b""
        if len(data) >= 2:
            length = data[0] << 8 | data[1]
            self._check(length, data[:16])
            if len(data) >= 2 + length:
                return Packet(data[2:3], data[3 : 2 + length]), data[2 + length :]
        self._partial = data
        return None, b""

    def _check(self, length: int, begin: bytes) -> None:
        if not length or 2 + length > self._limit_bytes:
            raise WireError(f"expected a packet of 3 to {self._limit_bytes} bytes, was {2 + length}, in {begin!r}")


def encode_login(login: LoginRequest) -> bytes:
    """Return the packet of a login: in the form of 4.10 if the login has a time-out, otherwise in the form of 3.00 and
    4.00.

    Raise `WireError` for values that do not fit.
    """
    if not 0 <= login.sequence <= _INT64_MAX:
        raise WireError(f"expected a sequence from 0 to {_INT64_MAX}, was {login.sequence}")
    payload = (
        _alpha("username", login.username, 6)
        + _alpha("password", login.password, 10)
        + _alpha("session", login.session, 10)
        + str(login.sequence).rjust(20).encode("ascii")
    )
    if login.heartbeat_ms is not None:
        if not 0 <= login.heartbeat_ms <= 99_999:
            raise WireError(f"expected a heartbeat time-out of 0 to 99999 ms, was {login.heartbeat_ms}")
        payload += str(login.heartbeat_ms).rjust(5).encode("ascii")
    return encode_packet(LOGIN, payload)


def parse_login(packet: Packet) -> LoginRequest:
    """Return a login's record; raise `WireError` for another packet.

    Clients justify fields differently: blanks and zero bytes on either side are removed. A blank sequence is 1.
    """
    if packet.type != LOGIN:
        raise WireError(f"expected a login request {LOGIN!r}, was a packet {packet.type!r}")
    timeout: int | None = None
    if len(packet.payload) == _LOGIN.size:
        username, password, session, sequence = _LOGIN.unpack(packet.payload)
    elif len(packet.payload) == _LOGIN_WITH_TIMEOUT.size:
        username, password, session, sequence, last = _LOGIN_WITH_TIMEOUT.unpack(packet.payload)
        timeout = _number("heartbeat time-out", last, 0)
    else:
        raise WireError(
            f"expected {_LOGIN.size} or {_LOGIN_WITH_TIMEOUT.size} bytes of a login, was {len(packet.payload)}"
        )
    return LoginRequest(
        username=_text("username", username),
        password=_text("password", password),
        session=_text("session", session),
        sequence=_number("sequence", sequence, 1, _MOST_IN_LOGIN),
        heartbeat_ms=timeout,
    )


def encode_login_reply(reply: LoginAccepted | LoginRejected) -> bytes:
    """Return the packet of an answer."""
    if isinstance(reply, LoginRejected):
        return encode_packet(REJECTED, reply.code.encode("ascii"))
    session = _alpha("session", reply.session, 10).strip(b" ").rjust(10)
    return encode_packet(ACCEPTED, session + str(reply.sequence).rjust(20).encode("ascii"))


def parse_login_reply(packet: Packet) -> LoginAccepted | LoginRejected:
    """Return an answer's record; raise `WireError` for another packet."""
    if packet.type == ACCEPTED and len(packet.payload) == _ACCEPTED.size:
        session, sequence = _ACCEPTED.unpack(packet.payload)
        return LoginAccepted(_text("session", session), _number("sequence", sequence, 1))
    if packet.type == REJECTED and packet.payload in {b"A", b"S"}:
        return LoginRejected("A" if packet.payload == b"A" else "S")
    raise WireError(
        f"expected a login's answer, accepted (A, {_ACCEPTED.size} bytes) or rejected (J, A or S), "
        f"was {packet.type!r} with {packet.payload[:40]!r}"
    )


def _alpha(name: str, value: str, width: int) -> bytes:
    if len(value) > width or not value.isascii():
        raise WireError(f"expected a {name} of at most {width} ASCII characters, was {value!r}")
    return value.ljust(width).encode("ascii")


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("ascii").strip(_BLANKS)
    except UnicodeDecodeError:
        raise WireError(f"expected a {name} in ASCII, was {data!r}") from None


def _number(name: str, data: bytes, blank: int, most: int = _INT64_MAX) -> int:
    text = _text(name, data)
    if not text:
        return blank
    if not text.isdigit():
        raise WireError(f"expected a {name} in decimal digits, was {data!r}")
    if (number := int(text)) > most:
        raise WireError(f"expected a {name} up to {most}, was {number}")
    return number
