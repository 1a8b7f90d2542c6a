"""The text face of the exchange: who listens, who trades, and one write each per burst."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from deltabook.wire import text
from exchange_server.errors import ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.inputs import CLIENT, Input
from exchange_server.journal import LineFile
from exchange_server.tail import Tail
from exchange_server.text.connection import TextConnection

__all__ = ["Limits", "TextServer"]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the server puts up with."""

    connections: int = 256
    """Open connections at once."""
    brokers: int = 10_000
    """Brokers with a private stream."""
    login_timeout_s: float = 10.0
    """How long a connection may stay without a login."""
    silence_s: float = 1.0
    """A heartbeat follows this much silence."""
    lag_bytes: int = 64 * 1024 * 1024
    """A reader that falls behind by more is cut."""
    stall_s: float = 30.0
    """A reader whose transport takes nothing for so long, with something to take, is cut."""
    batch_inputs: int = 1_000
    """Requests collected in one reactor turn before they are executed at once."""


class Timers(Protocol):
    """The part of a reactor that tells and keeps time."""

    def seconds(self) -> float:
        """Monotonic seconds."""

    def callLater(self, delay: float, callable: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - Twisted's name
        """Call something after a delay."""


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
        self._connections: set[TextConnection] = set()
        self._listeners: set[TextConnection] = set()
        self._brokers: dict[int, set[TextConnection]] = {}
        self._last_client_id: dict[int, int] = {}
        self._pending: list[Input] = []
        self._flush_call: Any = None
        self._deliver_call: Any = None
        self._feed_burst: list[bytes] = []
        self._private_bursts: dict[int, list[bytes]] = {}
        exchange.output = self._collect
        self._beat_call = clock.callLater(limits.silence_s / 4, self._beat)

    def buildProtocol(self, addr: IAddress | None) -> TextConnection:
        """A connection."""
        host, port = getattr(addr, "host", "?"), getattr(addr, "port", 0)
        return TextConnection(self, f"{host}:{port}")

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
        return max((c.tail.lag_bytes for c in self._listeners if c.tail), default=0)

    def admit(self, connection: TextConnection) -> bool:
        """Whether there is room for it; if so it is remembered."""
        if len(self._connections) >= self.limits.connections:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: TextConnection) -> None:
        """It is gone."""
        self._connections.discard(connection)
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
        connection.follow(self._tail(connection, self.exchange.journal.feed, number, self._feed_beat))

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
        connection.follow(self._tail(connection, stream, number, lambda: self._private_beat(broker_id)))

    def _position(self, connection: TextConnection, session: str, sequence: int, lines: LineFile) -> int | None:
        if session and session != self.exchange.session:
            connection.refuse_login("session", f"expected session {self.exchange.session} was {session}")
            return None
        if sequence > lines.next_number:
            connection.refuse_login("sequence", f"expected a sequence up to {lines.next_number} was {sequence}")
            return None
        return sequence or lines.next_number

    def _tail(self, connection: TextConnection, lines: LineFile, number: int, heartbeat: Any) -> Tail:
        return Tail(lines, number, connection.transport, heartbeat, lag_limit_bytes=self.limits.lag_bytes)

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
            self._deliver()

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
        if self._deliver_call is None:
            self._deliver_call = self.clock.callLater(0, self._deliver)

    def _deliver(self) -> None:
        if self._deliver_call is not None and self._deliver_call.active():
            self._deliver_call.cancel()
        self._deliver_call = None
        if self._feed_burst:
            burst, self._feed_burst = b"".join(self._feed_burst), []
            self._spread(self._listeners, self.exchange.journal.feed, burst, self._feed_beat())
        bursts, self._private_bursts = self._private_bursts, {}
        for broker_id, parts in bursts.items():
            stream = self.exchange.journal.stream(broker_id)
            self._spread(self._brokers.get(broker_id, ()), stream, b"".join(parts), self._private_beat(broker_id))

    def _spread(self, connections: Iterable[TextConnection], lines: LineFile, burst: bytes, beat: bytes) -> None:
        start, data, now_s = lines.size_bytes - len(burst), burst + beat, self.clock.seconds()
        for connection in tuple(connections):
            tail = connection.tail
            if tail is not None:
                tail.burst(start, data, now_s)
                if tail.too_slow:
                    connection.cut(f"slow: {tail.lag_bytes} bytes behind, the limit is {self.limits.lag_bytes}")

    def _beat(self) -> None:
        """Heartbeats after silence, and the end of readers that take nothing."""
        self._beat_call = self.clock.callLater(self.limits.silence_s / 4, self._beat)
        now_s = self.clock.seconds()
        if not self._pending and self._deliver_call is None:
            for connection in tuple(self._connections):
                self._beat_one(connection, now_s)

    def _beat_one(self, connection: TextConnection, now_s: float) -> None:
        tail = connection.tail
        if tail is None:
            return
        silent_s = now_s - tail.written_s
        if tail.paused and silent_s >= self.limits.stall_s:
            connection.cut(f"slow: took nothing for {silent_s:.0f} s")
        elif silent_s >= self.limits.silence_s:
            tail.beat(now_s)

    def _feed_beat(self) -> bytes:
        return f"{self.exchange.market.next_sequence},{self.exchange.heartbeat_time_ns()},0,0,H,0,0,\n".encode("ascii")

    def _private_beat(self, broker_id: int) -> bytes:
        number = self.exchange.journal.stream(broker_id).next_number
        return f"{number},{self.exchange.heartbeat_time_ns()},0,{broker_id},H,0,0,,0,\n".encode("ascii")

    def close(self) -> None:
        """Execute and send what is there, then close every connection."""
        self.flush()
        self._deliver()
        if self._beat_call.active():
            self._beat_call.cancel()
        for connection in tuple(self._connections):
            connection.cut("the exchange stops", flush=True)
