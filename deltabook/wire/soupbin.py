"""SoupBinTCP 3.00, 4.00 and 4.10: packets that carry messages over TCP, and the login that places a reader.

A packet is two big-endian bytes of length, one byte of type, and ``length - 1`` bytes of payload. Sequenced messages
carry no number: both ends count the packets `SEQUENCED`, and the answer to a login says the number of the first.

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
"""Free text, from either side; has no effect."""
ACCEPTED: Final = b"A"
"""Server: the login holds."""
REJECTED: Final = b"J"
"""Server: it does not; the connection is closed."""
SEQUENCED: Final = b"S"
"""Server: one message, counted."""
UNSEQUENCED: Final = b"U"
"""Either side: one message, not counted."""
SERVER_HEARTBEAT: Final = b"H"
"""Server: nothing was sent for a second."""
END_OF_SESSION: Final = b"Z"
"""Server: the session is over and can be joined no more."""
LOGIN: Final = b"L"
"""Client: its first packet."""
CLIENT_HEARTBEAT: Final = b"R"
"""Client: nothing was sent for a second."""
LOGOUT: Final = b"O"
"""Client: close the connection."""

NOT_AUTHORIZED: Final = "A"
NO_SESSION: Final = "S"

PACKET_LIMIT_BYTES: Final = 2 + 65_535
"""The longest packet there can be."""
CLIENT_PACKET_LIMIT_BYTES: Final = 2 + 1024
"""The longest packet that a server takes: clients send logins, heartbeats and single orders."""

_HEAD: Final = struct.Struct(">H")
_LOGIN: Final = struct.Struct(">6s10s10s20s")
_LOGIN_WITH_TIMEOUT: Final = struct.Struct(">6s10s10s20s5s")
_ACCEPTED: Final = struct.Struct(">10s20s")
_INT64_MAX: Final = 2**63 - 1
_BLANKS: Final = " \0"


class Packet(NamedTuple):
    """One packet. A tuple, because an order stream has very many."""

    type: bytes
    """Its letter."""
    payload: bytes
    """What follows it."""


class LoginRequest(msgspec.Struct, frozen=True):
    """A client's first packet."""

    username: str = ""
    """At most 6 characters; upper and lower case are the same."""
    password: str = ""
    """At most 10."""
    session: str = ""
    """Session to join, at most 10 characters; empty for the current one."""
    sequence: int = 1
    """Number of the first message wanted, 0 for those that come from now on."""
    heartbeat_ms: int | None = None
    """4.10: how long the client may be silent before the server closes; None in earlier versions."""


class LoginAccepted(msgspec.Struct, frozen=True):
    """The answer to a login that holds."""

    session: str
    """The session that was joined."""
    sequence: int
    """Number of the next sequenced message."""


class LoginRejected(msgspec.Struct, frozen=True):
    """The answer to a login that does not hold."""

    code: Literal["A", "S"]
    """`NOT_AUTHORIZED` or `NO_SESSION`."""


def encode_packet(type_: bytes, payload: bytes = b"") -> bytes:
    """A packet; raises `WireError` for a payload that none can hold.

    >>> encode_packet(SERVER_HEARTBEAT)
    b'\\x00\\x01H'
    """
    if len(payload) + 1 > 65_535:
        raise WireError(f"expected a payload of at most 65534 bytes, was {len(payload)}")
    return _HEAD.pack(len(payload) + 1) + type_ + payload


class PacketSplitter:
    """Cuts a stream of bytes into packets; holds at most one incomplete packet.

    The length of a packet is judged as soon as it is there, so a peer that speaks another protocol is found out at
    its first bytes and not when enough of them have come. After a `WireError` the splitter must not be used again.
    """

    __slots__ = ("_limit_bytes", "_partial")

    def __init__(self, limit_bytes: int = PACKET_LIMIT_BYTES) -> None:
        """``limit_bytes``: the longest packet that is taken, its length included."""
        self._partial = b""
        self._limit_bytes = limit_bytes

    @property
    def partial(self) -> bytes:
        """The beginning of a packet whose end has not come yet."""
        return self._partial

    def split(self, data: bytes) -> list[Packet]:
        """The packets that `data` completes; raises `WireError` for a length that no packet has."""
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
        """The first packet, if it is complete, and everything behind it as it came; raises `WireError`.

        For a reader that hands the rest on: until the packet is complete all bytes are held.
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
    """The packet of a login: the form of 4.10 if it names a time-out, else that of 3.00 and 4.00."""
    if not 0 <= login.sequence <= _INT64_MAX:
        raise WireError(f"expected a sequence of 0 or more, was {login.sequence}")
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
    """A login's record; raises `WireError`.

    Clients differ in how they justify fields: blanks and zero bytes on either side are taken off. A blank sequence
    is 1.
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
        sequence=_number("sequence", sequence, 1),
        heartbeat_ms=timeout,
    )


def encode_login_reply(reply: LoginAccepted | LoginRejected) -> bytes:
    """The packet of an answer."""
    if isinstance(reply, LoginRejected):
        return encode_packet(REJECTED, reply.code.encode("ascii"))
    session = _alpha("session", reply.session, 10).strip(b" ").rjust(10)
    return encode_packet(ACCEPTED, session + str(reply.sequence).rjust(20).encode("ascii"))


def parse_login_reply(packet: Packet) -> LoginAccepted | LoginRejected:
    """An answer's record; raises `WireError`."""
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


def _number(name: str, data: bytes, blank: int) -> int:
    text = _text(name, data)
    if not text:
        return blank
    if not text.isdigit() or int(text) > _INT64_MAX:
        raise WireError(f"expected a {name} in decimal digits, was {data!r}")
    return int(text)
