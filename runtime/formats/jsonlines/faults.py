"""Search for the bad lines of a block of JSON and their faults; good lines are read in large parts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.jsonlines.lines import Lines
from runtime.formats.jsonlines.reader import JsonReader, Reading, Refusal, path_of
from runtime.formats.jsonlines.values import Fault, LineJudge
from runtime.formats.schema import Field

__all__ = ["FaultSearch", "SearchResult"]

_PARTS: Final = 8
"""Number of parts into which a refused part is cut."""
_FEW_LINES: Final = 256
"""Greatest number of lines of a refused part that are judged line by line."""
_HINTS: Final = 16
"""Number of the reader's hints at bad lines that are followed, before the block is cut into parts instead."""

Nulled = frozenset[str]
"""Names of the fields that are not read, because their values are malformed and become NULL."""


class SearchResult(msgspec.Struct, frozen=True, eq=False):
    """Columns of a block's good lines, and the faults of the others."""

    rows: Any
    """`pyarrow.RecordBatch` of the good lines, in order."""
    kept: Any
    """int64 array of the line of each row; None if every line has a row."""
    bad: list[tuple[int, str, str, str]]
    """Index, field, expected value and reason of each bad line, in order."""
    nulled: Any
    """int64 array of the line of each malformed value that became NULL, in order."""


class _Part(msgspec.Struct, frozen=True, eq=False):
    """Lines that are still to be read."""

    lines: Any
    """Indices of the lines, in order."""
    nulled: Nulled = frozenset()
    """Fields that are not read, because their values are malformed in all of these lines."""
    judged: bool = False
    """True if the lines were already judged one by one and no fault was found."""


class FaultSearch:
    """Reader of all readable lines of a block.

    A good block takes one call of the reader. If the reader refuses the block, it often names a line; then the lines
    before that line, the line itself and the lines after it are read separately. Otherwise the block is cut into parts.
    Refused parts are cut again until they are so small that their lines are judged one by one. Whether a line is good
    never depends on its neighbours: a line is good if the reader accepts it alone, without the malformed values of
    nullable fields.
    """

    def __init__(self, fields: Iterable[Field], *, null_malformed: bool) -> None:
        self._fields = tuple(fields)
        self._null_malformed = null_malformed
        self._whole = JsonReader(self._fields)
        self._by_name = {field.name: field for field in self._fields}
        schema = pa.schema([pa.field(f.name, f.parser.arrow_type, f.nullable) for f in self._fields])
        self.empty = pa.RecordBatch.from_pylist([], schema)
        """Columns of all fields without rows."""
        self._reader = lru_cache(64)(self._new_reader)
        self._judge = lru_cache(64)(self._new_judge)

    def search(self, lines: Lines) -> SearchResult:
        """Return the rows of all good lines, and the faults."""
        if lines.wrong:
            return _Search(self, lines).result()
        reading = self._whole.read(lines.text, lines.count)
        if isinstance(reading, Reading) and not reading.wrong:
            return SearchResult(reading.rows, None, [], np.zeros(0, np.int64))
        return _Search(self, lines).result(reading)

    def reader(self, nulled: Nulled) -> JsonReader:
        """Return a reader of all fields but these."""
        return self._reader(nulled) if nulled else self._whole

    def judge(self, nulled: Nulled) -> LineJudge:
        """Return a judge of all fields but these."""
        return self._judge(nulled)

    def field(self, name: str) -> Field:
        """Return the field of that name."""
        return self._by_name[name]

    def accepts(self, line: bytes, *fields: Field) -> bool:
        """Return True if the reader accepts a line when only these fields are read."""
        others = frozenset(self._by_name).difference(field.name for field in fields)
        return isinstance(self.reader(others).read(line, 1), Reading)

    def can_be_null(self, field: Field | None) -> bool:
        """Return True if a malformed value becomes NULL instead of making its tuple bad."""
        return field is not None and field.nullable and self._null_malformed

    def without(self, nulled: Nulled) -> list[Field]:
        """Return the remaining fields."""
        return [field for field in self._fields if field.name not in nulled]

    def _new_reader(self, nulled: Nulled) -> JsonReader:
        return JsonReader(self.without(nulled))

    def _new_judge(self, nulled: Nulled) -> LineJudge:
        return LineJudge(self.without(nulled))


