"""Sources of sequenced feeds over TCP: log in at a position, forward the bytes after the reply and detect silence."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, NamedTuple, cast

from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.text import (
    LINE_LIMIT_BYTES,
    PassiveLogin,
    Refused,
    WireError,
    encode_login,
    parse_login_reply,
)
from runtime.sources.base import LoginRefusedError, Position
from runtime.sources.connecting import Backoff, ConnectingSource
from runtime.sources.connection import Connection

__all__ = ["FeedConnection", "FeedSource", "LoginReply", "TextFeedSource"]

_LOG: Final = Logger()


class LoginReply(NamedTuple):
    """Accepted login."""

    session: str
    """Session of the feed, as the exchange names it."""
    sequence: int
    """Number of the first message that follows."""
    rest: bytes
    """Bytes after the reply."""


class FeedSource(ConnectingSource):
    """Source with one connection to a feed; reading begins at a requested position.

    A subclass implements the login protocol.

    A broken connection is reported once, by `BufferSink.lost`. The source then does nothing until `reconnect` is called
    with the position at which to resume. After the reconnection the exchange sends the bytes after the last whole
    message again.

    An exchange sends heartbeats, so a connection counts as broken if nothing arrives for ``silence_s`` seconds while it
    is read. The source fails if a login is rejected, or after too many consecutive failed attempts.
    """

    __slots__ = ("_silence_s", "next_sequence", "session")

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        origin_id: int,
        *,
        backoff: Backoff | None = None,
        connect_timeout_s: float = 5.0,
        silence_s: float = 10.0,
    ) -> None:
        super().__init__(reactor, host, port, origin_id, backoff=backoff, connect_timeout_s=connect_timeout_s)
        self._silence_s = silence_s
        self.session = ""
        """Session of the feed, as named by the exchange at the last login."""
        self.next_sequence = 0
        """Number of the first message after the last login, as named by the exchange."""

    @abstractmethod
    def login(self, position: Position) -> bytes:
        """Return the login that requests the feed from a position."""

    @abstractmethod
    def read_reply(self, data: bytes) -> LoginReply | None:
        """Return the reply in the bytes so far, or None while the reply is incomplete.

        Raise `LoginRefusedError` if the reply is a refusal.
        """

    def make_connection(self, position: Position) -> Connection:
        """Return a connection that logs in; see `ConnectingSource`."""
        return FeedConnection(self, self._origin_id, position.offset, self._silence_s)

    def is_ready(self, connection: Connection) -> bool:
        """Return True if the connection's login was accepted."""
        return cast(FeedConnection, connection).is_logged_in

    def retrying(self, reason: str) -> None:
        """Log a warning, because minutes may pass before the source fails."""
        _LOG.warn("expected a feed at {where}, was none yet: {reason}; trying again", where=self.where, reason=reason)

    def accepted(self, reply: LoginReply) -> None:
        """Note the login that the exchange accepted."""
        self.ready()
        self.session, self.next_sequence = reply.session, reply.sequence

    @property
    def request(self) -> bytes:
        """Bytes of the login for the position from which the source reads."""
        return self.login(self._position)

    def later(self, call: Any, delay_s: float) -> Any:
        """Make a call after a delay in seconds; return Twisted's delayed call."""
        return self._reactor.callLater(delay_s, call)


class FeedConnection(Connection):
    """Connection of one login: receives the reply first, then the stream."""

    __slots__ = ("_reply", "_silence_s", "_source", "_watch", "is_logged_in")

    def __init__(self, source: FeedSource, origin_id: int, offset: int, silence_s: float) -> None:
        super().__init__(source, origin_id, offset)
        self._source = source
        self._silence_s = silence_s
        self._reply = b""
        self._watch: Any = None
        self.is_logged_in = False

    def connectionMade(self) -> None:
        """Send the login."""
        self.resumed()
        self.transport.write(self._source.request)

    def dataReceived(self, data: bytes) -> None:
        """Parse the reply to the login, and gather the bytes after the reply."""
        if self.is_abandoned:
            return
        if self._watch is not None:
            self._watch.reset(self._silence_s)
        self.gather(data if self.is_logged_in else self._read_reply(data))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Stop watching for silence; see `Connection`."""
        self._end_watch()
        super().connectionLost(reason)

    def abandon(self) -> None:
        """Stop watching for silence; see `Connection`."""
        self._end_watch()
        super().abandon()

    def paused(self) -> None:
        """Stop watching for silence, because nothing is read while the transport is paused."""
        self._end_watch()

    def resumed(self) -> None:
        """Watch for silence."""
        self._watch = self._source.later(self._silent, self._silence_s)

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    def _silent(self) -> None:
        """End a connection whose peer hangs; the reason that the transport reports later is ignored."""
        self._watch = None
        transport = self.transport
        self.gone(f"no message for {self._silence_s:g} s")
        transport.abortConnection()

    def _read_reply(self, data: bytes) -> bytes:
        """Parse the reply to the login, and return the bytes after the reply."""
        self._reply += data
        try:
            reply = self._source.read_reply(self._reply)
        except LoginRefusedError as error:
            self._source.refused(str(error))
            return b""
        if reply is None:
            return b""
        self._reply = b""
        self.is_logged_in = True
        self._source.accepted(reply)
        return reply.rest


class TextFeedSource(FeedSource):
    """Source for an exchange's text feed."""

    __slots__ = ()

    def login(self, position: Position) -> bytes:
        """Return the login line; see `FeedSource`."""
        return encode_login(PassiveLogin(position.session, position.sequence))

    def read_reply(self, data: bytes) -> LoginReply | None:
        """Parse the first line as the reply (see `FeedSource`); raise `LoginRefusedError` if the login is refused."""
        line, delimiter, rest = data.partition(b"\n")
        if not delimiter:
            if len(line) > LINE_LIMIT_BYTES:
                raise LoginRefusedError(f"expected a login reply within {LINE_LIMIT_BYTES} bytes, was {line[:80]!r}")
            return None
        try:
            reply = parse_login_reply(line)
        except WireError as error:
            raise LoginRefusedError(str(error)) from None
        if isinstance(reply, Refused):
            raise LoginRefusedError(f"expected a login to be accepted, was refused ({reply.code}): {reply.reason}")
        return LoginReply(reply.session, reply.sequence, rest)
