"""Origin in an ingest: its source, the order of its batches, and its cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from runtime.engine.errors import EngineError
from runtime.engine.ingest.deadletters import MalformedTuples
from runtime.engine.ingest.formatting import CODEC_WEIGHT, Formatting
from runtime.engine.ingest.inlet import Inlet
from runtime.epochs import Cut
from runtime.formats import DeadLetter, FormattedBatch, InOrder, Malformed
from runtime.relations import Adaptor, Prepared, RowEnds
from runtime.sources import BufferSink, Position, Source

__all__ = ["IN_ORDER_CAPACITY", "Origin", "OriginCounters"]

_MOST_WAITING_ROWS: Final = 4_000_000
"""Greatest number of rows of one origin that may wait for the end of their request."""
IN_ORDER_CAPACITY: Final = 1 << 16
"""Greatest number of batches of one origin that may wait for an earlier one."""


class OriginCounters(msgspec.Struct, frozen=True):
    """Counters of an origin's tuples since the runtime started; tuples that were read twice count twice."""

    tuples: int = 0
    """Number of tuples in stream order: well-formed, malformed and filtered out."""
    bad: int = 0
    """Number of malformed tuples, which have no row."""
    skipped: int = 0
    """Number of malformed tuples without a dead letter, because the policy is to skip them."""
    nulled: int = 0
    """Number of malformed values that became NULL."""
    filtered: int = 0
    """Number of tuples left out by a condition."""
    repeats: int = 0
    """Number of times that a raw buffer was passed to the formatter again, because it came too early."""
    ring_slots: int = 0
    """Size of the shredder's ring, in slots of 64 buffers."""
    held_bytes: int = 0
    """Number of bytes that wait in the formatter for the rest of their tuple."""
    failure: str = ""
    """Reason for the failure of the origin, empty if it has not failed."""


