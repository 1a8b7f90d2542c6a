"""Inlets of origins' buffers to the plan: one source of the engine for each origin."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.engine.ingest.deltas import Mark, MarkKind
from runtime.engine.ingest.origin import Origin
from runtime.engine.plan import Emitter, Source
from runtime.formats import RawBuffer
from runtime.sources import BufferSink

__all__ = ["Inlet"]


class Inlet(Source):
    """Connects a source of raw buffers to the engine, and knows when all of its buffers have been applied.

    Thread-safe: the origin's source calls `offer`, `end`, the step that applies calls `left`, `close_source` and
    `end_of_stream`, workers call the rest. All mutable state is accessed with the lock held.
    """

    def __init__(self, origin: Origin, sink: BufferSink, *, is_held: bool) -> None:
        """``sink`` is given to the source when that is opened; if ``is_held``, it is not opened before `release`."""
        self._origin = origin
        self._weight = origin.weight
        self._sink = sink
        self._lock = threading.Lock()
        self._emit: Emitter | None = None
        self._is_held = is_held
        self._is_open = False
        self._is_over = False
        self._is_ending = False
        self._in_flight = 0
        self._on_drained: list[Callable[[], None]] = []
        self._mark: Mark | None = None  # it was refused, and waits for room
        self._rooms = 0  # how often there was room again

    def __str__(self) -> str:
        return type(self._origin.source).__name__

    @property
    def on_the_way(self) -> int:
        """Raw buffers that have been taken and are not applied yet."""
        return self._in_flight

    # From the engine

    def open(self, emit: Emitter) -> None:
        """Open the origin's source, on its own thread, unless it has to wait."""
        with self._lock:
            self._emit = emit
            is_over, is_held = self._is_over, self._is_held
        if is_over:  # nobody reads the origin any more, before it could be opened
            emit.end_of_stream()
        elif not is_held:
            self._open_source()

    def close(self) -> None:
        """Close the origin's source, and take nothing more."""
        self.close_source()

    def resume(self) -> None:
        """There is room again: for a mark that was refused, or for the source's buffers."""
        with self._lock:
            self._rooms += 1
            mark, self._mark = self._mark, None
        if mark is not None:
            self._bring(mark)
        else:
            self._origin.source.resume()

    # From the origin's source

    def offer(self, raw: RawBuffer) -> bool:
        """See `BufferSink`."""
        with self._lock:
            emit = self._emit
            if emit is None or self._is_over:
                return False
            self._in_flight += 1  # before it is, so that it has not left before it is counted
        if emit.offer(raw, len(raw.data) * self._weight):
            return True
        self.left(1)
        return False

    def end(self, kind: MarkKind, reason: str = "") -> None:
        """Nothing follows what was offered so far; or, if the connection was lost, not until it is back.

        The first end counts.
        """
        with self._lock:
            if self._is_ending:
                return
            self._is_ending = kind is not MarkKind.LOST
        mark = Mark(self._origin.origin_id, kind, reason)
        self.when_drained(lambda: self._bring(mark))

    # From the ingest

    def release(self) -> None:
        """The source need not wait any more."""
        with self._lock:
            if not self._is_held:
                return
            self._is_held = False
            if self._emit is None:
                return  # the engine will open it
        self._open_source()

    def left(self, count: int) -> None:
        """Count off buffers that have been applied, or were not taken."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            self._in_flight -= count
            if not self._in_flight and self._on_drained:
                calls, self._on_drained = self._on_drained, calls
        for call in calls:
            call()

    def when_drained(self, call: Callable[[], None]) -> None:
        """Make a call once no buffer of the origin is in flight any more."""
        with self._lock:
            if self._in_flight:
                self._on_drained.append(call)
                return
        call()

    def close_source(self) -> None:
        """Take no more buffers; those that were taken are still applied."""
        with self._lock:
            self._is_over = True
            was_open, self._is_open = self._is_open, False
        if was_open:
            self._origin.source.close()

    def end_of_stream(self) -> None:
        """The origin is over: the engine may close it."""
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
                self._origin.open(self._sink)
            except Exception as error:  # noqa: BLE001 (a source that cannot be opened is a failure of its origin)
                self.end(MarkKind.FAILED, f"{type(error).__name__}: {error}")

        self._origin.defer(call)

    def _bring(self, mark: Mark) -> None:
        """Offer a mark until it is taken, once: there may be room again before the offer has returned."""
        while self._emit is not None:
            with self._lock:
                seen = self._rooms
            if self._emit.offer(mark):
                return
            with self._lock:
                if self._rooms == seen:
                    self._mark = mark
                    return
