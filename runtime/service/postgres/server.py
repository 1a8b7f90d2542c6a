# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Connections of PostgreSQL clients: their start, authentication and limits, and the handling of messages in order."""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IPushProducer
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire.access import Access
from deltabook.wire.service import PostgresLine
from runtime.service.http.limits import Connections, Rates, SiteLimits, client_of
from runtime.service.postgres import messages
from runtime.service.postgres.errors import FatalError, PostgresError, UnreadableMessageError
from runtime.service.postgres.execution import SharedParts
from runtime.service.postgres.messages import Fields, MessageBuffer, StartupBuffer
from runtime.service.postgres.parts import HeldBytes, PostgresCounts, PostgresParts, SharedCatalogue
from runtime.service.postgres.scram import MECHANISM, ScramExchange, Verifier
from runtime.service.postgres.session import Session
from runtime.service.postgres.settings import REPORTED, Settings
from runtime.service.subscriptions import Subscription

__all__ = ["PostgresFactory"]

_SASL: Final = 10
_SASL_CONTINUE: Final = 11
_SASL_FINAL: Final = 12
_AHEAD_BYTES: Final = 256 * 1024
"""Number of bytes that a client may send while a statement runs, before reading pauses until the statement ends."""
_MESSAGES_A_TURN: Final = 100
"""Number of messages of one connection that are handled before other connections have their turn."""
_MOST_REQUESTS: Final = 4
"""Greatest number of requests for TLS and GSS before the startup message."""
_LONGEST_USER: Final = 63
_LONGEST_ANSWER: Final = 10_000
"""Greatest length in bytes of a message from a client that is not authenticated."""
_COUNTED: Final = frozenset((b"Q", b"E"))
"""First bytes of messages that count as requests."""


class PostgresFactory(Factory):
    """Factory of connections, with limits for each client and for all clients together."""

    noisy = False

    def __init__(
        self,
        parts: PostgresParts,
        access: Access,
        limits: SiteLimits,
        reactor: Any,
        *,
        random: Callable[[int], bytes],
        token: str = "",
        tls: Any = None,
    ) -> None:
        """Create the factory.

        ``token`` is the password of all users; without a token, ``access`` checks addresses. ``tls`` makes the contexts
        of TLS; if it is given, clients must use TLS. ``random`` returns cryptographically random bytes.
        """
        self.access, self.limits, self.clock, self.random, self.tls = access, limits, reactor, random, tls
        self.counts = PostgresCounts()
        self.held_bytes = HeldBytes(limits.answers_bytes)
        self.shared = SharedParts(
            parts=parts, catalogue=SharedCatalogue(parts), held_bytes=self.held_bytes, counts=self.counts, clock=reactor
        )
        self.verifier = Verifier.of(token, random) if token else None
        self.arriving_bytes = 0
        """Total size in bytes of all messages that have arrived and are not handled."""
        self.connections = Connections(limits.connections, limits.connections_per_client)
        self.sessions: dict[int, tuple[int, Session]] = {}
        """Session number → the secret of its cancel requests, and the session."""
        self.rates = Rates(limits.requests_per_s, limits.burst, limits.clients, reactor.seconds)
        self._number = 0

    def figures(self) -> PostgresLine:
        """Return the current figures."""
        return self.counts.line(self.connections.open, self.held_bytes.total)

    def numbered(self) -> tuple[int, int]:
        """Return a number and a secret for a session."""
        while True:
            self._number = self._number % (2**31 - 1) + 1
            if self._number not in self.sessions:
                return self._number, int.from_bytes(self.random(4), "big")

    def cancel(self, number: int, secret: int) -> None:
        """Cancel the statement of a session if the secret is right."""
        expected, session = self.sessions.get(number, (0, None))
        if hmac.compare_digest(struct.pack("!I", expected), struct.pack("!I", secret)) and session is not None:
            session.cancel("the client has asked to cancel the statement")

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a connection; above the limit, one that only reports the limit."""
        client = client_of(str(getattr(addr, "host", "")))
        if reason := self.connections.taken(client):
            self.counts.refused_connections += 1
            return _Crowded(reason)
        return _Connection(self, client, str(getattr(addr, "host", "")))


class _Crowded(Protocol):
    """Connection above the limit; sends the reason and closes."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def connectionMade(self) -> None:
        """Send the reason and close; see the base."""
        transport: Any = self.transport
        transport.write(messages.error_response(FatalError("53300", self._reason)))
        transport.loseConnection()


