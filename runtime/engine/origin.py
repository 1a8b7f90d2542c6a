"""One origin inside the ingest: its source, its formatter, the order of its batches, and where its cut is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from runtime.engine.errors import EngineError
from runtime.epochs import Cut
from runtime.formats import FormattedBatch, InOrder, InputFormatter
from runtime.relations import Adaptor, Prepared
from runtime.sources import BufferSink, Position, Source

__all__ = ["Origin"]

_MOST_WAITING_ROWS: Final = 4_000_000
_IN_ORDER_CAPACITY: Final = 4096


class Origin:
    """What the ingest knows of one source.

    `enter`, `leave` and `when_drained` may be called from any thread; the rest belongs to the holder of the ingest's
    apply lock.
    """

    def __init__(
        self,
        origin_id: int,
        name: str,
        source: Source,
        adaptor: Adaptor,
        start: Position,
        *,
        first: bool = False,
        defer: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """``first``: read to its end before others open; ``defer`` runs a call on the source's own thread."""
        self.origin_id = origin_id
        self.name = name
        self.source = source
        self.adaptor = adaptor
        self.first = first
        self.ended = False
        self._defer = defer or (lambda call: call())
        self._start = start
        self._cut = Cut(start.session, max(0, start.sequence - 1), start.offset)
        self.formatter = InputFormatter(adaptor.schema)
        self._order = InOrder(_IN_ORDER_CAPACITY)
        self._waiting: pa.RecordBatch | None = None
        self._waiting_ends = np.zeros(0, np.int64)
        self._ready: Prepared | None = None
        self._lock = threading.Lock()
        self._in_flight = 0
        self._on_drained: Callable[[], None] | None = None

    def open(self, sink: BufferSink) -> None:
        """Open the source where the last epoch ended."""
        self.source.open(sink, self._start)

    def enter(self) -> None:
        """A raw buffer is on its way."""
        with self._lock:
            self._in_flight += 1

    def leave(self) -> None:
        """A raw buffer was accepted, or refused."""
        with self._lock:
            self._in_flight -= 1
            call = self._on_drained if not self._in_flight else None
            if call is not None:
                self._on_drained = None
        if call is not None:
            call()

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call this once no raw buffer is on its way any more."""
        with self._lock:
            if self._in_flight:
                self._on_drained = call
                return
        call()

    def in_order(self, batches: list[FormattedBatch]) -> list[FormattedBatch]:
        """Batches that have become the next part of the stream."""
        return self._order.add(batches)

    def set_aside(self, messages: int) -> None:
        """So many malformed tuples are missing from what follows."""
        allow = getattr(self.adaptor, "allow_missing", None)
        if allow is not None:
            allow(messages)

    def take(self, batch: FormattedBatch) -> None:
        """Put the rows of a batch behind those that wait, and see which of them may be applied."""
        rows, ends = batch.rows, batch.row_ends
        if self._waiting is not None:
            rows = pa.concat_batches([self._waiting, rows])
            ends = np.concatenate([self._waiting_ends, ends])
            self._waiting = None
        if not rows.num_rows:
            return
        prepared = self.adaptor.prepare(rows, ends)
        cuttable = np.flatnonzero(prepared.cuttable)
        ready = int(cuttable[-1]) + 1 if len(cuttable) else 0
        waiting = prepared.slice(ready, len(prepared.cuttable))
        if waiting.rows.num_rows > _MOST_WAITING_ROWS:
            raise EngineError(
                f"expected a request of at most {_MOST_WAITING_ROWS} messages from {self.name}, was a longer one"
            )
        if waiting.rows.num_rows:
            self._waiting, self._waiting_ends = waiting.rows, waiting.row_ends
        if ready:
            self._ready = prepared.slice(0, ready)

    def next_part(self, room: int) -> Prepared | None:
        """The next rows to apply: up to the first place behind ``room`` rows where an epoch may be cut."""
        ready = self._ready
        if ready is None:
            return None
        stop = room - 1 + int(np.argmax(ready.cuttable[room - 1 :])) + 1 if room <= len(ready.cuttable) else len(
            ready.cuttable
        )
        self._ready = ready.slice(stop, len(ready.cuttable)) if stop < len(ready.cuttable) else None
        return ready.slice(0, stop)

    def applied(self, part: Prepared) -> None:
        """The part is in the epoch."""
        if part.rows.num_rows:
            sequence = (
                int(part.rows.column("sequence")[-1].as_py())
                if "sequence" in part.rows.schema.names
                else self._cut.sequence + part.rows.num_rows
            )
            self._cut = Cut(self.session(), sequence, int(part.row_ends[-1]))

    def cut(self) -> Cut:
        """Where the origin's input is cut if the epoch closes now."""
        return self._cut

    def session(self) -> str:
        """The feed's session as its source knows it, or the name of what is read."""
        return str(getattr(self.source, "session", "") or self._cut.session or self.name)

    def reconnect(self) -> None:
        """Drop what is incomplete and ask for what follows the last message applied."""
        self.formatter.discard(self.origin_id)
        self._order = InOrder(_IN_ORDER_CAPACITY)
        self._waiting, self._ready = None, None
        position = Position(self.session(), self._cut.sequence + 1, self._cut.offset)
        again = getattr(self.source, "reconnect", None)
        if again is None:
            raise EngineError(f"expected a source that reconnects at {self.name}, was {type(self.source).__name__}")
        self._defer(lambda: again(position))
