"""One connection of the text protocol: a login, then a feed to listen to or requests to make."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire import text
from exchange_server.audience import Audience
from exchange_server.exchange import Exchange
from exchange_server.matching.account import Account
from exchange_server.readers import Reader, ReaderLimits, Readers, Timers
from exchange_server.tail import Tail

__all__ = ["Broker", "ConnectionOwner", "TextConnection"]


class Broker:
    """A broker that has connections."""

    __slots__ = ("account", "audience", "last_client_id")

    def __init__(self, account: Account, audience: Audience[TextConnection]) -> None:
        self.account = account
        """Its account in the market."""
        self.audience = audience
        """Its connections, which follow its private stream."""
        self.last_client_id = account.last_ref
        """Client id of the latest request that was accepted, executed or not."""


class ConnectionOwner(Protocol):
    """The server of a connection, as far as the connection uses it."""

    exchange: Exchange
    clock: Timers
    readers: Readers[TextConnection]
    read_s: float
    """Time at which a connection last received anything."""

    @property
    def limits(self) -> ReaderLimits:
        """Limits of the connections."""
        ...

    def forget(self, connection: TextConnection) -> None:
        """The connection is closed."""
        ...

    def taken(self) -> None:
        """The connection has passed on all requests of the data that it received."""
        ...

    def login_listener(self, connection: TextConnection, login: text.PassiveLogin) -> None:
        """Accept a listener, or refuse it."""
        ...

    def login_broker(self, connection: TextConnection, login: text.InteractiveLogin) -> None:
        """Accept a client that will send requests, or refuse it."""
        ...

    def bind_broker(self, connection: TextConnection, broker_id: int) -> None:
        """Make a connection that of the broker of its first request, or close it."""
        ...

    def take(self, connection: TextConnection, broker: Broker, request: text.Request) -> None:
        """Accept a request."""
        ...


@implementer(IPushProducer)
class TextConnection(LineOnlyReceiver):
    """Speaks with one client; whatever one client does, no other connection notices."""

    _log = Logger()
    delimiter = b"\n"
    MAX_LENGTH = text.LINE_LIMIT_BYTES
    transport: Any

    def __init__(self, server: ConnectionOwner, peer: str) -> None:
        self._server = server
        self.peer = peer
        self.reader = Reader(self, server.clock)
        self.broker: Broker | None = None
        """Whom it trades for."""
        self.is_interactive = False
        self.is_passive = False
        self._waits_for_broker = False
        self._is_paused = False

    @property
    def account(self) -> str:
        """Name of the account that it trades for, empty for none."""
        return "" if self.broker is None else self.broker.account.name

    def connectionMade(self) -> None:
        """Wait for a login, but not for ever."""
        if self._server.readers.admit(self):
            self.reader.await_login(
                self._server.limits.login_timeout_s, lambda reason: self.refuse_login("login", reason)
            )
        else:
            self.refuse_login("login", "the exchange has no room for another connection")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the client."""
        del reason
        self.reader.lost()
        self._server.forget(self)

    def dataReceived(self, data: bytes) -> None:
        """Any number of lines, and pieces of them."""
        self._server.read_s = self._server.clock.seconds()
        super().dataReceived(data)  # type: ignore[no-untyped-call] # Twisted's own code has no types here
        self._server.taken()

    def lineReceived(self, line: bytes) -> None:
        """A login first, requests afterwards; what a listener says is not listened to."""
        if self.reader.is_closed:
            return
        if self.is_interactive:
            self._request(line)
        elif not self.is_passive:
            self._login(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Say so and close."""
        reason = f"expected a line of at most {self.MAX_LENGTH} bytes was {len(line)}"
        if self.is_interactive:
            self.refuse_request(0, reason)
            self.cut(reason, flush=True)
        else:
            self.refuse_login("login", reason)

    def _login(self, line: bytes) -> None:
        try:
            login = text.parse_login(line)
        except text.WireError as error:
            self.refuse_login("login", str(error))
            return
        self.reader.logged_in()
        if isinstance(login, text.PassiveLogin):
            self._server.login_listener(self, login)
        else:
            self._server.login_broker(self, login)

    def refuse_login(self, code: str, reason: str) -> None:
        """Answer J and close."""
        if self.reader.is_closed:
            return
        self.transport.write(text.encode_login_reply(text.Refused(code, reason)))
        self.cut(f"login refused: {reason}", flush=True)

    def await_broker(self) -> None:
        """Wait for the first request, which says whose stream to send; answers may be too many before it."""
        self.is_interactive = self._waits_for_broker = True
        self.transport.registerProducer(self, True)

    def follow(self, tail: Tail) -> None:
        """Begin to send a stream; from now on the transport says when it has had enough."""
        if self._waits_for_broker:
            self._waits_for_broker = False
            self.transport.unregisterProducer()
        self.reader.follow(tail)
        if self._is_paused:
            self.reader.pause()
        tail.pump(self._server.clock.seconds())
        tail.beat(self._server.clock.seconds())

    def _request(self, line: bytes) -> None:
        try:
            request = text.parse_request(line)
        except text.WireError as error:
            first = line.split(b",", 1)[0]
            self.refuse_request(int(first) if first.isdigit() and len(first) < 19 else 0, str(error))
            return
        if self.broker is None:
            self._server.bind_broker(self, request.broker_id)
        broker = self.broker
        if broker is None:
            return
        if request.broker_id == broker.account.broker_id:
            self._server.take(self, broker, request)
        else:
            self.refuse_request(
                request.client_id, f"expected broker {broker.account.broker_id} was {request.broker_id}"
            )

    def refuse_request(self, client_id: int, reason: str, order_id: int = 0, symbol: str = "") -> None:
        """Answer R outside the private stream (sequence 0)."""
        if self.reader.is_closed:
            return
        time_ns = self._server.exchange.heartbeat_time_ns()
        broker_id = 0 if self.broker is None else self.broker.account.broker_id
        response = text.Response(0, time_ns, order_id, broker_id, "R", 0, 0, symbol, client_id, reason)
        self.transport.write(text.encode_response(response))

    def cut(self, reason: str, *, flush: bool = False) -> None:
        """Close; what is not sent yet is sent first (`flush`) or thrown away: also what is left of a connection that is
        closing already, since not everybody reads it."""
        if self.reader.is_closed:
            if not flush:
                self.transport.abortConnection()
            return
        self._log.info("text: {peer} closed: {reason}", peer=self.peer, reason=reason)
        if self._waits_for_broker:
            self.transport.unregisterProducer()
        self.reader.close(flush=flush)

    def pauseProducing(self) -> None:
        """The transport's buffer is full: send nothing, and read no further requests, until it has drained."""
        self._is_paused = True
        self.reader.pause()
        if self.is_interactive and not self.reader.is_closed:
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """The transport's buffer has drained."""
        self._is_paused = False
        if self.is_interactive and not self.reader.is_closed:
            self.transport.resumeProducing()
        self.reader.resume()

    def stopProducing(self) -> None:
        """The transport is gone."""
        self.reader.pause()
