"""The text port of the exchange: connections that log in, then either listen to the feed or send requests of a broker.

All messages of a turn of the reactor go to a connection in one write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from deltabook.wire import text
from exchange_server.errors import ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.journal import MessageStream
from exchange_server.matching.inputs import AnyInput, MassCancel, OpenAccount
from exchange_server.matching.order import Account, AccountLimits, CancelReason, SelfTrade
from exchange_server.readers import (
    Audience,
    Count,
    Reader,
    ReaderLimits,
    Readers,
    Tail,
    Timers,
    farthest_behind_bytes,
    peer_of,
)
from exchange_server.text.protocol import PROTOCOL, account_name, input_of

__all__ = ["TextLimits", "TextServer"]


class Broker:
    """Broker with connections."""

    __slots__ = ("account", "audience", "last_client_id")

    def __init__(self, account: Account, audience: Audience[TextConnection]) -> None:
        self.account = account
        """Account of the broker in the market."""
        self.audience = audience
        """Connections of the broker, which follow its private stream."""
        self.last_client_id = account.last_ref
        """Client id of the latest accepted request, executed or not."""


class ConnectionOwner(Protocol):
    """Part of the server that a connection uses."""

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
        """Remove a connection that is closed."""
        ...

    def taken(self) -> None:
        """Note that the connection has passed on all requests of the received data."""
        ...

    def input_ended(self, connection: TextConnection) -> None:
        """Answer the requests of a client that sends nothing more, and close its connection."""
        ...

    def login_listener(self, connection: TextConnection, login: text.PassiveLogin) -> None:
        """Accept a listener, or refuse it."""
        ...

    def login_broker(self, connection: TextConnection, login: text.InteractiveLogin) -> None:
        """Accept a client that will send requests, or refuse it."""
        ...

    def bind_broker(self, connection: TextConnection, request: text.Request) -> None:
        """Bind a connection to the broker of its first request, or refuse the request."""
        ...

    def take(self, connection: TextConnection, broker: Broker, request: text.Request) -> None:
        """Accept a request."""
        ...


@implementer(IPushProducer, IHalfCloseableProtocol)
class TextConnection(LineOnlyReceiver):
    """Connection with one client; no client's behaviour affects other connections.

    A client that closes its side of the connection is answered before the other side is closed.
    """

    _log = Logger()
    delimiter = b"\n"
    MAX_LENGTH = text.LINE_LIMIT_BYTES
    transport: Any

    def __init__(self, server: ConnectionOwner, peer: str) -> None:
        self._server = server
        self.peer = peer
        self.reader = Reader(self, server.clock)
        self.broker: Broker | None = None
        """Broker that the connection trades for; None before it is known."""
        self.is_interactive = False
        self.is_passive = False
        self._waits_for_broker = False
        self._is_paused = False

    @property
    def account(self) -> str:
        """Name of the account that the connection trades for, empty for none."""
        return "" if self.broker is None else self.broker.account.name

    def connectionMade(self) -> None:
        """Wait for a login until the timeout."""
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

    def readConnectionLost(self) -> None:
        """Answer the received requests, and close: the client sends nothing more."""
        self._server.input_ended(self)

    def writeConnectionLost(self) -> None:
        """Do nothing: only the whole connection is closed."""

    def dataReceived(self, data: bytes) -> None:
        """Process any number of lines and incomplete lines."""
        self._server.read_s = self._server.clock.seconds()
        super().dataReceived(data)  # type: ignore[no-untyped-call] # Twisted's own code has no types here
        self._server.taken()

    def lineReceived(self, line: bytes) -> None:
        """Process a login first, requests afterwards; lines of a listener are ignored."""
        if self.reader.is_closed:
            return
        if self.is_interactive:
            self._request(line)
        elif not self.is_passive:
            self._login(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Send the reason and close."""
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
        """Wait for the first request, which determines the broker; until then, refusals may fill the transport."""
        self.is_interactive = self._waits_for_broker = True
        self.transport.registerProducer(self, True)

    def follow(self, tail: Tail) -> None:
        """Start to send a stream; from now on the transport pauses and resumes it."""
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
            self._server.bind_broker(self, request)
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
        """Close the connection; pending bytes are sent first (`flush`) or discarded.

        Without `flush`, pending bytes of a connection that is already closing are discarded too: its client
        may never read them.
        """
        if self.reader.is_closed:
            if not flush:
                self.transport.abortConnection()
            return
        self._log.info("text: {peer} closed: {reason}", peer=self.peer, reason=reason)
        if self._waits_for_broker:
            self.transport.unregisterProducer()
        self.reader.close(flush=flush)

    def pauseProducing(self) -> None:
        """Pause sending and reading of requests until the transport's full buffer has drained."""
        self._is_paused = True
        self.reader.pause()
        if self.is_interactive and not self.reader.is_closed:
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Resume sending and reading: the transport's buffer has drained."""
        self._is_paused = False
        if self.is_interactive and not self.reader.is_closed:
            self.transport.resumeProducing()
        self.reader.resume()

    def stopProducing(self) -> None:
        """Stop sending: the transport has ended."""
        self.reader.pause()


