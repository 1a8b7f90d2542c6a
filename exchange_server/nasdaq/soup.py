"""SoupBinTCP server: logins, heartbeats in both directions, limits, and streams of sequenced messages.

This is the common part of NASDAQ's feed, its snapshots and its order entry. A subclass of `SoupServer` decides which
users may log in, which stream a connection follows and how a client's messages are processed; everything else is in
this module. A `ListeningServer` has clients that only listen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Final

from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire.errors import WireError
from deltabook.wire.soupbin import (
    CLIENT_HEARTBEAT,
    CLIENT_PACKET_LIMIT_BYTES,
    DEBUG,
    END_OF_SESSION,
    LOGIN,
    LOGOUT,
    SERVER_HEARTBEAT,
    UNSEQUENCED,
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    PacketSplitter,
    encode_login_reply,
    encode_packet,
    parse_login,
)
from exchange_server.logins import LoginGate, User
from exchange_server.readers import (
    Audience,
    Delay,
    Reader,
    ReaderLimits,
    Readers,
    Records,
    Seconds,
    SequencedStream,
    Tail,
    Timers,
    farthest_behind_bytes,
    peer_of,
)

__all__ = ["ListeningServer", "SoupConnection", "SoupLimits", "SoupServer"]

_HEARTBEAT: Final = encode_packet(SERVER_HEARTBEAT)
_END: Final = encode_packet(END_OF_SESSION)
_EARLY_LIMIT_BYTES: Final = 64 * 1024


class SoupLimits(ReaderLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a SoupBinTCP server."""

    idle_s: Seconds = 15.0
    """Time without a message after which a client is disconnected, in seconds, unless its login requests another time
    (as in SoupBinTCP 4.10).
    """
    farewell_s: Delay = 5.0
    """Time in seconds that a client has, after the end of its session, to close its connection; then the server closes
    it.
    """


