"""Clients that reconnect: each keeps its received messages, and checks that none is missing and none repeated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from deltabook.wire import text
from deltabook.wire.soupbin import (
    ACCEPTED,
    CLIENT_HEARTBEAT,
    REJECTED,
    SEQUENCED,
    LoginAccepted,
    LoginRequest,
    PacketSplitter,
    encode_login,
    encode_packet,
    parse_login_reply,
)

if TYPE_CHECKING:
    from tests.simulation.exchange.network import Link

__all__ = ["Client", "ClientError", "SoupReader", "TextReader"]


class ClientError(AssertionError):
    """A client received a message that it must not receive."""


class Client(ABC):
    """Client of one port, with at most one open connection at a time."""

    def __init__(self, name: str, port: str) -> None:
        self.name = name
        self.port = port
        """Server that the client connects to."""
        self.link: Link | None = None
        self.session = ""
        """Session, known from the first login on."""
        self.is_logged_in = False
        self.stream = bytearray()
        """All records that the client was sent, in order, from the first one on."""
        self.count = 0
        """Number of these records."""
        self.logins = 0
        self.refusals = 0

    @abstractmethod
    def login(self) -> bytes:
        """Return the login, which continues after the last record."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Process bytes from the exchange; raise `ClientError` for wrong ones."""

    def connected(self, link: Link) -> None:
        """Log in on a new connection."""
        self.link = link
        self.is_logged_in = False
        link.up += self.login()

    def lost(self) -> None:
        """Note that the connection was lost."""
        self.link = None
        self.is_logged_in = False

    def write(self, data: bytes) -> None:
        """Send bytes to the exchange."""
        assert self.link is not None
        self.link.up += data

    @abstractmethod
    def send_heartbeat(self) -> None:
        """Send a heartbeat if the protocol requires one."""

    def keep(self, record: bytes) -> None:
        """Add a record."""
        self.stream += record
        self.count += 1

    def accepted(self, session: str, number: int) -> None:
        """Process an accepted login; the next record has this number."""
        if self.session and session != self.session:
            raise ClientError(f"{self.name}: expected session {self.session}, was {session}")
        if number != self.count + 1:
            raise ClientError(f"{self.name}: expected number {self.count + 1}, was {number}")
        self.session = session
        self.is_logged_in = True
        self.logins += 1


class TextReader(Client):
    """Follows the feed of lines."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "text")
        self._partial_line = b""

    def login(self) -> bytes:
        self._partial_line = b""
        return text.encode_login(text.PassiveLogin(self.session, self.count + 1))

    def send_heartbeat(self) -> None:
        """Do nothing: the protocol requires no heartbeat."""

    def received(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            if self.link is None:
                return
            if not self.is_logged_in:
                self._answered(line)
            else:
                self._line(line)

    def _answered(self, line: bytes) -> None:
        reply = text.parse_login_reply(line)
        if isinstance(reply, text.Refused):
            self.refusals += 1
        else:
            self.accepted(reply.session, reply.sequence)
            self.answered(reply)

    def answered(self, reply: text.Accepted) -> None:
        """Process an accepted login."""

    def _line(self, line: bytes) -> None:
        number, _, rest = line.partition(b",")
        if number == b"0":
            return
        if int(number) != self.count + 1:
            raise ClientError(f"{self.name}: expected number {self.count + 1}, was {line!r}")
        if rest.split(b",", 4)[3] != b"H":
            self.keep(line + b"\n")
            self.take_record(line)

    def take_record(self, line: bytes) -> None:
        """Process one record of the stream."""


class SoupReader(Client):
    """Follows a stream of packets."""

    def __init__(self, name: str, port: str, user: str = "", password: str = "") -> None:
        super().__init__(name, port)
        self._user, self._password = user, password
        self._splitter = PacketSplitter()

    def login(self) -> bytes:
        self._splitter = PacketSplitter()
        return encode_login(LoginRequest(self._user, self._password, self.session, self.count + 1))

    def received(self, data: bytes) -> None:
        for packet in self._splitter.split(data):
            type_, payload = packet
            if self.link is None:
                return
            if type_ == SEQUENCED and self.is_logged_in:
                self.keep(encode_packet(type_, payload))
                self.take_record(payload)
            elif type_ == ACCEPTED:
                reply = parse_login_reply(packet)
                assert isinstance(reply, LoginAccepted)
                self.accepted(reply.session, reply.sequence)
                self.answered()
            elif type_ == REJECTED:
                self.refusals += 1
            elif type_ == SEQUENCED:
                raise ClientError(f"{self.name}: expected an answer to the login, was {payload!r}")

    def send_heartbeat(self) -> None:
        if self.is_logged_in:
            self.write(encode_packet(CLIENT_HEARTBEAT))

    def answered(self) -> None:
        """Process an accepted login."""

    def take_record(self, message: bytes) -> None:
        """Process one record of the stream."""
