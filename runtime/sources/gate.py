"""Back-pressure gate: holds a source closed independently of its sink's free capacity."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec
from runtime.sources.base import BufferSink, Position, Source
from runtime.sources.errors import SourceStateError

__all__ = ["Gate"]


class Gate(Source, BufferSink):
    """Gate between a source and its sink; while it is shut it refuses the buffers that the source offers.

    The source then pauses, as it does for a sink without room, and is resumed when the gate opens. Thread-safe: the
    lock guards whether the gate is shut and whether it has refused a buffer since.
    """

    __slots__ = ("_is_shut", "_lock", "_on_let_in", "_refused", "_sink", "_source", "is_waiting", "taken_bytes")

    def __init__(self, source: Source, on_let_in: Callable[[RawBuffer], None] | None = None) -> None:
        """Create an open gate for an unopened source; ``on_let_in`` is called on its thread with each buffer taken."""
        self._source = source
        self._on_let_in = on_let_in
        self._sink: BufferSink | None = None
        self._lock = threading.Lock()
        self._is_shut = self._refused = False
        self.taken_bytes = 0
        """Bytes that the sink has taken so far."""
        self.is_waiting = False
        """True if the source keeps a buffer that was refused."""

    def shut(self) -> None:
        """Refuse all buffers from now on."""
        with self._lock:
            self._is_shut = True

    def let_in(self) -> None:
        """Open the gate again."""
        with self._lock:
            self._is_shut = False
            refused, self._refused = self._refused, False
        if refused:
            self._source.resume()

    # As a source

    def open(self, sink: BufferSink, position: Position) -> None:
        self._sink = sink
        self._source.open(self, position)

    def resume(self) -> None:
        self._source.resume()

    def close(self) -> None:
        self._source.close()

    def codec_at(self, position: Position) -> Codec | None:
        return self._source.codec_at(position)

    def reconnect(self, position: Position) -> None:
        """Reconnect the source; raise `SourceStateError` for one that does not connect."""
        again = getattr(self._source, "reconnect", None)
        if again is None:
            raise SourceStateError(f"expected a source that connects, was {type(self._source).__name__}")
        again(position)

    @property
    def replays(self) -> bool:
        return self._source.replays

    @property
    def is_connected(self) -> bool:
        """True if the source's server is connected; always so for a file. Read on the source's thread."""
        return bool(getattr(self._source, "is_connected", True))

    @property
    def session(self) -> str:
        """Session of a feed; empty for other sources."""
        return str(getattr(self._source, "session", ""))

    # As a sink

    def offer(self, raw: RawBuffer) -> bool:
        with self._lock:
            if self._is_shut:
                self._refused = self.is_waiting = True
                return False
        is_taken = self._opened_sink().offer(raw)
        self.is_waiting = not is_taken
        if is_taken:
            self.taken_bytes += len(raw.data)
            if self._on_let_in is not None:
                self._on_let_in(raw)
        return is_taken

    def end_of_stream(self, origin_id: int) -> None:
        self._opened_sink().end_of_stream(origin_id)

    def failed(self, origin_id: int, reason: str) -> None:
        self._opened_sink().failed(origin_id, reason)

    def lost(self, origin_id: int, reason: str) -> None:
        self._opened_sink().lost(origin_id, reason)

    def _opened_sink(self) -> BufferSink:
        if self._sink is None:
            raise SourceStateError("expected a source that was opened, was not")
        return self._sink