class SoupServer(Factory, ABC):
    """Accepts logins and sends each client its stream from the requested message on, exactly once and in order.

    All messages appended to a stream in a turn of the reactor go to each of its followers in one write, with the
    same bytes for all. A heartbeat of three bytes is sent after every second of silence, and also after every burst.
    The heartbeat after a burst means that no further message of the last request will follow; clients that do not know
    this meaning ignore it.
    """

    _log = Logger()
    noisy = False
    name = "soup"
    """Name of the server in the log."""

    def __init__(self, clock: Timers, limits: SoupLimits) -> None:
        self.clock = clock
        self.limits = limits
        self._audiences: dict[SequencedStream, Audience[SoupConnection]] = {}
        self.news: list[Audience[SoupConnection]] = []
        """Audiences of the streams with messages appended in this turn of the reactor."""
        self.readers: Readers[SoupConnection] = Readers(
            clock, limits, self._deliver, lambda: self.readers.beat(self._why_end)
        )
        """Connections of the server."""

    def buildProtocol(self, addr: IAddress | None) -> SoupConnection:
        """Return a connection for a new client."""
        return SoupConnection(self, peer_of(addr))

    # -- hooks of a server ----------------------------------------------------------------------------------------

    @abstractmethod
    def log_in(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Decide about a login: `follow` or `reject` it, at once or later. Bytes received meanwhile wait."""

    def take(self, connection: SoupConnection, data: bytes) -> None:
        """Process bytes of a logged-in client, which may end within a packet; raise `WireError` to close the
        connection.

        By default messages of clients have no effect.
        """
        connection.take_packets(data)

    def finish(self) -> None:
        """Carry out the pending requests of all clients, and send the answers."""
        self.deliver()

    def left(self, connection: SoupConnection) -> None:
        """Note that a connection that was logged in is closed; called once."""

    def is_over(self, stream: SequencedStream) -> bool:
        """Return True if nothing will ever be appended to a followed stream."""
        del stream
        return False

    # -- logins --------------------------------------------------------------------------------------------------

    def position(self, connection: SoupConnection, login: LoginRequest, session: str, records: Records) -> int | None:
        """Return the number of the first requested message; None if that is impossible and the login was rejected.

        Number 0 requests the messages from now on.
        """
        newest = records.next_number
        if login.session and login.session.upper() != session.upper():
            connection.reject("S", f"expected session {session}, was {login.session}")
        elif login.sequence > newest:
            connection.reject("S", f"expected a sequence up to {newest}, was {login.sequence}")
        else:
            return login.sequence or newest
        return None

    def follow(self, connection: SoupConnection, stream: SequencedStream, session: str, number: int) -> None:
        """Accept a login: the connection is sent a stream from a number on. Do nothing if already closed."""
        if connection.reader.is_closed:
            return
        self._log.info("{name}: {peer} reads from {number}", name=self.name, peer=connection.peer, number=number)
        audience = self._audiences.get(stream)
        if audience is None:
            audience = self._audiences[stream] = Audience(
                stream, self.announce, lambda: _END if self.is_over(stream) else _HEARTBEAT
            )
        audience.connections.add(connection)
        connection.audience = audience
        if tail := self.readers.tail(connection, stream.records, number, audience.heartbeat):
            connection.accept(LoginAccepted(session, number), tail)

    def end_sessions(self, users: Collection[str]) -> None:
        """Close the connections of these users, whose names are in upper case."""
        for connection in list(self.readers.connections):
            if connection.login is not None and connection.login.username.upper() in users:
                connection.cut("the user was removed, or has another password or protocol", flush=True)

    def forget(self, connection: SoupConnection) -> None:
        """Remove a connection that has ended."""
        self.readers.forget(connection)

    def leave(self, connection: SoupConnection) -> None:
        """Remove a connection from its audience; an audience without connections is closed."""
        audience = connection.audience
        if audience is None:
            return
        connection.audience = None
        audience.connections.discard(connection)
        if not audience.connections:
            audience.close()
            del self._audiences[audience.stream]
        self.left(connection)

    # -- connections ----------------------------------------------------------------------------------------------

    @property
    def followed(self) -> tuple[SequencedStream, ...]:
        """Streams with followers, in the order in which they were first followed."""
        return tuple(self._audiences)

    @property
    def listeners(self) -> int:
        """Number of connections that are logged in."""
        return sum(len(audience.connections) for audience in self._audiences.values())

    @property
    def farthest_behind_bytes(self) -> int:
        """Number of bytes by which the slowest reader is behind."""
        return farthest_behind_bytes(self.readers.connections)

    # -- messages out --------------------------------------------------------------------------------------------

    def announce(self, audience: Audience[SoupConnection]) -> None:
        """Register the audience of a stream with new messages for delivery."""
        self.news.append(audience)
        self.readers.deliver_soon()

    def deliver(self) -> None:
        """Deliver new messages now, without waiting for the end of this turn of the reactor."""
        if self.news:
            self.readers.deliver()

    def _deliver(self) -> None:
        news, self.news = self.news, []
        for audience in news:
            self.readers.spread(audience.connections, audience.stream.records, audience.take(), audience.heartbeat())

    def _why_end(self, connection: SoupConnection, tail: Tail, now_s: float) -> str:
        """Return why a connection must end, or an empty string.

        A connection ends if its client has sent nothing for too long. It also ends `SoupLimits.farewell_s` after the
        client was sent all of an ended stream: some clients fail if the connection closes while they read the last
        messages.
        """
        unheard_s = now_s - connection.heard_s
        if unheard_s >= self._idle_s(connection):
            return f"idle: no message for {unheard_s:.0f} s"
        if not connection.has_all:
            return ""
        if connection.ended_s is None:
            connection.ended_s = now_s
        tail.paused = True  # no message, not even a heartbeat, follows the end of a session
        return "the session is over" if now_s - connection.ended_s >= self.limits.farewell_s else ""

    def _idle_s(self, connection: SoupConnection) -> float:
        asked_ms = connection.login.heartbeat_ms if connection.login else None
        return max(asked_ms / 1000, self.limits.silence_s) if asked_ms else self.limits.idle_s

    def close(self) -> None:
        """Send pending bytes, then close every connection."""
        self.readers.close()


@implementer(IPushProducer, IHalfCloseableProtocol)
class SoupConnection(Protocol):
    """Connection with one client; no client's behaviour affects other connections.

    Reasons are sent in debug packets, which clients may show and must otherwise ignore. A client that closes its side
    of the connection is answered before the other side is closed.
    """

    _log = Logger()
    transport: Any

    def __init__(self, server: SoupServer, peer: str) -> None:
        self.server = server
        self.peer = peer
        self.splitter = PacketSplitter(CLIENT_PACKET_LIMIT_BYTES)
        """Buffer for an incomplete packet."""
        self.reader = Reader(self, server.clock)
        self.login: LoginRequest | None = None
        """Login message of the client; unverified before `is_logged_in`."""
        self.account = ""
        """Account that the client trades for, empty for a listener."""
        self.is_logged_in = False
        """True once the login was accepted."""
        self.audience: Audience[SoupConnection] | None = None
        """Audience that the connection belongs to; None before it follows a stream."""
        self.heard_s = 0.0
        """Time of the last bytes from the client (the server's monotonic seconds)."""
        self.ended_s: float | None = None
        """Time at which the client had been sent all of an ended stream."""
        self._early = b""
        self._has_ended_input = False
        """True once the client has closed its side of the connection."""

    # -- bytes in ------------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        """Wait for a login until the timeout."""
        if self.server.readers.admit(self):
            self.reader.await_login(self.server.limits.login_timeout_s, lambda reason: self.cut(reason, flush=True))
        else:
            self.reject("A", "the exchange has no room for another connection")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the client."""
        del reason
        self.reader.lost()
        self.server.leave(self)
        self.server.forget(self)

    def readConnectionLost(self) -> None:
        """Answer the received messages, and close: the client sends nothing more. A login is checked first."""
        self._has_ended_input = True
        if self.is_logged_in or self.login is None:
            self._end()

    def writeConnectionLost(self) -> None:
        """Do nothing: only the whole connection is closed."""

    def _end(self) -> None:
        self.server.finish()
        self.cut("the client has closed its side", flush=True)

    def dataReceived(self, data: bytes) -> None:
        """Process received bytes; bytes that form no packets end the connection."""
        if self.reader.is_closed:
            return
        self.heard_s = self.server.clock.seconds()
        try:
            if self.is_logged_in:
                self.server.take(self, data)
            else:
                self._take_early(data)
        except WireError as error:
            self.cut(str(error), flush=True)

    def _take_early(self, data: bytes) -> None:
        """Process bytes before the login is answered: the login comes first, and later bytes wait for the answer."""
        while self.login is None:
            packet, data = self.splitter.first(data)
            if packet is None:
                return
            if packet.type == LOGOUT:
                self.cut("logged out", flush=True)
                return
            if packet.type != DEBUG:
                self.login = parse_login(packet)
                self.server.log_in(self, self.login)
        if self.reader.is_closed:
            return
        if self.is_logged_in:
            if data:
                self.server.take(self, data)
            return
        self._early += data
        if len(self._early) > _EARLY_LIMIT_BYTES:
            raise WireError(f"expected at most {_EARLY_LIMIT_BYTES} bytes before the answer to a login")

    def take_packets(self, data: bytes) -> None:
        """Process packets after the login: a logout closes the connection; messages, heartbeats and debug packets have
        no effect.

        Raise `WireError` for other packets.
        """
        for type_, _ in self.splitter.split(data):
            if self.reader.is_closed:
                return
            if type_ == LOGOUT:
                self.cut("logged out", flush=True)
            elif type_ not in {UNSEQUENCED, CLIENT_HEARTBEAT, DEBUG}:
                words = "a second login" if type_ == LOGIN else f"a packet {type_!r}"
                raise WireError(f"expected heartbeats, messages or a logout, was {words}")

    # -- answers -------------------------------------------------------------------------------------------------

    def accept(self, reply: LoginAccepted, tail: Tail) -> None:
        """Answer A and send the stream; from now on the transport pauses and resumes it."""
        now_s = self.server.clock.seconds()
        self.reader.logged_in()
        self.is_logged_in = True
        self.heard_s = now_s
        self.transport.write(encode_login_reply(reply))
        self.reader.follow(tail)
        if tail.lag_bytes:
            tail.pump(now_s)
        else:
            tail.beat(now_s)
        early, self._early = self._early, b""
        if early:
            self.dataReceived(early)
        if self._has_ended_input:
            self._end()

    def reject(self, code: str, reason: str) -> None:
        """Answer J (``A`` not authorized, ``S`` no such session), send the reason after it, and close."""
        if not self.reader.is_closed:
            self.transport.write(encode_login_reply(LoginRejected("S" if code == "S" else "A")))
            self.cut(f"login rejected: {reason}", flush=True)

    @property
    def has_all(self) -> bool:
        """True if the client was sent all of an ended stream, and the end of session after it."""
        tail = self.reader.tail
        if tail is None or tail.lag_bytes or self.audience is None:
            return False
        return self.server.is_over(self.audience.stream)

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close the connection; with `flush`, first send pending bytes and the reason, otherwise discard them.

        Nothing follows the end of a session, not even a reason, since some clients fail on it. Without `flush`, the
        pending bytes of a connection that is already closing are discarded too: its client may never read them.
        """
        if self.reader.is_closed:
            if not flush:
                self.transport.abortConnection()
            return
        self._log.info("{name}: {peer} closed: {reason}", name=self.server.name, peer=self.peer, reason=reason)
        last_words = b"" if self.has_all else encode_packet(DEBUG, reason.encode("ascii", "replace"))
        self.reader.close(flush=flush, last_words=last_words)
        self.server.leave(self)

    # -- calls of the transport -----------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Pause: the transport's buffer is full."""
        self.reader.pause()

    def resumeProducing(self) -> None:
        """Resume: the transport's buffer has drained."""
        self.reader.resume()

    def stopProducing(self) -> None:
        """Stop: the transport has ended."""
        self.reader.pause()


class ListeningServer(SoupServer):
    """Server that admits the users of the gate, or every client if there is no gate."""

    def __init__(self, clock: Timers, limits: SoupLimits, gate: LoginGate | None) -> None:
        super().__init__(clock, limits)
        self._gate = gate

    def log_in(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Check name and password, in a thread if necessary."""

        def checked(user: User | None, why_not: str) -> None:
            if user is None:
                connection.reject("A", why_not)
            else:
                self.admit(connection, login)

        if self._gate is None:
            self.admit(connection, login)
        else:
            self._gate.check(login.username, login.password, connection.peer.rpartition(":")[0], checked)

    @abstractmethod
    def admit(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Decide about an authenticated login: `follow` or `reject`."""
