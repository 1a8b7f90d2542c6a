"""The text face of the exchange: who listens, who trades, and one write each per burst."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from deltabook.wire import text
from exchange_server.errors import ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.inputs import CLIENT, Input
from exchange_server.journal import LineFile
from exchange_server.readers import ReaderLimits, Readers, Timers, farthest_behind_bytes, peer_of
from exchange_server.text.connection import TextConnection

__all__ = ["Limits", "TextServer"]


class Limits(ReaderLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the server puts up with."""

    brokers: int = 10_000
    """Brokers with a private stream."""
    batch_inputs: int = 1_000
    """Requests collected in one reactor turn before they are executed at once."""


class TextServer(Factory):
    """Collects the requests of a reactor turn, submits them as one batch and hands out what comes of it.

    `stop` is called with the reason when the journal fails: an exchange that cannot write must not answer.
    """

    _log = Logger()
    noisy = False

    def __init__(self, exchange: Exchange, clock: Timers, limits: Limits, stop: Any) -> None:
        self.exchange = exchange
        self.clock = clock
        self.limits = limits
        self._stop = stop
        self._listeners: set[TextConnection] = set()
        self._brokers: dict[int, set[TextConnection]] = {}
        self._last_client_id: dict[int, int] = {}
        self._pending: list[Input] = []
        self._flush_call: Any = None
        self._feed_burst: list[bytes] = []
        self._private_bursts: dict[int, list[bytes]] = {}
        exchange.output = self._collect
        self.readers: Readers[TextConnection] = Readers(clock, limits, self._deliver, self._beat)
        """Its connections."""

    def buildProtocol(self, addr: IAddress | None) -> TextConnection:
        """A connection."""
        return TextConnection(self, peer_of(addr))

    # -- who is there ------------------------------------------------------------------------------------------

    @property
    def listeners(self) -> int:
        """Passive listeners that are logged in."""
        return len(self._listeners)

    @property
    def clients(self) -> int:
        """Interactive clients that are logged in."""
        return sum(map(len, self._brokers.values()))

    @property
    def farthest_behind_bytes(self) -> int:
        """How far the slowest listener is behind."""
        return farthest_behind_bytes(self._listeners)

    def forget(self, connection: TextConnection) -> None:
        """It is gone."""
        self.readers.forget(connection)
        self._listeners.discard(connection)
        if connection.broker_id is not None and connection.broker_id in self._brokers:
            self._brokers[connection.broker_id].discard(connection)
            if not self._brokers[connection.broker_id]:
                del self._brokers[connection.broker_id]
                self._private_bursts.pop(connection.broker_id, None)

    # -- logins ------------------------------------------------------------------------------------------------

    def login_listener(self, connection: TextConnection, login: text.PassiveLogin) -> None:
        """Accept a listener at its position, or refuse it."""
        number = self._position(connection, login.session, login.sequence, self.exchange.journal.feed)
        if number is None:
            return
        connection.passive = True
        connection.transport.write(text.encode_login_reply(text.Accepted(self.exchange.session, number)))
        self._listeners.add(connection)
        self._log.info("text: {peer} listens from {number}", peer=connection.peer, number=number)
        connection.follow(self.readers.tail(connection, self.exchange.journal.feed, number, self._feed_beat))

    def login_broker(self, connection: TextConnection, login: text.InteractiveLogin) -> None:
        """Accept a trading client at its position, or refuse it."""
        if login.broker_id is None:
            connection.interactive = True
            connection.transport.write(text.encode_login_reply(text.Accepted(self.exchange.session, 0, 0)))
            return
        if not self._may_trade(login.broker_id):
            connection.refuse_login("login", f"broker {login.broker_id} is not possible or one too many")
            return
        self.flush()
        stream = self.exchange.journal.stream(login.broker_id)
        number = self._position(connection, login.session, login.sequence, stream)
        if number is None:
            return
        last = self.exchange.market.last_client_id.get(login.broker_id, 0)
        connection.interactive = True
        connection.transport.write(text.encode_login_reply(text.Accepted(self.exchange.session, number, last)))
        self._log.info("text: {peer} trades as broker {broker}", peer=connection.peer, broker=login.broker_id)
        self._join(connection, login.broker_id, number)

    def bind_broker(self, connection: TextConnection, broker_id: int) -> None:
        """A client that named no broker is the broker of its first request, from now."""
        if self._may_trade(broker_id):
            self._join(connection, broker_id, self.exchange.journal.stream(broker_id).next_number)
        else:
            connection.refuse_request(0, f"broker {broker_id} is not possible or one too many")

    def _may_trade(self, broker_id: int) -> bool:
        journal = self.exchange.journal
        return broker_id >= 0 and (journal.has_stream(broker_id) or journal.streams < self.limits.brokers)

    def _join(self, connection: TextConnection, broker_id: int, number: int) -> None:
        connection.broker_id = broker_id
        self._brokers.setdefault(broker_id, set()).add(connection)
        stream = self.exchange.journal.stream(broker_id)
        connection.follow(self.readers.tail(connection, stream, number, lambda: self._private_beat(broker_id)))

    def _position(self, connection: TextConnection, session: str, sequence: int, lines: LineFile) -> int | None:
        if session and session != self.exchange.session:
            connection.refuse_login("session", f"expected session {self.exchange.session} was {session}")
            return None
        if sequence > lines.next_number:
            connection.refuse_login("sequence", f"expected a sequence up to {lines.next_number} was {sequence}")
            return None
        return sequence or lines.next_number

    # -- requests in -------------------------------------------------------------------------------------------

    def take(self, connection: TextConnection, request: text.Request) -> None:
        """Collect a request; a retransmission is answered, not executed."""
        r = request
        broker_id = r.broker_id
        last = self._last_client_id.get(broker_id)
        if last is None:
            last = self.exchange.market.last_client_id.get(broker_id, 0)
        if r.client_id <= last:
            reason = "duplicate" if r.client_id > 0 else f"expected a client id of 1 or more was {r.client_id}"
            connection.refuse_request(r.client_id, reason, r.order_id, r.symbol)
            return
        self._last_client_id[broker_id] = r.client_id
        time_ns = self.exchange.next_time_ns()
        self._pending.append(
            Input(CLIENT, time_ns, r.client_id, r.order_id, broker_id, r.action, r.volume, r.price, r.symbol)
        )
        if len(self._pending) >= self.limits.batch_inputs:
            self.flush()
        elif self._flush_call is None:
            self._flush_call = self.clock.callLater(0, self.flush)

    def flush(self) -> None:
        """Execute what was collected and hand out the answers."""
        if self._flush_call is not None and self._flush_call.active():
            self._flush_call.cancel()
        self._flush_call = None
        pending, self._pending = self._pending, []
        if pending:
            self._submit(pending)
            self.readers.deliver()

    def submit(self, batch: list[Input]) -> list[int]:
        """Execute a batch that the exchange's own flow made; the answers are handed out in the next reactor turn."""
        self.flush()
        return self._submit(batch)

    def _submit(self, batch: list[Input]) -> list[int]:
        try:
            return self.exchange.submit(batch)
        except ExchangeError as error:
            self._stop(str(error))
            return [0] * len(batch)

    # -- lines out ---------------------------------------------------------------------------------------------

    def _collect(self, feed: bytes, private: dict[int, bytes]) -> None:
        if feed:
            self._feed_burst.append(feed)
        for broker_id, data in private.items():
            if broker_id in self._brokers:
                self._private_bursts.setdefault(broker_id, []).append(data)
        self.readers.deliver_soon()

    def _deliver(self) -> None:
        if self._feed_burst:
            burst, self._feed_burst = b"".join(self._feed_burst), []
            self.readers.spread(self._listeners, self.exchange.journal.feed, burst, self._feed_beat())
        bursts, self._private_bursts = self._private_bursts, {}
        for broker_id, parts in bursts.items():
            stream = self.exchange.journal.stream(broker_id)
            self.readers.spread(
                self._brokers.get(broker_id, ()), stream, b"".join(parts), self._private_beat(broker_id)
            )

    def _beat(self) -> None:
        if not self._pending:
            self.readers.beat()

    def _feed_beat(self) -> bytes:
        return f"{self.exchange.market.next_sequence},{self.exchange.heartbeat_time_ns()},0,0,H,0,0,\n".encode("ascii")

    def _private_beat(self, broker_id: int) -> bytes:
        number = self.exchange.journal.stream(broker_id).next_number
        return f"{number},{self.exchange.heartbeat_time_ns()},0,{broker_id},H,0,0,,0,\n".encode("ascii")

    def close(self) -> None:
        """Execute and send what is there, then close every connection."""
        self.flush()
        self.readers.close()