class Origin:
    """State of one source in the ingest, owned by the worker that runs the applying step.

    Other threads call `open` and `defer`, before anything of the origin has been applied, and read the counters, which
    are replaced as a whole.
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
        is_own: bool = False,
        defer: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Create an origin whose input begins at ``start``.

        ``first`` is True if the origin is read to its end before others open. ``is_own`` is True if the ingest neither
        ends nor fails with the origin; such an origin has its own formatter. ``defer`` runs a call on the source's own
        thread.
        """
        self.origin_id = origin_id
        self.name = name
        self.source = source
        self.adaptor = adaptor
        self.first = first
        self.is_own = is_own
        self.ended = False
        self.is_forgotten = False
        self.failure = ""
        self.defer = defer or _at_once
        self.inlet: Final = Inlet(origin_id, source, self.defer)
        """Inlet through which the origin's buffers enter the plan."""
        self._start = start
        self._cut = Cut(start.session, max(0, start.sequence - 1), start.offset, start.tuples)
        self._tuples_before = start.tuples
        self._formatting: Formatting | None = None
        self._order = InOrder(IN_ORDER_CAPACITY, offset=start.offset)
        self._waiting: pa.RecordBatch | None = None
        self._waiting_ends = RowEnds(())
        self._ready: Prepared | None = None
        self._bad = MalformedTuples()
        self._missing_until: int | None = None
        self._end_offset = start.offset
        self._counted = OriginCounters()

    @property
    def is_compressed(self) -> bool:
        """True if the stream is compressed as a whole, so that its buffers can only be decoded in order."""
        codec = self.source.codec_at(self._start)
        return codec is not None and codec.is_sequential

    @property
    def weight(self) -> int:
        """Factor by which the inlet multiplies the size of the origin's buffers."""
        return 1 if self.source.codec_at(self._start) is None else CODEC_WEIGHT

    def attach(self, formatting: Formatting) -> None:
        """Set the step that formats the origin's buffers; called once, before `open`."""
        self._formatting = formatting

    def attach_inlet(self, on_lost: Callable[[int, str], None], *, is_held: bool = False) -> None:
        """Prepare the inlet for a plan; see `Inlet.attach`."""
        self.inlet.attach(self.open, on_lost, weight=self.weight, is_held=is_held)

    def open(self, sink: BufferSink) -> None:
        """Open the source where the last epoch ended, on the source's own thread; see `defer`."""
        self._begin(self._start)
        self.source.open(sink, self._start)

    def _begin(self, position: Position) -> None:
        """Notify formatter and adaptor that the stream begins at this position, with buffer 1."""
        if self._formatting is None:
            raise EngineError(f"expected origin {self.name} to be attached to a formatter, was none")
        codec = self.source.codec_at(position)
        self._formatting.formatter.open(self.origin_id, offset=position.offset, codec=codec)
        self.adaptor.opened(position.sequence)

    def counters(self) -> OriginCounters:
        """Return the counters of the origin's tuples."""
        if self._formatting is None:
            return self._counted
        formatter = self._formatting.formatter.counters(self.origin_id)
        return msgspec.structs.replace(
            self._counted,
            failure=self.failure,
            repeats=self._formatting.repeats(self.origin_id),
            ring_slots=formatter.ring_slots,
            held_bytes=formatter.held_bytes,
        )

    def in_order(self, batches: list[FormattedBatch]) -> list[FormattedBatch]:
        """Add batches; return those that are now the next part of the stream."""
        return self._order.add(batches)

    def counted_on(self, letter: DeadLetter) -> DeadLetter:
        """Return the letter with its row counted from the origin's first tuple.

        The formatter counts rows from the position at which the source was last opened.
        """
        before = self._tuples_before
        return msgspec.structs.replace(letter, row=letter.row + before) if before else letter

    def passed(self, end_offset: int) -> tuple[tuple[DeadLetter, ...], int]:
        """Return the descriptions and the number of the malformed tuples that start before this offset.

        Each tuple is reported once. Until the cut has passed the last of them, the adaptor tolerates that number of
        missing messages.
        """
        passed = self._bad.passed(end_offset)
        if not passed.count:
            return (), 0
        self._missing_until = passed.until
        self.adaptor.allow_missing(passed.count)
        return passed.letters, passed.count

    def end(self) -> None:
        """Note the end of the stream: rows that waited for the end of their request may be applied."""
        self.ended = True
        if self._waiting is not None:
            prepared = self.adaptor.prepare(self._waiting, self._waiting_ends)
            self._waiting = None
            if len(prepared.cuttable):
                prepared.cuttable[-1] = True
                self._ready = prepared

    def forget(self) -> None:
        """Note that the origin was removed; drop its input that is not applied yet."""
        self.ended = self.is_forgotten = True
        self._waiting = self._ready = None

    def cut_at_end(self) -> tuple[tuple[DeadLetter, ...], int]:
        """Move the cut to the end of the last tuple that has arrived; return the malformed tuples before it."""
        self._cut = msgspec.structs.replace(
            self._cut,
            session=self.session(),
            offset=self._end_offset,
            tuples=self._tuples_before + self._order.tuples,
        )
        return self.passed(self._end_offset + 1)

    def take(self, batches: Sequence[FormattedBatch]) -> None:
        """Append the rows of the next batches to the waiting rows, and determine which of them may be applied.

        Raise `EngineError` if too many rows wait for the end of a request.
        """
        parts = [] if self._waiting is None else [self._waiting]
        self._count(batches)
        for batch in batches:
            if batch.bad:
                self._bad.add(batch.bad_offsets, tuple(map(self.counted_on, batch.dead)), batch.end_offset)
            self._end_offset = batch.end_offset
            received = self.adaptor.received(batch)
            if received.num_rows:
                parts.append(received)
        if not parts:
            return
        rows, ends = parts[0] if len(parts) == 1 else pa.concat_batches(parts), RowEnds.of(*batches)
        if self._waiting is not None:
            ends = self._waiting_ends + ends
            self._waiting = None
        prepared = self.adaptor.prepare(rows, ends)
        # The usual case of adaptors other than those of feeds. It avoids slicing, which takes time with many sources.
        if prepared.cuttable.all():
            self._ready = prepared if len(prepared.cuttable) else None
            return
        cuttable = np.flatnonzero(prepared.cuttable)
        ready = int(cuttable[-1]) + 1 if len(cuttable) else 0
        waiting = prepared.slice(ready, len(prepared.cuttable))
        if waiting.rows.num_rows > _MOST_WAITING_ROWS:
            raise EngineError(
                f"expected a request of at most {_MOST_WAITING_ROWS} messages from {self.name}, was a longer one"
            )
        if waiting.rows.num_rows:
            self._waiting, self._waiting_ends = waiting.rows, cast(RowEnds, waiting.row_ends)
        if ready:
            self._ready = prepared.slice(0, ready)

    def _count(self, batches: Sequence[FormattedBatch]) -> None:
        counted, bad = self._counted, sum([batch.bad for batch in batches])
        skips = self.adaptor.schema.malformed is Malformed.SKIP
        self._counted = msgspec.structs.replace(
            counted,
            tuples=counted.tuples + sum([batch.tuples for batch in batches]),
            bad=counted.bad + bad,
            skipped=counted.skipped + bad if skips else 0,
            nulled=counted.nulled + sum([batch.nulled for batch in batches]),
            filtered=counted.filtered + sum([batch.filtered for batch in batches]),
        )

    def next_part(self, room: int) -> Prepared | None:
        """Return the next rows to apply: up to the first place after ``room`` rows where an epoch may be cut.

        If the adaptor checks sequence numbers, the row after a malformed tuple with a description is a part of its own,
        so that a number may be missing there and nowhere else.
        """
        ready = self._ready
        if ready is None:
            return None
        rows = len(ready.cuttable)
        stop = room + int(np.argmax(ready.cuttable[room - 1 :])) if room <= rows else rows
        bad = self._bad.first_described
        if bad is not None and self.adaptor.checks_numbers:
            before = int(np.searchsorted(np.asarray(ready.row_ends), bad, "right"))
            stop = min(stop, before or 1)
        if stop == rows:
            self._ready = None
            return ready
        self._ready = ready.slice(stop, rows)
        return ready.slice(0, stop)

    def applied(self, part: Prepared, end_offset: int) -> None:
        """Move the cut to ``end_offset``, the end of a part that was applied."""
        if part.rows.num_rows:
            sequence = (
                int(part.rows.column("sequence")[-1].as_py())
                if "sequence" in part.rows.schema.names
                else self._cut.sequence + part.rows.num_rows
            )
            tuples = self._tuples_before + cast(RowEnds, part.row_ends).tuple_count()
            self._cut = Cut(self.session(), sequence, end_offset, tuples)
            if self._missing_until is not None and self._cut.offset > self._missing_until:
                self._forget_missing()

    def _forget_missing(self) -> None:
        """Notify the adaptor that no further numbers may be missing: the cut is after all malformed tuples so far."""
        self._missing_until = None
        self.adaptor.forget_missing()

    def cut(self) -> Cut:
        """Return the cut of the origin's input if the epoch closes now."""
        return self._cut

    def session(self) -> str:
        """Return the feed's session as known by its source, or the name of the file or stream that is read."""
        return self.source.session or self._cut.session or self.name

    def reconnect(self) -> None:
        """Drop incomplete input, and request the input after the cut."""
        position = Position(self.session(), self._cut.sequence + 1, self._cut.offset, self._cut.tuples)
        self._tuples_before = position.tuples
        self._order = InOrder(IN_ORDER_CAPACITY, offset=position.offset)
        self._waiting, self._ready = None, None
        self._bad.clear()
        self._forget_missing()
        self._end_offset = position.offset
        self._begin(position)

        def again() -> None:
            try:
                self.source.reconnect(position)
            except Exception as error:  # noqa: BLE001 (a source that cannot connect again is a failure of its origin)
                self.inlet.failed(self.origin_id, f"{type(error).__name__}: {error}")

        self.defer(again)


def _at_once(call: Callable[[], None]) -> None:
    call()
