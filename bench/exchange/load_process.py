"""``python -m bench.exchange.load_process``: sends orders to an exchange, reads its feed, and reports the time.

This is one process with plain sockets, so that the exchange has a core for itself. It reads a `Job` as a line of JSON,
and prints a `Result` as a line of JSON.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from functools import partial
from typing import Final, cast

import msgspec

from bench.exchange import crowd

__all__ = ["Job", "Result", "main"]

_CHUNK: Final = 1 << 20
_PATIENCE_S: Final = 120.0
_BEAT_S: Final = 1.0
_QUIET_S: Final = 0.5
_HEARTBEATS_BYTES: Final = 300
"""Largest difference between listeners in bytes; listeners get heartbeats of three bytes while the feed is silent."""


class Job(msgspec.Struct, frozen=True):
    """Parameters of a run."""

    ouch_port: int
    itch_port: int
    users: list[str]
    """Users, each of which sends a share of the orders."""
    symbol: str
    listeners: int
    orders: int
    """Number of orders of all sessions together; 0 for none."""
    in_flight_one: bool = False
    """True to send one order at a time and measure the time of each; False to send orders as fast as they are taken."""
    polls: bool = False
    """True to poll for the answer instead of sleeping until it comes, with one order in flight."""


class Result(msgspec.Struct, frozen=True):
    """Result of a run."""

    seconds: float
    """Seconds from the first byte of an order sent until the last answer and the last byte of the feed."""
    answered_s: float
    """Seconds from the first byte of an order sent until the last answer."""
    orders: int
    feed_bytes: int
    """Bytes sent to each listener."""
    latencies_us: list[float]
    """Microseconds from the sending of each order to the receipt of its answer, with one order in flight."""


class _Session:
    """One OUCH session with its unsent data and its answers."""

    def __init__(self, port: int, user: str, data: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(crowd.login(user))
        _read_login(self.socket)
        self.data = memoryview(data)
        self.sent = 0
        self.done = False
        self._tail = b""

    def take(self, chunk: memoryview) -> None:
        # More data may follow the last answer: heartbeats, and executions by other sessions.
        data = self._tail + bytes(chunk)
        self.done = self.done or crowd.LAST_WORD in data
        self._tail = data[-len(crowd.LAST_WORD) :]


def _read_login(connection: socket.socket) -> None:
    """Read the answer to a login, and none of the bytes after it."""
    data = b""
    while len(data) < 33:
        more = connection.recv(33 - len(data))
        if not more:
            raise RuntimeError(f"expected a login's answer, was {data!r}")
        data += more
    if data[2:3] != b"A":
        raise RuntimeError(f"expected an accepted login, was {data!r}")


def _listen(port: int, user: str, listeners: int) -> list[socket.socket]:
    connections = []
    for _ in range(listeners):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(crowd.login(user, 0))
        _read_login(connection)
        connection.setblocking(False)
        connections.append(connection)
    return connections


class _Pipeline:
    """Sessions and listeners of one run."""

    def __init__(self, job: Job) -> None:
        share = job.orders // len(job.users)
        self._selector = selectors.DefaultSelector()
        self._sessions = []
        for user in job.users:
            session = _Session(job.ouch_port, user, crowd.pairs(1_000_001, share, job.symbol) + crowd.QUERY)
            session.socket.setblocking(False)
            self._sessions.append(session)
            self._selector.register(session.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, session)
        self._feed = dict.fromkeys(_listen(job.itch_port, job.users[0], job.listeners), 0)
        for connection in self._feed:
            self._selector.register(connection, selectors.EVENT_READ, None)
        self._buffer = memoryview(bytearray(_CHUNK))
        self._last_answer = self._last_feed = 0.0
        self._beat_s = time.perf_counter()

    def run(self, orders: int) -> Result:
        start = self._last_feed = time.perf_counter()
        while not all(session.done for session in self._sessions):
            self._turn(start)
        answered = self._last_answer
        while time.perf_counter() - self._last_feed < _QUIET_S:
            self._turn(start)
        sizes = set(self._feed.values())
        if sizes and max(sizes) - min(sizes) > _HEARTBEATS_BYTES:
            raise RuntimeError(f"expected the same bytes for every listener, was {sorted(sizes)}")
        end = max(answered, self._last_feed if self._feed else 0.0)
        return Result(end - start, answered - start, orders, max(sizes, default=0), [])

    def _turn(self, start: float) -> None:
        if time.perf_counter() - start > _PATIENCE_S:
            raise RuntimeError(f"expected all answers within {_PATIENCE_S:.0f} s")
        if time.perf_counter() - self._beat_s > _BEAT_S:
            self._beat()
        for key, events in self._selector.select(0.1):
            session = key.data
            if session is None:
                self._read_feed(cast(socket.socket, key.fileobj))
                continue
            if events & selectors.EVENT_READ:
                self._answer(session)
            if events & selectors.EVENT_WRITE:
                self._send(session)

    def _beat(self) -> None:
        """Send heartbeats for listeners and for sessions that do not send any more."""
        self._beat_s = time.perf_counter()
        for connection in self._feed:
            connection.send(crowd.HEARTBEAT)
        for session in self._sessions:
            if session.sent == len(session.data):
                session.socket.send(crowd.HEARTBEAT)

    def _read_feed(self, connection: socket.socket) -> None:
        read = connection.recv_into(self._buffer)
        if not read:
            raise RuntimeError("expected further bytes of the feed, was the end of the connection")
        if read > 3 or self._buffer[2] != ord("H"):
            self._last_feed = time.perf_counter()
        self._feed[connection] += read

    def _answer(self, session: _Session) -> None:
        read = session.socket.recv_into(self._buffer)
        if not read:
            raise RuntimeError("expected answers, was the end of the connection")
        session.take(self._buffer[:read])
        self._last_answer = time.perf_counter()

    def _send(self, session: _Session) -> None:
        if session.sent < len(session.data):
            session.sent += session.socket.send(session.data[session.sent : session.sent + _CHUNK])
        else:
            self._selector.modify(session.socket, selectors.EVENT_READ, session)


def _one_in_flight(job: Job) -> Result:
    """Send each order after the answer to the previous order."""
    session = _Session(job.ouch_port, job.users[0], b"")
    listeners = _listen(job.itch_port, job.users[0], job.listeners)
    data = crowd.pairs(5_000_001, job.orders, job.symbol)
    size = len(data) // job.orders
    send, clock = session.socket.sendall, time.perf_counter_ns
    receive = partial(_poll, session.socket) if job.polls else session.socket.recv_into
    session.socket.setblocking(not job.polls)
    buffer = memoryview(bytearray(_CHUNK))
    latencies_us: list[float] = []
    start = time.perf_counter()
    for number in range(job.orders):
        order = data[number * size : (number + 1) * size]
        wanted = crowd.ACCEPTED_BYTES + (2 * crowd.EXECUTED_BYTES if number % 2 else 0)
        before = clock()
        send(order)
        got = receive(buffer)
        latencies_us.append((clock() - before) / 1_000)
        while got < wanted:
            got += receive(buffer)
        if number % 512 == 0:
            _drain(listeners, buffer)
    seconds = time.perf_counter() - start
    return Result(seconds, seconds, job.orders, 0, latencies_us)


def _poll(connection: socket.socket, buffer: memoryview) -> int:
    """Receive like `recv_into`, without sleeping."""
    while True:
        try:
            return connection.recv_into(buffer)
        except BlockingIOError:
            continue


def _drain(listeners: list[socket.socket], buffer: memoryview) -> None:
    for connection in listeners:
        try:
            while connection.recv_into(buffer):
                pass
        except BlockingIOError:
            continue


def main() -> None:
    """Run one job."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    result = _one_in_flight(job) if job.in_flight_one else _Pipeline(job).run(job.orders)
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")


if __name__ == "__main__":
    main()
