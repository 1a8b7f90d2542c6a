"""Plain byte streams over TCP, of any format and without a login: thousands of them in one reactor thread."""

from __future__ import annotations

from collections import deque
from typing import Any

from twisted.internet.protocol import ServerFactory

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec
from runtime.sources.base import BufferSink, Position, Source
from runtime.sources.connecting import Backoff, ConnectingSource
from runtime.sources.connection import BUFFER_BYTES, Connection, Turn
from runtime.sources.errors import SourceStateError

__all__ = ["TcpListener", "TcpSource"]


class TcpSource(ConnectingSource):
    """Connects and reads until the server closes: that is the end of the stream, anything else is a failure.

    The stream cannot be asked for again. With ``reconnects`` an end of any kind is a loss instead: the engine connects
    again, and what was sent in between, and the tuple that was open, is missing (at most once). Sources that share a
    ``turn`` share its delayed calls.
    """

    __slots__ = ("_buffer_bytes", "_codec", "_reconnects", "_turn")

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        origin_id: int,
        *,
        turn: Turn | None = None,
        codec: Codec | None = None,
        reconnects: bool = False,
        backoff: Backoff | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        connect_timeout_s: float = 5.0,
    ) -> None:
        super().__init__(reactor, host, port, origin_id, backoff=backoff, connect_timeout_s=connect_timeout_s)
        _check_codec(codec)
        self._turn = turn or Turn(reactor)
        self._codec = codec
        self._reconnects = reconnects
        self._buffer_bytes = buffer_bytes

    @property
    def replays(self) -> bool:
        """See `Source`."""
        return False

    def codec_at(self, position: Position) -> Codec | None:
        """See `Source`: every connection is a stream of its own from its beginning."""
        del position
        return self._codec

    def make_connection(self, position: Position) -> Connection:
        """See `ConnectingSource`."""
        offset = -1 if self._codec is not None else position.offset
        return Connection(self, self._origin_id, self._turn, offset, self._buffer_bytes)

    def ended(self, reason: str, *, is_clean: bool) -> None:
        """See `ConnectingSource`."""
        if self._reconnects:
            super().ended(reason, is_clean=is_clean)
        elif not is_clean:
            self.fail(f"expected {self.where} to send its stream to the end, was a connection lost: {reason}")
        elif self._sink is not None:
            self._sink.end_of_stream(self._origin_id)


class TcpListener:
    """A port at which senders connect: each connection is the stream of one source, in the order of their opening.

    It listens from the first `open` of a source until all are closed. A connection for which no source waits is closed.
    Everything runs on the reactor's thread, but for `resume` and `close` of its sources.
    """

    def __init__(
        self,
        reactor: Any,
        port: int = 0,
        *,
        interface: str = "127.0.0.1",
        turn: Turn | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        backlog: int = 4096,
    ) -> None:
        self._reactor = reactor
        self._wanted = (port, interface, backlog)
        self._turn = turn or Turn(reactor)
        self._buffer_bytes = buffer_bytes
        self._waiting: deque[_AcceptedSource] = deque()
        self._open = 0
        self._port: Any = None

    def source(self, origin_id: int, codec: Codec | None = None) -> Source:
        """A source that the next sender feeds for which no earlier one waits."""
        return _AcceptedSource(self, origin_id, codec)

    @property
    def port(self) -> int:
        """Where it listens; 0 while it does not."""
        return int(self._port.getHost().port) if self._port is not None else 0

    # From its sources

    def wait(self, source: _AcceptedSource) -> None:
        """The source wants a connection."""
        self._waiting.append(source)
        self._open += 1
        if self._port is None:
            port, interface, backlog = self._wanted
            self._port = self._reactor.listenTCP(port, _Acceptor(self), backlog=backlog, interface=interface)

    def closed(self, source: _AcceptedSource) -> None:
        """The source wants nothing any more."""
        if source in self._waiting:
            self._waiting.remove(source)
        self._open -= 1
        if not self._open and self._port is not None:
            port, self._port = self._port, None
            port.stopListening()

    def call(self, call: Any) -> None:
        """Run something on the reactor's thread."""
        self._reactor.callFromThread(call)

    def accept(self) -> Connection | None:
        """A sender has connected."""
        if not self._waiting:
            return None
        source = self._waiting.popleft()
        return source.accepted(self._turn, self._buffer_bytes)


class _AcceptedSource(Source):
    """One of a listener's streams."""

    __slots__ = ("_codec", "_connection", "_is_closed", "_is_open", "_listener", "_offset", "_origin_id", "_sink")

    def __init__(self, listener: TcpListener, origin_id: int, codec: Codec | None) -> None:
        _check_codec(codec)
        self._listener = listener
        self._origin_id = origin_id
        self._codec = codec
        self._offset = 0
        self._sink: BufferSink | None = None
        self._connection: Connection | None = None
        self._is_open = self._is_closed = False

    @property
    def replays(self) -> bool:
        return False

    def codec_at(self, position: Position) -> Codec | None:
        del position
        return self._codec

    def open(self, sink: BufferSink, position: Position) -> None:
        if self._sink is not None or self._is_closed:
            raise SourceStateError(f"expected a source that was never opened, was origin {self._origin_id} again")
        self._sink = sink
        self._offset = -1 if self._codec is not None else position.offset
        self._is_open = True
        self._listener.wait(self)

    def resume(self) -> None:
        self._listener.call(self._resume)

    def close(self) -> None:
        self._is_closed = True
        self._listener.call(self._drop)

    def accepted(self, turn: Turn, buffer_bytes: int) -> Connection:
        """The sender that feeds it is there."""
        self._connection = Connection(self, self._origin_id, turn, self._offset, buffer_bytes)
        return self._connection

    def offer(self, raw: RawBuffer) -> bool:
        return self._sink is not None and not self._is_closed and self._sink.offer(raw)

    def broken(self, connection: Connection, reason: str, *, is_clean: bool) -> None:
        self._connection = None
        if self._is_closed or self._sink is None:
            return
        if is_clean:
            self._sink.end_of_stream(self._origin_id)
        else:
            self._sink.failed(
                self._origin_id, f"expected a sender to send its stream to the end, was a connection lost: {reason}"
            )

    def _resume(self) -> None:
        if self._connection is not None:
            self._connection.flush()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()
        if self._is_open:
            self._is_open = False
            self._listener.closed(self)


class _Acceptor(ServerFactory):
    """Gives each connection to the source that has waited longest."""

    noisy = False

    def __init__(self, listener: TcpListener) -> None:
        self._listener = listener

    def buildProtocol(self, addr: object) -> Any:
        return self._listener.accept()


def _check_codec(codec: Codec | None) -> None:
    """TCP keeps no borders between buffers."""
    if codec is not None and not codec.is_sequential:
        raise ValueError(f"expected a sequential codec for a TCP stream, was {codec.mode}")
