"""The input formatter: raw buffers in any order and from any thread in, Arrow batches with their place out."""

from __future__ import annotations

from enum import StrEnum
from itertools import accumulate
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np

from runtime.formats._spanning import SpanningTuple, SpanningTuples
from runtime.formats.buffers import BODY, DEAD_LETTER_BYTES, LEAD, DeadLetter, FormattedBatch, RawBuffer
from runtime.formats.csv import CsvIndexer
from runtime.formats.errors import MalformedTupleError
from runtime.formats.indexer import InputFormatIndexer
from runtime.formats.schema import Schema
from runtime.formats.shredder import SequenceShredder, Span

__all__ = ["InputFormatter", "Malformed"]

_NO_ENDS: Final = np.zeros(0, np.int64)
_HIGHEST_SEQUENCE: Final = 2**63 - 1


class Malformed(StrEnum):
    """What becomes of a tuple that does not fit the schema."""

    DEAD_LETTER = "dead_letter"
    """It is left out, counted and described in a dead letter."""
    SKIP = "skip"
    """It is left out and counted."""
    FAIL = "fail"
    """The formatter raises `MalformedTupleError`."""


class _Section(msgspec.Struct, frozen=True, eq=False):
    """A run of bytes that becomes one batch."""

    first: int
    last: int
    part: int
    offset: int
    pieces: tuple[bytes | memoryview, ...]
    length: int