_DISCONNECT: Final = int(CancelReason.DISCONNECT)


class TextLimits(ReaderLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the server."""

    brokers: Count = 10_000
    """Largest number of brokers with a private stream."""
    batch_inputs: Count = 1_000
    """Number of collected requests at which they are executed at once."""
    account: AccountLimits = AccountLimits()
    """Limits of each broker."""
    self_trade: SelfTrade = "allow"
    """Policy for a broker's orders that would trade with each other."""


class TextServer(Factory):
    """Submits the requests of clients and delivers the results.

    The requests that one connection received at once are one batch. If the journal is synced for each batch, the
    requests of all connections in a turn of the reactor are one batch. `stop` is called with the reason when the
    journal fails: an exchange that cannot write must not answer.
    """

    _log = Logger()
    noisy = False

    def __init__(self, exchange: Exchange, clock: Timers, limits: TextLimits, stop: Callable[[str], None]) -> None:
        self.exchange = exchange
        self.clock = clock
        self.limits = limits
        self._stop = stop
        self._feed: Audience[TextConnection] = Audience(exchange.feeds["text"], self._announce, self._feed_beat)
        self._brokers: dict[int, Broker] = {}
        self._accounts = sum(account.protocol == PROTOCOL for account in exchange.market.accounts)
        self.read_s = 0.0
        """Time at which a connection last received anything."""
        self._pending: list[tuple[text.Request, Account]] = []
        self._first_read_s = 0.0
        self._flush_call: Any = None
        self._news: list[Audience[TextConnection]] = []
        self._is_closing = False
        self.readers: Readers[TextConnection] = Readers(clock, limits, self._deliver, self._beat)
        """Connections of the server."""

    def startFactory(self) -> None:
        """Cancel the orders whose connections ended with the previous process; called when the port opens."""
        self._submit([item for account in self.exchange.market.accounts for item in self._orphans(account)])

    def buildProtocol(self, addr: IAddress | None) -> TextConnection:
        """Return a connection for a new client."""
        return TextConnection(self, peer_of(addr))

    # -- connections --------------------------------------------------------------------------------------------

    @property
    def listeners(self) -> int:
        """Number of passive listeners that are logged in."""
        return len(self._feed.connections)

    @property
    def clients(self) -> int:
        """Number of interactive clients that are logged in and whose broker is known."""
        return sum(len(broker.audience.connections) for broker in self._brokers.values())

    @property
    def farthest_behind_bytes(self) -> int:
        """Number of bytes by which the slowest listener is behind."""
        return farthest_behind_bytes(self._feed.connections)

    def forget(self, connection: TextConnection) -> None:
        """Remove a connection that has ended."""
        self.readers.forget(connection)
        self._leave(connection)

    def input_ended(self, connection: TextConnection) -> None:
        """Execute the requests of a client that sends nothing more, send it the answers, and close its connection."""
        self.flush()
        self.readers.deliver()
        connection.cut("the client has closed its side", flush=True)
        self._leave(connection)

    def _leave(self, connection: TextConnection) -> None:
        """Remove a connection from its audience; after a broker's last one, the broker's orders may be cancelled."""
        self._feed.connections.discard(connection)
        broker = connection.broker
        if broker is None or connection not in broker.audience.connections:
            return
        broker.audience.connections.discard(connection)
        if not broker.audience.connections:
            self.flush()
            broker.audience.close()
            del self._brokers[broker.account.broker_id]
            if not self._is_closing:
                self._submit(self._orphans(broker.account))

    def _orphans(self, account: Account) -> list[AnyInput]:
        """Return the inputs that cancel an account's orders if it cancels on disconnection, otherwise none."""
        if account.protocol != PROTOCOL or not (account.cancel_on_disconnect and account.orders):
            return []
        self._log.info("text: broker {broker} has no connection any more", broker=account.broker_id)
        return [MassCancel(self.exchange.next_time_ns(), account.index, "", _DISCONNECT)]

    # -- logins ------------------------------------------------------------------------------------------------

    def login_listener(self, connection: TextConnection, login: text.PassiveLogin) -> None:
        """Accept a listener at its position, or refuse it."""
        records = self._feed.stream.records
        number = self._position(connection, login.session, login.sequence, records.next_number)
        if number is None:
            return
        connection.is_passive = True
        connection.transport.write(text.encode_login_reply(text.Accepted(self.exchange.session, number)))
        self._log.info("text: {peer} listens from {number}", peer=connection.peer, number=number)
        self._feed.connections.add(connection)
        if tail := self.readers.tail(connection, records, number, self._feed.heartbeat):
            connection.follow(tail)

    def login_broker(self, connection: TextConnection, login: text.InteractiveLogin) -> None:
        """Accept a trading client at its position, or refuse it."""
        if login.broker_id is None:
            connection.await_broker()
            connection.transport.write(text.encode_login_reply(text.Accepted(self.exchange.session, 0, 0)))
            return
        if not self._may_trade(login.broker_id):
            connection.refuse_login("login", self._not_allowed(login.broker_id))
            return
        self.flush()
        account = self.exchange.market.account_named(account_name(login.broker_id))
        newest = 1 if account is None else account.next_message
        number = self._position(connection, login.session, login.sequence, newest)
        if number is None:
            return
        account = self._opened(login.broker_id, account, login.cancel_on_disconnect)
        if account is None:
            return
        connection.is_interactive = True
        reply = text.Accepted(self.exchange.session, number, account.last_ref)
        connection.transport.write(text.encode_login_reply(reply))
        self._log.info("text: {peer} trades as broker {broker}", peer=connection.peer, broker=login.broker_id)
        self._join(connection, account, number)

    def bind_broker(self, connection: TextConnection, request: text.Request) -> None:
        """Bind a client that named no broker to the broker of its first request; send it the messages from now on."""
        broker_id = request.broker_id
        if not self._may_trade(broker_id):
            connection.refuse_request(request.client_id, self._not_allowed(broker_id))
            return
        self.flush()
        account = self._opened(broker_id, self.exchange.market.account_named(account_name(broker_id)), None)
        if account is not None:
            self._join(connection, account, account.next_message)

    def _may_trade(self, broker_id: int) -> bool:
        known = self.exchange.market.account_named(account_name(broker_id)) is not None
        return broker_id >= 0 and (known or self._accounts < self.limits.brokers)

    def _not_allowed(self, broker_id: int) -> str:
        return f"expected a broker of 0 or more and at most {self.limits.brokers} brokers was {broker_id}"

    def _opened(self, broker_id: int, account: Account | None, choice: bool | None) -> Account | None:
        """Return a broker's account with the present settings; None if the journal failed."""
        limits = self.limits
        before = account is not None and account.cancel_on_disconnect
        cancels = before if choice is None else choice
        wanted = (limits.account, limits.self_trade, cancels)
        if account is None or (account.limits, account.self_trade, account.cancel_on_disconnect) != wanted:
            name, time_ns = account_name(broker_id), self.exchange.next_time_ns()
            if not self._submit([OpenAccount(time_ns, name, PROTOCOL, broker_id, *wanted)]):
                return None
            self._accounts += account is None
            account = self.exchange.market.account_named(name)
        return account

    def _join(self, connection: TextConnection, account: Account, number: int) -> None:
        broker_id = account.broker_id
        broker = self._brokers.get(broker_id)
        if broker is None:
            try:
                stream = self.exchange.stream(account)
            except ExchangeError as error:
                self._stop(str(error))
                return
            beat = partial(self._private_beat, account, stream)
            audience: Audience[TextConnection] = Audience(stream, self._announce, beat)
            broker = self._brokers[broker_id] = Broker(account, audience)
        connection.broker = broker
        broker.audience.connections.add(connection)
        records = broker.audience.stream.records
        if tail := self.readers.tail(connection, records, number, broker.audience.heartbeat):
            connection.follow(tail)

    def _position(self, connection: TextConnection, session: str, sequence: int, newest: int) -> int | None:
        if session and session != self.exchange.session:
            connection.refuse_login("session", f"expected session {self.exchange.session} was {session}")
            return None
        if sequence > newest:
            connection.refuse_login("sequence", f"expected a sequence up to {newest} was {sequence}")
            return None
        return sequence or newest

    # -- requests in -------------------------------------------------------------------------------------------

    def take(self, connection: TextConnection, broker: Broker, request: text.Request) -> None:
        """Collect a request; a retransmission is answered, not executed."""
        client_id = request.client_id
        if client_id <= broker.last_client_id:
            reason = "duplicate" if client_id > 0 else f"expected a client id of 1 or more was {client_id}"
            connection.refuse_request(client_id, reason, request.order_id, request.symbol)
            return
        broker.last_client_id = client_id
        if not self._pending:
            self._first_read_s = self.read_s
        self._pending.append((request, broker.account))
        if len(self._pending) >= self.limits.batch_inputs:
            self.flush()

    def taken(self) -> None:
        """Execute the collected requests of a connection, or wait for other connections in this turn."""
        if not self._pending:
            return
        if not self.exchange.is_group_commit:
            self.flush()
        elif self._flush_call is None:
            self._flush_call = self.clock.callLater(0, self.flush)

    def flush(self) -> None:
        """Execute the collected requests."""
        if self._flush_call is not None and self._flush_call.active():
            self._flush_call.cancel()
        self._flush_call = None
        pending, self._pending = self._pending, []
        if pending:
            time_ns = self.exchange.next_time_ns(count=len(pending))
            self._submit([input_of(*request, time_ns + n) for n, request in enumerate(pending)])
            self.readers.requests.add(self.clock.seconds() - self._first_read_s)

    def _submit(self, batch: Sequence[AnyInput]) -> bool:
        """Submit a batch; return False if the exchange must end."""
        try:
            self.exchange.submit(batch)
        except ExchangeError as error:
            self._stop(str(error))
            return False
        return True

    # -- lines out ---------------------------------------------------------------------------------------------

    def _announce(self, audience: Audience[TextConnection]) -> None:
        self._news.append(audience)
        self.readers.deliver_soon()

    def _deliver(self) -> None:
        news, self._news = self._news, []
        for audience in news:
            self.readers.spread(audience.connections, audience.stream.records, audience.take(), audience.heartbeat())

    def _beat(self) -> None:
        self.readers.beat()

    def _feed_beat(self) -> bytes:
        number = self._feed.stream.records.next_number
        return f"{number},{self.exchange.heartbeat_time_ns()},0,0,H,0,0,\n".encode("ascii")

    def _private_beat(self, account: Account, stream: MessageStream) -> bytes:
        number, time_ns = stream.records.next_number, self.exchange.heartbeat_time_ns()
        return f"{number},{time_ns},0,{account.broker_id},H,0,0,,0,\n".encode("ascii")

    def close(self) -> None:
        """Execute the pending requests, send the answers, then close every connection."""
        self.flush()
        self._is_closing = True
        self.readers.close()
