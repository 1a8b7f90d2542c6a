"""Connection of one desk to the exchange: text protocol, with reconnection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from algo_engine.clocks import Clock, Stream
from algo_engine.errors import AlgoError, LoginRefused, StreamGap
from algo_engine.links.backoff import LinkTimes, Retry, Watchdog
from deltabook.wire import text
from deltabook.wire.prompt import prompt_write
from deltabook.wire.text import Accepted, InteractiveLogin, Refused, Response, WireError

__all__ = ["OrdersConnection", "OrdersLink", "PrivateStreamReader"]


class PrivateStreamReader(Protocol):
    """Owner of a login that reads its private stream, such as `algo_engine.desk.desk.Desk`."""

    def login(self) -> InteractiveLogin:
        """Return the login to send first."""
        ...

    def opened(self, reply: Accepted, send: Callable[[bytes], None]) -> None:
        """Process an accepted login; raise `LoginRefused` if its stream does not continue."""
        ...

    def receive(self, response: Response) -> None:
        """Process one message; raise `StreamGap` if it is not the next one."""
        ...

    def lost(self) -> None:
        """Note that the connection was lost."""
        ...


class OrdersConnection(LineOnlyReceiver):
    """One connection: sends the login, then receives responses and sends requests."""

    delimiter = b"\n"
    MAX_LENGTH = text.LINE_LIMIT_BYTES
    _log = Logger()

    def __init__(self, reader: PrivateStreamReader, link: OrdersLink, clock: Clock, silence_s: float) -> None:
        self._reader, self._link = reader, link
        self._is_open = False
        self._watchdog = Watchdog(clock, silence_s, self._silent)

    def connectionMade(self) -> None:
        """Log in."""
        if ITCPTransport.providedBy(self.transport):
            cast(Any, self.transport).setTcpNoDelay(True)
        self._stream().write(text.encode_login(self._reader.login()))
        self._watchdog.received()

    def dataReceived(self, data: bytes) -> None:
        """Process received data, which may end within a line."""
        self._watchdog.received()
        super().dataReceived(data)  # type: ignore[no-untyped-call] # Twisted's own code has no types here

    def lineReceived(self, line: bytes) -> None:
        """Process the login's reply first, responses after it."""
        try:
            if self._is_open:
                self._reader.receive(text.parse_response(line))
            else:
                self._opened(text.parse_login_reply(line))
        except (WireError, StreamGap) as error:
            self._log.error("exchange: {error}; connecting again", error=error)
            self._stream().abortConnection()
        except LoginRefused as error:
            self._link.failed(error)
            self._stream().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Notify the desk, and retry."""
        self._watchdog.stop()
        self._reader.lost()
        cause = "closed by the exchange" if isinstance(reason.value, ConnectionDone) else reason.getErrorMessage()
        self._link.disconnected(cause)

    def close(self) -> None:
        """Close the connection after everything is sent."""
        self._stream().loseConnection()

    def _opened(self, reply: Accepted | Refused) -> None:
        login = self._reader.login()
        if isinstance(reply, Refused):
            raise LoginRefused(
                f"expected the exchange to accept the login of broker {login.broker_id} at session "
                f"{login.session or 'any'}, message {login.sequence}, was refused: {reply.code}: {reply.reason}"
            )
        if reply.last_client_id and not login.session:
            self._log.warn(
                "broker {broker} has traded at this exchange before, with another directory: its trades, position and "
                "profit are taken over; another --broker starts without them",
                broker=login.broker_id,
            )
        self._is_open = True
        self._link.connected()
        self._reader.opened(reply, prompt_write(self._stream()))

    def _stream(self) -> Stream:
        assert self.transport is not None
        return cast(Stream, self.transport)

    def _silent(self) -> None:
        self._log.warn("exchange: no message received in time; reconnecting")
        self._stream().abortConnection()


class OrdersLink:
    """Keeps one connection to the exchange open."""

    def __init__(
        self,
        *,
        endpoint: Any,
        reader: PrivateStreamReader,
        clock: Clock,
        times: LinkTimes,
        peer: str,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._endpoint, self._reader, self._clock, self._times = endpoint, reader, clock, times
        self._on_failure = on_failure
        self._retry = Retry(clock, times, f"the exchange at {peer}", on_failure)
        self._connection: OrdersConnection | None = None
        self._attempt: Deferred[OrdersConnection] | None = None
        self._is_stopped = False

    @property
    def reconnects(self) -> int:
        """Number of times that the connection to the exchange was lost."""
        return self._retry.losses

    def start(self) -> None:
        """Connect, now and whenever the connection is lost."""
        attempt: Deferred[OrdersConnection] = self._endpoint.connect(Factory.forProtocol(self._connection_to_be))
        self._attempt = attempt
        attempt.addCallbacks(self._made, lambda failure: self.disconnected(failure.getErrorMessage()))

    def stop(self) -> None:
        """Close the connection permanently."""
        self._is_stopped = True
        self._retry.cancel()
        if self._connection is not None:
            self._connection.close()
        elif self._attempt is not None:
            self._attempt.cancel()

    def connected(self) -> None:
        """Note that the login was accepted."""
        self._retry.succeeded()

    def disconnected(self, reason: str) -> None:
        """Note that an attempt failed or the connection was lost, and retry."""
        self._connection = None
        if not self._is_stopped:
            self._retry.again(self.start, reason)

    def failed(self, error: AlgoError) -> None:
        """Stop for an error that a retry cannot fix."""
        self._is_stopped = True
        self._on_failure(error)

    def _connection_to_be(self) -> OrdersConnection:
        return OrdersConnection(self._reader, self, self._clock, self._times.silence_s)

    def _made(self, connection: OrdersConnection) -> None:
        self._connection = connection