class _Search:
    """One search in one block."""

    def __init__(self, owner: FaultSearch, lines: Lines) -> None:
        self._owner = owner
        self._lines = lines
        self._hints = _HINTS
        self._bad = {index: ("", *why) for index, why in lines.wrong.items()}
        self._batches: list[Any] = []
        self._indices: list[Any] = []
        self._nulled: list[Any] = []
        self._later: dict[Nulled, list[int]] = {}

    def result(self, whole: Reading | Refusal | None = None) -> SearchResult:
        """Read the block part by part; a refused part is replaced by smaller ones.

        ``whole`` is the result of reading all lines at once, if that was done.
        """
        alive = np.ones(self._lines.count, np.bool_)
        alive[list(self._bad)] = False
        indices = np.flatnonzero(alive)
        todo = [_Part(indices)] if len(indices) else []
        if whole is not None:
            todo = self._processed(todo[0], whole)
        while todo or self._later:
            if not todo:
                later, self._later = self._later, {}
                todo = [_Part(np.sort(np.array(some)), nulled, True) for nulled, some in later.items()]
            part = todo.pop()
            text = self._lines.text_of(part.lines)
            todo += self._processed(part, self._owner.reader(part.nulled).read(text, len(part.lines)))
        return self._joined()

    def _processed(self, part: _Part, reading: Reading | Refusal) -> list[_Part]:
        """Store the rows of a part that was read and return nothing, or return the parts to read in its place."""
        if isinstance(reading, Reading):
            self._take(part, reading)
            return []
        if len(part.lines) == 1:
            self._refuse(int(part.lines[0]), part.nulled, reading)
            return []
        at = reading.line
        if 0 <= at < len(part.lines) and part.judged:  # each line was judged to be one row
            self._refuse(int(part.lines[at]), part.nulled, reading)
            pieces = [part.lines[:at], part.lines[at + 1 :]]
            return [_Part(piece, part.nulled, True) for piece in pieces if len(piece)]
        if 0 <= at < len(part.lines) and self._hints:
            self._hints -= 1
            pieces = [part.lines[:at], part.lines[at : at + 1], part.lines[at + 1 :]]
            return [_Part(piece, part.nulled) for piece in pieces if len(piece)]
        if part.judged or len(part.lines) > _FEW_LINES:
            pieces = np.array_split(part.lines, min(_PARTS, len(part.lines)))
            return [_Part(piece, part.nulled, part.judged) for piece in pieces]
        good = [index for index in part.lines.tolist() if not self._finds_fault(index, part.nulled)]
        return [_Part(np.array(good, np.int64), part.nulled, True)] if good else []

    def _finds_fault(self, index: int, nulled: Nulled) -> bool:
        """Judge a line of a refused part, and record its faults; return True if it has any."""
        line = self._lines.line(index)
        faults = [
            fault
            for fault in self._owner.judge(nulled).faults(line)
            if fault.certain or not self._owner.accepts(line, *([fault.field] if fault.field else []))
        ]
        if faults:
            self._record_faults(index, nulled, faults)
        return bool(faults)

    def _refuse(self, index: int, nulled: Nulled, refusal: Refusal) -> None:
        """Record the fields at fault in a single line that the reader refused."""
        if self._finds_fault(index, nulled):
            return
        line = self._lines.line(index)
        fields = self._owner.without(nulled) if self._owner.accepts(line) else []
        below = [field for field in fields if refusal.path and path_of(field)[: len(refusal.path)] == refusal.path]
        at_fault = below or [field for field in fields if not self._owner.accepts(line, field)]
        faults = [Fault(field, refusal.reason, certain=True) for field in at_fault]
        self._record_faults(index, nulled, faults or [Fault(None, refusal.reason, certain=True)])

    def _record_faults(self, index: int, nulled: Nulled, faults: list[Fault]) -> None:
        """Record that a line is bad, or must be read again without the malformed values."""
        for fault in faults:
            if not self._owner.can_be_null(fault.field):
                name, expected = (fault.field.name, fault.field.type) if fault.field else ("", "a JSON object")
                self._bad[index] = (name, expected, fault.reason)
                return
        more = frozenset(fault.field.name for fault in faults if fault.field)
        self._later.setdefault(nulled | more, []).append(index)

    def _take(self, part: _Part, reading: Reading) -> None:
        """Store a reading, with NULL for malformed values."""
        columns = dict(zip(reading.rows.schema.names, reading.rows.columns, strict=True))
        good = np.ones(len(part.lines), np.bool_)
        for wrong in reading.wrong:
            if self._owner.can_be_null(wrong.field):
                type_ = columns[wrong.field.name].type
                columns[wrong.field.name] = pc.if_else(
                    pa.array(wrong.rows), pa.scalar(None, type_), columns[wrong.field.name]
                )
                continue
            for index in part.lines[wrong.rows & good].tolist():
                self._bad[index] = (wrong.field.name, wrong.field.type, wrong.reason)
            good &= ~wrong.rows
        self._nulled += [part.lines[w.rows & good] for w in reading.wrong if self._owner.can_be_null(w.field)]
        self._nulled += [part.lines[good]] * len(part.nulled)
        for name in part.nulled:
            columns[name] = pa.nulls(len(part.lines), self._owner.field(name).parser.arrow_type)
        schema = self._owner.empty.schema
        batch = (
            pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
            if columns
            else reading.rows
        )
        self._batches.append(batch if good.all() else batch.filter(pa.array(good)))
        self._indices.append(part.lines[good])

    def _joined(self) -> SearchResult:
        """Return all parts in the order of the lines."""
        rows = self._owner.empty
        indices = np.zeros(0, np.int64)
        if self._batches:
            order = sorted(range(len(self._batches)), key=lambda i: self._indices[i][:1].tolist())
            rows = pa.concat_batches([self._batches[i] for i in order])
            indices = np.concatenate([self._indices[i] for i in order])
            if (np.diff(indices) < 0).any():
                places = np.argsort(indices)
                rows, indices = rows.take(pa.array(places)), indices[places]
        bad = [(index, *why) for index, why in sorted(self._bad.items())]
        kept = indices if len(indices) < self._lines.count else None
        return SearchResult(rows, kept, bad, np.sort(np.concatenate([np.zeros(0, np.int64), *self._nulled])))
