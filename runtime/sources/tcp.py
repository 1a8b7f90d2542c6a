"""Plain byte streams over TCP, of any format and without a login; one reactor thread reads thousands of them."""

from __future__ import annotations

from typing import Any

from runtime.formats.codecs import Codec
from runtime.sources.base import Position
from runtime.sources.connecting import Backoff, ConnectingSource
from runtime.sources.connection import Connection, Turn

__all__ = ["TcpSource"]


class TcpSource(ConnectingSource):
    """Source that reads until the server closes the connection, which ends the stream; any other end is a failure.

    With ``reconnects``, an end of any kind is a loss, after which the engine connects again. The server does not send
    earlier bytes again. So bytes that it sent between the connections, and a tuple that was incomplete at the loss, are
    missing (delivery at most once). Sources that share a ``turn`` share its delayed calls.
    """

    __slots__ = ("_codec", "_reconnects", "_turn")

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
        connect_timeout_s: float = 5.0,
    ) -> None:
        super().__init__(reactor, host, port, origin_id, backoff=backoff, connect_timeout_s=connect_timeout_s)
        _check_codec(codec)
        self._turn = turn or Turn(reactor)
        self._codec = codec
        self._reconnects = reconnects

    @property
    def replays(self) -> bool:
        """False, because the server does not send its stream again."""
        return False

    def codec_at(self, position: Position) -> Codec | None:
        """Return the codec: every connection is a separate compressed stream."""
        del position
        return self._codec

    def make_connection(self, position: Position) -> Connection:
        """Return a plain connection; see `ConnectingSource`."""
        offset = -1 if self._codec is not None else position.offset
        return Connection(self, self._origin_id, offset, self._turn)

    def ended(self, reason: str, *, is_clean: bool) -> None:
        """Report the end, loss or failure; see `ConnectingSource`."""
        if self._reconnects:
            super().ended(reason, is_clean=is_clean)
        elif not is_clean:
            self.fail(f"expected {self.where} to send its stream to the end, was a connection lost: {reason}")
        elif self.sink is not None:
            self.sink.end_of_stream(self._origin_id)


def _check_codec(codec: Codec | None) -> None:
    """Raise `ValueError` for a codec of single buffers, because TCP does not preserve their boundaries."""
    if codec is not None and not codec.is_sequential:
        raise ValueError(f"expected a sequential codec for a TCP stream, was {codec.mode}")