class InputFormatter:
    """Formats the raw buffers of any number of origins, each with a shredder of its own.

    `format` may be called from several worker threads, in any order of sequence numbers. The good path has no Python
    loop over tuples: what one call completes (the spanning tuple in front, the body, the spanning tuple behind) lies
    side by side in the stream and goes to the indexer as one block. ``tuple_limit_bytes`` bounds a tuple,
    ``dead_limit`` the dead letters of one call, ``max_slots`` (of 64 buffers) how far buffers may be out of order.
    """

    def __init__(
        self,
        schema: Schema,
        indexer: InputFormatIndexer | None = None,
        *,
        columns: tuple[str, ...] | None = None,
        tuple_limit_bytes: int = 1 << 16,
        dead_limit: int = 64,
        malformed: Malformed = Malformed.DEAD_LETTER,
        slots: int = 8,
        max_slots: int = 1024,
        highest_sequence: int = _HIGHEST_SEQUENCE,
    ) -> None:
        if tuple_limit_bytes < 2 * DEAD_LETTER_BYTES:
            raise ValueError(
                f"expected a tuple limit of at least {2 * DEAD_LETTER_BYTES} bytes, was {tuple_limit_bytes}"
            )
        self.schema = schema
        self._indexer = indexer or CsvIndexer(
            schema, columns, tuple_limit_bytes=tuple_limit_bytes, fault_limit=dead_limit
        )
        self._tuple_limit = tuple_limit_bytes
        self._dead_limit = dead_limit
        self._malformed = malformed
        self._slots = (slots, max_slots)
        self._highest_sequence = highest_sequence
        self._lock = Lock()
        self._origins: dict[int, SpanningTuples] = {}

    def format(self, raw: RawBuffer) -> list[FormattedBatch] | None:
        """The batches that this buffer completes, its own body among them; None: out of range, repeat the task later.

        Raises `DuplicateSequenceError`, and `MalformedTupleError` if the policy is to fail.
        """
        cut = self._indexer.delimiters(raw.data)
        origin = self._origin(raw.origin_id)
        admitted = origin.admit(raw, cut)
        if admitted is None:
            return None
        number = raw.sequence_number
        batches: list[FormattedBatch] = []
        block: list[_Section] = []
        if admitted.ending is not None:
            self._add_spanning(raw.origin_id, origin, admitted.ending, block, batches)
        if cut is None:
            batches.append(self._empty(raw.origin_id, number, number, BODY, raw.offset, delimited=False))
        else:
            body = memoryview(raw.data)[cut[0] : cut[1]]
            block.append(_Section(number, number, BODY, raw.offset + cut[0], (body,), len(body)))
        for spanning in admitted.others:
            self._add_spanning(raw.origin_id, origin, spanning, block, batches)
        return batches + self._parse(raw.origin_id, block)

    def finish(self, origin_id: int) -> list[FormattedBatch]:
        """The end of an origin's stream: its last tuple, if that lacks its delimiter; the origin is forgotten.

        Every buffer must have been formatted. Raises `SequenceGapError` if one is missing.
        """
        with self._lock:
            origin = self._origins.get(origin_id)
        spanning = origin.last() if origin is not None else None
        self.discard(origin_id)
        if spanning is None or origin is None:
            return []
        end_offset = spanning.offset + spanning.length
        if spanning.pieces is not None:
            text = self._indexer.terminated(b"".join(spanning.pieces))
            spanning = msgspec.structs.replace(spanning, pieces=(text,), length=len(text))
        batches: list[FormattedBatch] = []
        block: list[_Section] = []
        self._add_spanning(origin_id, origin, spanning, block, batches)
        batches += self._parse(origin_id, block)
        return [
            msgspec.structs.replace(
                batch, row_ends=np.minimum(batch.row_ends, end_offset), end_offset=min(batch.end_offset, end_offset)
            )
            for batch in batches
        ]

    def discard(self, origin_id: int) -> None:
        """Forget an origin and its open tail; its next buffer starts a new incarnation with sequence number 1.

        No `format` of the old incarnation may be running: its buffers would be taken for the new one's.
        """
        with self._lock:
            self._origins.pop(origin_id, None)

    def held_bytes(self) -> int:
        """Bytes of unfinished tuples that are held now, over all origins."""
        with self._lock:
            origins = list(self._origins.values())
        return sum(origin.held_bytes() for origin in origins)

    def empty_rows(self) -> Any:
        """A record batch of the formatter's columns without rows."""
        return self._indexer.empty_rows()

    def _origin(self, origin_id: int) -> SpanningTuples:
        with self._lock:
            origin = self._origins.get(origin_id)
            if origin is None:
                slots, max_slots = self._slots
                shredder = SequenceShredder(slots=slots, max_slots=max_slots, highest_sequence=self._highest_sequence)
                origin = SpanningTuples(shredder, self._tuple_limit, self._highest_sequence)
                self._origins[origin_id] = origin
            return origin

    def _add_spanning(
        self,
        origin_id: int,
        origin: SpanningTuples,
        spanning: SpanningTuple,
        block: list[_Section],
        batches: list[FormattedBatch],
    ) -> None:
        """Put a spanning tuple into the block, or what stands for it among the batches: a header, a dead letter."""
        span, end = spanning.span, spanning.offset + spanning.length
        if span.first == 0 and self.schema.header and origin.start_offset == 0:
            batches.append(self._empty(origin_id, span.first, span.last, LEAD, end))
        elif spanning.pieces is None:
            batches.append(self._too_long(origin_id, span, spanning, end))
        else:
            block.append(_Section(span.first, span.last, LEAD, spanning.offset, spanning.pieces, spanning.length))

    def _parse(self, origin_id: int, block: list[_Section]) -> list[FormattedBatch]:
        """One call of the indexer for sections that lie side by side, then a zero-copy slice for each."""
        if not block:
            return []
        data = b"".join([piece for section in block for piece in section.pieces])
        parsed = self._indexer.parse(data)
        stops = list(accumulate([section.length for section in block]))
        tuples = [0, *parsed.tuple_ends.searchsorted(stops, "right").tolist()]
        rows, nulled = tuples, None
        if len(parsed.row_ends) != len(parsed.tuple_ends):
            rows = [0, *parsed.row_ends.searchsorted(stops, "right").tolist()]
        if len(parsed.nulled_ends):
            nulled = [0, *parsed.nulled_ends.searchsorted(stops, "right").tolist()]
        base = block[0].offset
        batches = []
        for i, section in enumerate(block):
            letters = [
                DeadLetter(
                    origin_id=origin_id,
                    sequence_number=section.last,
                    byte_offset=base + fault.start,
                    row=fault.index - tuples[i],
                    field=fault.field,
                    expected=fault.expected,
                    reason=fault.reason,
                    data=data[fault.start : min(fault.stop, fault.start + DEAD_LETTER_BYTES)],
                )
                for fault in parsed.bad
                if tuples[i] <= fault.index < tuples[i + 1]
            ]
            batches.append(
                FormattedBatch(
                    origin_id=origin_id,
                    first_sequence=section.first,
                    last_sequence=section.last,
                    part=section.part,
                    rows=parsed.rows.slice(rows[i], rows[i + 1] - rows[i]),
                    row_ends=parsed.row_ends[rows[i] : rows[i + 1]] + base,
                    end_offset=section.offset + section.length,
                    messages=tuples[i + 1] - tuples[i],
                    dead=self._report(tuple(letters)),
                    nulled=nulled[i + 1] - nulled[i] if nulled is not None else 0,
                )
            )
        return batches

    def _report(self, letters: tuple[DeadLetter, ...]) -> tuple[DeadLetter, ...]:
        """What the policy makes of bad tuples."""
        if letters and self._malformed is Malformed.FAIL:
            raise MalformedTupleError(str(letters[0]))
        return letters if self._malformed is Malformed.DEAD_LETTER else ()

    def _too_long(self, origin_id: int, span: Span, spanning: SpanningTuple, end: int) -> FormattedBatch:
        letter = DeadLetter(
            origin_id=origin_id,
            sequence_number=span.last,
            byte_offset=spanning.offset,
            row=0,
            field="",
            expected=f"at most {self._tuple_limit} bytes",
            reason=f"{spanning.length} bytes",
            data=spanning.sample,
        )
        dead = self._report((letter,))
        return self._empty(origin_id, span.first, span.last, LEAD, end, messages=1, dead=dead)

    def _empty(
        self,
        origin_id: int,
        first: int,
        last: int,
        part: int,
        end_offset: int,
        *,
        messages: int = 0,
        dead: tuple[DeadLetter, ...] = (),
        delimited: bool = True,
    ) -> FormattedBatch:
        return FormattedBatch(
            origin_id=origin_id,
            first_sequence=first,
            last_sequence=last,
            part=part,
            rows=self._indexer.empty_rows(),
            row_ends=_NO_ENDS,
            end_offset=end_offset,
            messages=messages,
            dead=dead,
            delimited=delimited,
        )