@implementer(IPushProducer)
class _Connection(Protocol):
    """Connection of one client, from its first byte to its last."""

    _log = Logger()

    def __init__(self, factory: PostgresFactory, client: str, host: str) -> None:
        self._factory, self._client, self._host = factory, client, host
        self._limits = factory.limits
        self._startup = StartupBuffer()
        self._buffer: MessageBuffer | None = None
        self._requests = 0
        self._is_encrypted = False
        self._scram: ScramExchange | None = None
        self._has_first_answer = False  # True once the client's first message of SCRAM was answered
        self._parameters: dict[str, str] = {}
        self._session: Session | None = None
        self._number = 0
        self._is_busy = self._is_pumping = self._is_full = self._is_closed = self._is_paused = False
        self._arriving_bytes = 0
        self._subscription: Subscription | None = None
        self._waiting: Deferred[None] | None = None
        self._timer: Any = None
        self._again: Any = None

    # Called by the transport

    def connectionMade(self) -> None:
        """Start the timeout of the startup; see the base."""
        transport: Any = self.transport
        for option in ("setTcpNoDelay", "setTcpKeepAlive"):
            if hasattr(transport, option):
                getattr(transport, option)(True)
        self._timer = self._factory.clock.callLater(self._limits.request_s, self._too_late)

    def dataReceived(self, data: bytes) -> None:
        """Buffer bytes and handle complete messages; see the base."""
        if self._is_closed:
            return
        try:
            if self._buffer is None:
                self._startup.add(data)
                self._read_startup()
            else:
                self._buffer.add(data)
                self._pump()
        except PostgresError as error:
            self._fatal(error)

    def connectionLost(self, reason: Failure = Failure(ConnectionDone())) -> None:  # noqa: B008 (as the base has it)
        """End the session; see the base."""
        self._is_closed = True
        self._stop_timer()
        if self._again is not None and self._again.active():
            self._again.cancel()
        factory = self._factory
        factory.connections.lost(self._client)
        factory.arriving_bytes -= self._arriving_bytes
        self._arriving_bytes = 0
        factory.sessions.pop(self._number, None)
        if self._session is not None:
            self._session.lost()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.errback(reason)

    # Startup and authentication

    def _read_startup(self) -> None:
        while self._buffer is None and (message := self._startup.next()) is not None:
            code, content = message
            if code in (messages.TLS_REQUEST, messages.GSS_REQUEST):
                self._requested(code)
            elif code == messages.CANCEL_REQUEST:
                self._cancel(content)
                return
            elif code >> 16 == 3:
                self._handle_startup(code, content)
            else:
                raise UnreadableMessageError(f"expected version 3 of the protocol, was {code >> 16}.{code & 0xFFFF}")

    def _requested(self, code: int) -> None:
        self._requests += 1
        if self._requests > _MOST_REQUESTS or self._is_encrypted:
            raise UnreadableMessageError("expected a start-up message, was a second request for encryption")
        transport: Any = self.transport
        if code == messages.GSS_REQUEST or self._factory.tls is None:
            transport.write(b"N")
            return
        if len(self._startup):  # unencrypted bytes, which an attacker could have injected
            raise UnreadableMessageError("expected no bytes after a request for TLS before its answer, was more")
        transport.write(b"S")
        self._is_encrypted = True
        transport.startTLS(self._factory.tls)

    def _cancel(self, content: bytes) -> None:
        if len(content) == 8:
            self._factory.cancel(*struct.unpack("!iI", content))
        self.close()

    def _handle_startup(self, code: int, content: bytes) -> None:
        fields, parameters = Fields(content, "the startup message"), dict[str, str]()
        while name := fields.text():
            parameters[name] = fields.text()
        fields.end()
        factory = self._factory
        transport: Any = self.transport
        if factory.tls is not None and not self._is_encrypted:
            raise FatalError("28000", "expected a connection with TLS, was one without (sslmode=require)")
        if not parameters.get("user"):
            raise FatalError("28000", "expected the name of a user, was none")
        unknown = [name for name in parameters if name.startswith("_pq_.")]
        if code != messages.PROTOCOL_3 or unknown:
            transport.write(messages.negotiate_version(unknown))
        self._parameters = {name: value for name, value in parameters.items() if not name.startswith("_pq_.")}
        if parameters.get("replication", "false").lower() not in ("false", "off", "0", "no"):
            raise FatalError("0A000", "expected a session, was one for replication")
        self._buffer = MessageBuffer(_LONGEST_ANSWER)
        if self._factory.verifier is not None:
            self._scram = ScramExchange(self._factory.verifier, self._factory.random)
            transport.write(messages.authentication(_SASL, MECHANISM.encode() + b"\0\0"))
        else:
            refused = factory.access.refusal(self._host, None, None)
            if refused is not None:
                raise FatalError("28000", refused[1].replace("a request", "a connection"))
            self._start_session()
        self._buffer.add(self._startup.rest())
        self._pump()

    def _authenticate(self, code: bytes, content: bytes) -> None:
        """Handle a message of SCRAM authentication."""
        transport: Any = self.transport
        if code != b"p":
            raise UnreadableMessageError(f"expected a password, was the message {code!r}")
        assert self._scram is not None
        if not self._has_first_answer:
            fields = Fields(content, "SASLInitialResponse")
            mechanism = fields.text()
            first = fields.value()
            fields.end()
            if mechanism != MECHANISM or first is None:
                raise FatalError("28000", f"expected {MECHANISM}, was {mechanism[:80]!r}")
            transport.write(messages.authentication(_SASL_CONTINUE, self._scram.first(first)))
            self._has_first_answer = True
            return
        answer = self._scram.final(content)
        if answer is None:
            user = self._parameters["user"][:_LONGEST_USER]
            raise FatalError("28P01", f"expected the token as the password of user {user!r}, was another")
        transport.write(messages.authentication(_SASL_FINAL, answer))
        self._scram = None
        self._start_session()

    def _start_session(self) -> None:
        """Start the session of an authenticated client, and send the settings that are reported to clients."""
        self._stop_timer()
        assert self._buffer is not None
        self._buffer.longest_bytes = self._limits.body_bytes
        transport: Any = self.transport
        factory, parameters = self._factory, self._parameters
        user = parameters.pop("user")[:_LONGEST_USER]
        parameters.pop("database", None)
        parameters.pop("replication", None)
        options = _options(parameters.pop("options", ""))
        run = factory.shared.parts.hub.committed.run if factory.shared.parts.hub.committed is not None else ""
        settings = Settings(user, run)
        settings.start({**options, **parameters})
        self._number, secret = factory.numbered()
        self._session = Session(factory.shared, self, settings, (user, self._number))
        factory.sessions[self._number] = (secret, self._session)
        factory.counts.sessions += 1
        transport.registerProducer(self, True)
        self.write(messages.authentication(0))
        for name, shown in REPORTED.items():
            self.write(messages.parameter_status(shown, settings.show(name)))
        self.write(messages.backend_key(self._number, secret))
        self._session.begin()

    # Messages

    def _pump(self) -> None:
        """Handle messages one after another until a call is asynchronous or the send buffer is full."""
        buffer = self._buffer
        assert buffer is not None
        done = 0
        while not (self._is_busy or self._is_closed or self._is_full):
            message = buffer.next()
            if message is None:
                break
            if self._session is None:
                self._authenticate(*message)
                continue
            self._is_busy = self._is_pumping = True
            handled = Deferred.fromCoroutine(self._paced(message))
            handled.addBoth(self._handled)
            self._is_pumping = False
            done += 1
            if done == _MESSAGES_A_TURN and not self._is_busy:
                self._pump_again()
                break
        self._count_arriving()

    async def _paced(self, message: tuple[bytes, bytes]) -> None:
        """Handle a message, delayed by the client's rate limit."""
        while message[0] in _COUNTED and (wait_s := self._factory.rates.wait_s(self._client)):
            await deferLater(self._factory.clock, wait_s)
        if self._session is not None and not self._is_closed:
            await self._session.handle(*message)

    def _pump_again(self) -> None:
        if self._again is None or not self._again.active():
            self._again = self._factory.clock.callLater(0, self._safely_pump)

    def _safely_pump(self) -> None:
        if self._is_closed or self._buffer is None:
            return
        try:
            self._pump()
        except PostgresError as error:
            self._fatal(error)

    def _handled(self, result: object) -> None:
        self._is_busy = False
        if isinstance(result, Failure):
            if isinstance(result.value, FatalError):
                self._fatal(result.value)
            elif not self._is_closed:
                self._log.failure("a message of a PostgreSQL client failed", result)
                self._fatal(FatalError("XX000", "expected an answer, was an error: see the runtime's log"))
        elif not self._is_closed and not self._is_pumping:
            self._pump_again()

    def _count_arriving(self) -> None:
        """Count the bytes that are not handled yet, and pause reading from a client that sends far ahead.

        Raises `FatalError` if all clients together have sent too much.
        """
        if self._is_closed or self._buffer is None:
            return
        buffered, factory = len(self._buffer), self._factory
        factory.arriving_bytes += buffered - self._arriving_bytes
        self._arriving_bytes = buffered
        if factory.arriving_bytes > self._limits.bodies_bytes:
            most_bytes = self._limits.bodies_bytes
            raise FatalError("53200", f"expected at most {most_bytes} bytes of unread messages, was more: try later")
        is_paused = (self._is_busy or self._is_full) and buffered > _AHEAD_BYTES
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            transport: Any = self.transport
            transport.pauseProducing() if is_paused else transport.resumeProducing()

    # Methods of `Outlet`

    def write(self, data: bytes | memoryview) -> None:
        """See `Outlet`."""
        transport: Any = self.transport
        if not self._is_closed:
            transport.write(bytes(data))

    def drained(self) -> Deferred[None]:
        """See `Outlet`."""
        if self._is_closed:
            failed: Deferred[None] = Deferred()
            failed.errback(FatalError("08006", "the connection is closed"))
            return failed
        if not self._is_full:
            return succeed(None)
        self._waiting = Deferred()
        return self._waiting

    def follow(self, subscription: Subscription | None) -> None:
        """See `Outlet`."""
        self._subscription = subscription
        if subscription is not None and self._is_full:
            subscription.pause()

    def close(self) -> None:
        """See `Outlet`."""
        self._is_closed = True
        self._stop_timer()
        transport: Any = self.transport
        if self._session is not None:
            transport.unregisterProducer()
        transport.loseConnection()
        # A client that reads nothing is disconnected after this time.
        self._timer = self._factory.clock.callLater(self._limits.stalled_s, self._abort)

    def _fatal(self, error: PostgresError) -> None:
        if self._is_closed:
            return
        error.severity = "FATAL"
        self.write(messages.error_response(error))
        self.close()

    # Methods of a producer

    def pauseProducing(self) -> None:
        """Pause, because the send buffer is full."""
        self._is_full = True
        if self._subscription is not None:
            self._subscription.pause()
        self._stop_timer()
        self._timer = self._factory.clock.callLater(self._limits.stalled_s, self._abort)

    def resumeProducing(self) -> None:
        """Resume, because the send buffer has room."""
        self._is_full = False
        self._stop_timer()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)
        if self._subscription is not None:
            self._subscription.resume()
        self._safely_pump()

    def stopProducing(self) -> None:
        """Do nothing, because `connectionLost` follows."""

    def _too_late(self) -> None:
        self._timer = None
        self._fatal(FatalError("57P05", f"expected a start-up message within {self._limits.request_s:g} s"))

    def _abort(self) -> None:
        self._timer = None
        transport: Any = self.transport
        abort = getattr(transport, "abortConnection", None) or transport.loseConnection
        abort()

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None


def _options(text: str) -> dict[str, str]:
    """Return the settings ``-c name=value`` and ``--name=value`` of libpq's ``options``."""
    options: dict[str, str] = {}
    words = text.replace("\\ ", "\0").split()
    while words:
        word = words.pop(0).replace("\0", " ")
        if word == "-c" and words:
            word = words.pop(0).replace("\0", " ")
        word = word.removeprefix("-c").removeprefix("--")
        name, is_given, value = word.partition("=")
        if is_given:
            options[name.replace("-", "_")] = value
    return options
