"""Conversion of columns with marked values to a parsed block: wanted good rows, and descriptions of bad tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from runtime.formats.batches import record_batch
from runtime.formats.csv.reading import Absence, ColumnFaults, Reading
from runtime.formats.csv.tokens import to_numpy
from runtime.formats.csv.tuples import Tuples
from runtime.formats.format import BadTuple, ParsedBlock
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Malformed

if TYPE_CHECKING:
    from runtime.formats.schema import Schema

__all__ = ["Outcome", "WholeFaults"]

_QUOTED_BYTES = 64
"""Greatest number of bytes of a malformed value that a description quotes."""


class WholeFaults(msgspec.Struct, frozen=True, eq=False):
    """Tuples that are bad as a whole, for one reason."""

    tuples: Any
    """int64 array of their indices."""
    expected: str
    """Expected shape."""
    measure: Any
    """Actual shape of each of them, by the tuple's index."""


class Outcome:
    """Converter of readings to parsed blocks, by the schema's policies and the pushdown; immutable."""

    def __init__(self, schema: Schema, pushdown: Pushdown) -> None:
        self._pushdown = pushdown
        self._fields = schema.select(pushdown.parsed_columns)
        self._described = schema.limits.described
        self._nulls = frozenset(text.encode() for text in schema.null_values)
        self._arrow_schema = schema.arrow_schema(pushdown.parsed_columns)
        self._output = [f.name for f in schema.select(pushdown.columns)]
        nulls = schema.malformed_nullable == Malformed.NULL
        self._becomes_null = [f.nullable and nulls for f in self._fields]
        self._no_rows = pa.RecordBatch.from_pylist([], self._arrow_schema)
        self.empty_rows = self._projected(self._no_rows)
        """Output columns without rows."""

    def of(
        self,
        reading: Reading,
        alive: Any,
        tuples: Callable[[], Tuples],
        count: int,
        whole: list[WholeFaults],
    ) -> ParsedBlock:
        """Return the block.

        ``alive`` has the index of each row's tuple, and is None if every tuple has a row. ``tuples`` returns the places
        of all ``count`` tuples, of which those in ``whole`` are bad as a whole.
        """
        rows = record_batch(reading.columns, self._arrow_schema, reading.rows) if reading.rows else self._no_rows
        good = np.ones(reading.rows, np.bool_)
        nulled = [f.rows for f in reading.faults if self._becomes_null[f.position]]
        refused = [f for f in reading.faults if not self._becomes_null[f.position]]
        for fault in refused:
            good &= ~fault.rows
        index = np.arange(reading.rows) if alive is None else alive
        parsed = ParsedBlock(
            rows=rows,
            tuples=count,
            ends=lambda: tuples().ends,
            kept=None if alive is None or len(alive) == count else alive,
            bad=tuple(self._bad(reading, refused, whole, index, tuples)) if refused or whole else (),
            bad_tuples=np.sort(np.concatenate([f.tuples for f in whole] + [index[~good]])),
            nulled=np.sort(np.concatenate([index[wrong & good] for wrong in nulled]))
            if nulled
            else np.zeros(0, np.int64),
        )
        mask = good if refused else None
        wanted = self._pushdown.wanted(rows)
        if wanted is not None:
            wanted = to_numpy(wanted)
            mask = wanted if mask is None else mask & wanted
        if mask is not None and not mask.all():
            parsed = msgspec.structs.replace(parsed, rows=rows.filter(pa.array(mask)), kept=index[mask])
        return msgspec.structs.replace(parsed, rows=self._projected(parsed.rows))

    def _projected(self, rows: Any) -> Any:
        return rows if len(self._output) == rows.num_columns else rows.select(self._output)

    def _shown(self, text: bytes | str) -> str:
        """Return a text for a message, the same whether its column was read as text, as bytes or as values."""
        if isinstance(text, Absence):
            return str(text)
        data = text.encode() if isinstance(text, str) else text
        return str(Absence.NULL_TEXT) if data.strip(b" \t") in self._nulls else repr(data[:_QUOTED_BYTES])

    def _bad(
        self,
        reading: Reading,
        refused: list[ColumnFaults],
        whole: list[WholeFaults],
        index: Any,
        tuples: Callable[[], Tuples],
    ) -> Iterator[BadTuple]:
        """Yield the first bad tuples; one with several malformed values is described by the first of them."""
        described: dict[int, tuple[str, str, str]] = {}
        for fault in whole:
            for place in np.sort(fault.tuples)[: self._described].tolist():
                unit = fault.expected.rpartition(" ")[2]  # bytes, fields
                unit = unit if unit in {"bytes", "fields"} else "there"
                described[place] = ("", fault.expected, f"{fault.measure[place]} {unit}")
        for column in refused:
            field = self._fields[column.position]
            for row in np.flatnonzero(column.rows)[: self._described].tolist():
                reason = f"{self._shown(column.text(row))} is not a value of {field.type}"
                described.setdefault(int(index[row]), (field.name, field.type, reason))
        where = tuples()
        for place in sorted(described)[: self._described]:
            yield BadTuple(place, int(where.starts[place]), int(where.stops[place]), *described[place])
