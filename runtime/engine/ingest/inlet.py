"""Inlets: sources of the engine, each of which offers the buffers of an origin and can be shut by its owner."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.engine.ingest.deltas import Mark, MarkKind
from runtime.engine.plan import Emitter, Source
from runtime.formats import RawBuffer
from runtime.sources import BufferSink
from runtime.sources import Source as RawSource

__all__ = ["Inlet"]


class Inlet(Source, BufferSink):
    """Connection of a source of raw buffers to the engine, which admits or refuses the source's buffers.

    While the inlet is shut it refuses all offers, even if the engine has room: the source pauses, and is resumed when
    the inlet is opened again. A mark, such as the end of the stream, enters the plan after all earlier buffers of the
    source.

    Thread-safe: the origin's source calls the methods of `BufferSink`; the applying step calls `end`, `close_source`
    and `retire`; workers call the methods of `Source`; the owner calls the others. All mutable state is accessed with
    the lock held, except attributes that only the source's thread changes.
    """

    def __init__(self, origin_id: int, source: RawSource, defer: Callable[[Callable[[], None]], None]) -> None:
        """Create a closed inlet.

        ``defer`` runs a call on the source's thread.
        """
        self._origin_id = origin_id
        self._source = source
        self._defer = defer
        self._weight = 1
        self._open_at: Callable[[BufferSink], None] = lambda _: None
        self._on_lost: Callable[[int, str], None] = lambda origin_id, reason: None
        self._lock = threading.Lock()
        self._emit: Emitter | None = None
        self._is_held = self._is_open = self._is_over = self._is_ending = False
        self._is_shut = False
        self._has_refused = False  # True if a buffer was refused since the inlet was shut
        self._mark: Mark | None = None  # mark that was refused, and waits for room
        self._rooms = 0  # number of calls of `resume`
        self.on_let_in: Callable[[RawBuffer], None] | None = None
        """Function that is called on the source's thread with each buffer that was admitted; None if there is none."""
        self.taken_bytes = 0
        """Number of bytes of the buffers that were admitted so far."""
        self.is_waiting = False
        """True if the source keeps a buffer that was refused."""

    def __str__(self) -> str:
        return type(self._source).__name__

    def attach(
        self,
        open_at: Callable[[BufferSink], None],
        on_lost: Callable[[int, str], None] = lambda origin_id, reason: None,
        *,
        weight: int = 1,
        is_held: bool = False,
    ) -> None:
        """Prepare for a plan.

        ``open_at`` opens the source for this sink; if ``is_held``, it is not called before `release`.

        ``on_lost`` is called with the origin's number and the reason when the source's connection breaks. A byte of the
        source's buffers counts as ``weight`` bytes.
        """
        self._open_at, self._on_lost, self._weight, self._is_held = open_at, on_lost, weight, is_held

    @property
    def in_flight(self) -> int:
        """Number of buffers in flight; each counts until it and all items derived from it are executed."""
        return 0 if self._emit is None else self._emit.in_flight

    @property
    def is_connected(self) -> bool:
        """See `runtime.sources.Source`."""
        return self._source.is_connected

    # Called by the owner of the origin

    def shut(self) -> None:
        """Refuse all buffers from now on, until `let_in`."""
        with self._lock:
            self._is_shut = True

    def let_in(self) -> None:
        """Admit buffers again."""
        with self._lock:
            self._is_shut = False
            has_refused, self._has_refused = self._has_refused, False
        if has_refused:
            self._source.resume()

    # Called by the engine

    def open(self, emit: Emitter) -> None:
        """Open the origin's source, on the source's own thread, unless the inlet is held."""
        with self._lock:
            self._emit = emit
            is_over, is_held = self._is_over, self._is_held
        if is_over:  # the origin was retired before it could be opened
            emit.end_of_stream()
        elif not is_held:
            self._open_source()

    def close(self) -> None:
        """Close the origin's source, and admit nothing more."""
        self.close_source()

    def resume(self) -> None:
        """Offer a refused mark again, or else resume the source, as there is room."""
        with self._lock:
            self._rooms += 1
            mark, self._mark = self._mark, None
        if mark is not None:
            self._bring(mark)
        else:
            self._source.resume()

    # Called by the origin's source

    def offer(self, raw: RawBuffer) -> bool:
        """See `BufferSink`."""
        with self._lock:
            emit = self._emit
            if emit is None or self._is_over:
                return False
            if self._is_shut:
                self._has_refused = self.is_waiting = True
                return False
        size = len(raw.data)
        if not emit.offer(raw, size * self._weight):
            self.is_waiting = True
            return False
        self.is_waiting = False
        self.taken_bytes += size
        if self.on_let_in is not None:
            self.on_let_in(raw)
        return True

    def end_of_stream(self, origin_id: int) -> None:
        """See `BufferSink`."""
        del origin_id
        self.end(MarkKind.ENDED)

    def failed(self, origin_id: int, reason: str) -> None:
        """See `BufferSink`."""
        del origin_id
        self.end(MarkKind.FAILED, reason)

    def lost(self, origin_id: int, reason: str) -> None:
        """See `BufferSink`."""
        if not self._is_over:
            self._on_lost(origin_id, reason)
            self.end(MarkKind.LOST, reason)

    # Called by the ingest

    def end(self, kind: MarkKind, reason: str = "") -> None:
        """Put a mark of this kind after all buffers that were admitted so far; only the first end or failure counts.

        No buffer follows the mark, except after a lost connection that was restored.
        """
        with self._lock:
            emit = self._emit
            if self._is_ending or emit is None:
                return
            self._is_ending = kind is not MarkKind.LOST
        mark = Mark(self._origin_id, kind, reason)
        emit.when_drained(lambda: self._bring(mark))

    def release(self) -> None:
        """End the hold, so that the source may be opened."""
        with self._lock:
            if not self._is_held:
                return
            self._is_held = False
            if self._emit is None:
                return  # the engine will open it
        self._open_source()

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call ``call`` once all buffers that the source has delivered so far are formatted, applied and executed."""
        if self._emit is None:
            call()
        else:
            self._emit.when_drained(call)

    def close_source(self) -> None:
        """Admit no more buffers; buffers that were admitted are still applied."""
        with self._lock:
            self._is_over = True
            was_open, self._is_open = self._is_open, False
        if was_open:
            self._source.close()

    def retire(self) -> None:
        """End the source of the engine, as the origin has ended; the engine may then close it."""
        self.close_source()
        if self._emit is not None:
            self._emit.end_of_stream()

    def _open_source(self) -> None:
        def call() -> None:
            with self._lock:
                if self._is_over:
                    return
                self._is_open = True
            try:
                self._open_at(self)
            except Exception as error:  # noqa: BLE001 (a source that cannot be opened is a failure of its origin)
                self.end(MarkKind.FAILED, f"{type(error).__name__}: {error}")

        self._defer(call)

    def _bring(self, mark: Mark) -> None:
        """Offer a mark until it is admitted, once; `resume` may be called before the offer has returned."""
        while self._emit is not None:
            with self._lock:
                seen = self._rooms
            if self._emit.offer(mark):
                return
            with self._lock:
                if self._rooms == seen:
                    self._mark = mark
                    return
