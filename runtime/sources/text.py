"""A text feed over TCP: logs in as a passive listener and turns what arrives into raw buffers."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from deltabook.wire.text import (
    LINE_LIMIT_BYTES,
    Accepted,
    PassiveLogin,
    Refused,
    WireError,
    encode_login,
    parse_login_reply,
)
from runtime.sources.base import Position
from runtime.sources.connecting import Backoff, ConnectingSource
from runtime.sources.connection import BUFFER_BYTES, Connection, Turn

__all__ = ["TextFeedSource"]


class TextFeedSource(ConnectingSource):
    """One connection to an exchange's text feed.

    A broken connection is reported once, with `lost`; the source then does nothing until `reconnect` says where to go
    on: the bytes behind the last whole message come again. A connection on which nothing arrives for ``silence_s``
    while it is read counts as broken: an exchange sends heartbeats. A refused login, and too many attempts to connect
    in a row, are failures.
    """

    __slots__ = ("_buffer_bytes", "_silence_s", "_turn", "next_sequence", "session")

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        origin_id: int,
        *,
        backoff: Backoff | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        connect_timeout_s: float = 5.0,
        silence_s: float = 10.0,
    ) -> None:
        super().__init__(reactor, host, port, origin_id, backoff=backoff, connect_timeout_s=connect_timeout_s)
        self._turn = Turn(reactor)
        self._buffer_bytes = buffer_bytes
        self._silence_s = silence_s
        self.session = ""
        """Session of the feed, as the exchange named it at the last login."""
        self.next_sequence = 0
        """Number of the first message after the last login, as the exchange named it."""

    @property
    def is_connected(self) -> bool:
        """There is a connection whose login was accepted; on the reactor's thread."""
        return self._connection is not None and self.is_ready(self._connection)

    def make_connection(self, position: Position) -> Connection:
        """See `ConnectingSource`."""
        login = encode_login(PassiveLogin(position.session, position.sequence))
        connection = _FeedConnection(self, self._origin_id, self._turn, position.offset, self._buffer_bytes)
        connection.prepare(self, login, self._silence_s)
        return connection

    def is_ready(self, connection: Connection) -> bool:
        """Its login was accepted."""
        return cast(_FeedConnection, connection).logged_in

    def accepted(self, reply: Accepted) -> None:
        """The exchange took the login."""
        self.ready()
        self.session, self.next_sequence = reply.session, reply.sequence

    def later(self, call: Any, delay_s: float) -> Any:
        """Run something after a while; gives the delayed call."""
        return self._reactor.callLater(delay_s, call)


class _FeedConnection(Connection):
    """The bytes of one login: the reply's line first, the stream after it."""

    __slots__ = ("_login", "_reply", "_silence_s", "_source", "_watch", "logged_in")

    def prepare(self, source: TextFeedSource, login: bytes, silence_s: float) -> None:
        """What it says first, and how long it waits for a word."""
        self._source = source
        self._login = login
        self._silence_s = silence_s
        self._reply = b""
        self._watch: Any = None
        self.logged_in = False

    def connectionMade(self) -> None:
        self.resumed()
        self.transport.write(self._login)

    def dataReceived(self, data: bytes) -> None:
        if self.is_abandoned:
            return
        if self._watch is not None:
            self._watch.reset(self._silence_s)
        self.gather(data if self.logged_in else self._read_reply(data))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end_watch()
        super().connectionLost(reason)

    def abandon(self) -> None:
        self._end_watch()
        super().abandon()

    def paused(self) -> None:
        """Nothing can be heard while nothing is read."""
        self._end_watch()

    def resumed(self) -> None:
        """Watch for silence."""
        self._watch = self._source.later(self._silent, self._silence_s)

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    def _silent(self) -> None:
        """The peer hangs or is gone without a word; what the transport says of its end is of no interest then."""
        self._watch = None
        transport = self.transport
        self.gone(f"nothing heard for {self._silence_s:g} s")
        transport.abortConnection()

    def _read_reply(self, data: bytes) -> bytes:
        """Look for the login's answer, return what comes behind it."""
        line, delimiter, rest = (self._reply + data).partition(b"\n")
        if not delimiter:
            self._reply = line
            if len(line) > LINE_LIMIT_BYTES:
                self._source.refused(f"expected a login reply within {LINE_LIMIT_BYTES} bytes, was {line[:80]!r}")
            return b""
        try:
            reply = parse_login_reply(line)
        except WireError as error:
            self._source.refused(str(error))
            return b""
        if isinstance(reply, Refused):
            self._source.refused(f"expected a login to be accepted, was refused ({reply.code}): {reply.reason}")
            return b""
        self.logged_in = True
        self._source.accepted(reply)
        return rest
