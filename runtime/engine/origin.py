"""One origin inside the ingest: its source, its formatter, the order of its batches, and where its cut is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from runtime.engine.errors import EngineError
from runtime.epochs import Cut
from runtime.formats import DeadLetter, FormattedBatch, InOrder, InputFormatter
from runtime.relations import Adaptor, Prepared
from runtime.sources import BufferSink, Position, Source

__all__ = ["Origin"]

_MOST_WAITING_ROWS: Final = 4_000_000
_IN_ORDER_CAPACITY: Final = 4096
_MOST_LETTERS: Final = 1000


class _Bad(msgspec.Struct, frozen=True):
    """Malformed tuples that no epoch counts yet: a described one and those behind it that are only counted."""

    offset: int
    letters: tuple[DeadLetter, ...]
    count: int
    until: int
    """None of them starts behind this offset."""


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
        self._refused = False
        self._on_drained: Callable[[], None] | None = None
        self._bad: deque[_Bad] = deque()
        self._missing_until: int | None = None
        self._end_offset = start.offset

    def open(self, sink: BufferSink) -> None:
        """Open the source where the last epoch ended."""
        self.source.open(sink, self._start)

    def open_later(self, sink: BufferSink) -> None:
        """The same on the source's own thread."""
        self._defer(lambda: self.open(sink))

    def enter(self, sequence_number: int, most: int) -> bool:
        """A raw buffer is on its way; False, and the source is told when there is room, if so many are already.

        Those that are formatted and wait for an earlier one count too: sources offer in order, so that the earlier one
        is on its way and its `leave` makes room.
        """
        with self._lock:
            if self._in_flight >= most or sequence_number > self._order.last_sequence + most:
                self._refused = True
                return False
            self._in_flight += 1
            return True

    def leave(self) -> None:
        """A raw buffer was accepted, or refused."""
        with self._lock:
            self._in_flight -= 1
            tell, self._refused = self._refused, False
            call = self._on_drained if not self._in_flight else None
            if call is not None:
                self._on_drained = None
        if tell:
            self.source.resume()
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

    def _set_aside(self, batch: FormattedBatch) -> None:
        """Keep malformed tuples until the cut has passed them: before that, a restart reads them again."""
        uncounted = batch.messages - batch.rows.num_rows
        for letter in batch.dead:
            if uncounted and len(self._bad) < _MOST_LETTERS:
                self._bad.append(_Bad(letter.byte_offset, (letter,), 1, letter.byte_offset))
                uncounted -= 1
        if uncounted and self._bad:
            last = self._bad.pop()
            self._bad.append(msgspec.structs.replace(last, count=last.count + uncounted, until=batch.end_offset))
        elif uncounted:
            self._bad.append(_Bad(self._end_offset, (), uncounted, batch.end_offset))

    def passed(self, end_offset: int) -> tuple[tuple[DeadLetter, ...], int]:
        """Malformed tuples that start before this offset: those described, and how many; each is told once.

        The adaptor hears that so many messages are missing, until `applied` has passed the last of them.
        """
        letters: list[DeadLetter] = []
        count = 0
        while self._bad and self._bad[0].offset < end_offset:
            bad = self._bad.popleft()
            letters += bad.letters
            count += bad.count
            self._missing_until = max(bad.until, self._missing_until or 0)
        allow = getattr(self.adaptor, "allow_missing", None)
        if count and allow is not None:
            allow(count)
        return tuple(letters), count

    def end(self) -> None:
        """The stream is over: what waited for the end of its request may be applied."""
        self.ended = True
        if self._waiting is not None:
            prepared = self.adaptor.prepare(self._waiting, self._waiting_ends)
            self._waiting = None
            if len(prepared.cuttable):
                prepared.cuttable[-1] = True
                self._ready = prepared

    def cut_at_end(self) -> tuple[tuple[DeadLetter, ...], int]:
        """The cut goes behind the stream's last tuple; gives the malformed tuples that it passes."""
        self._cut = msgspec.structs.replace(self._cut, session=self.session(), offset=self._end_offset)
        return self.passed(self._end_offset + 1)

    def take(self, batch: FormattedBatch) -> None:
        """Put the rows of a batch behind those that wait, and see which of them may be applied."""
        if batch.messages > batch.rows.num_rows:
            self._set_aside(batch)
        self._end_offset = batch.end_offset
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
        stop = (
            room - 1 + int(np.argmax(ready.cuttable[room - 1 :])) + 1
            if room <= len(ready.cuttable)
            else len(ready.cuttable)
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
            if self._missing_until is not None and self._cut.offset > self._missing_until:
                self._forget_missing()

    def _forget_missing(self) -> None:
        """Numbers may be missing only where malformed tuples stood."""
        self._missing_until = None
        forget = getattr(self.adaptor, "forget_missing", None)
        if forget is not None:
            forget()

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
        self._bad.clear()
        self._forget_missing()
        self._end_offset = self._cut.offset
        position = Position(self.session(), self._cut.sequence + 1, self._cut.offset)
        again = getattr(self.source, "reconnect", None)
        if again is None:
            raise EngineError(f"expected a source that reconnects at {self.name}, was {type(self.source).__name__}")
        self._defer(lambda: again(position))
