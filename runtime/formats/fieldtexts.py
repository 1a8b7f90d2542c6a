"""Conversion of texts of fields to a parsed block, for formats that find these texts by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.csv.outcome import Outcome, WholeFaults
from runtime.formats.csv.reading import Absence, ColumnFaults, ColumnReader, Reading
from runtime.formats.csv.tokens import to_numpy
from runtime.formats.format import ParsedBlock
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Schema

__all__ = ["FieldTexts", "Places"]


class Places(msgspec.Struct, frozen=True, eq=False):
    """Places of the tuples of a block, without empty tuples: int64 arrays of one offset per tuple, in order."""

    starts: Any
    """Offsets of their first bytes."""
    stops: Any
    """Offsets after them, without their delimiters."""
    ends: Any
    """Offsets after their delimiters."""


class FieldTexts:
    """Reader of texts as the values of a schema's fields, which returns the parsed block.

    The work is done by columns and outside the interpreter lock. Safe for several threads.
    """

    def __init__(self, schema: Schema, pushdown: Pushdown) -> None:
        self.fields = schema.select(pushdown.parsed_columns)
        """Fields whose texts are wanted, in the order in which `parsed` takes them."""
        self._readers = [ColumnReader(field, schema.null_values, trim=False) for field in self.fields]
        self._longest = schema.limits.tuple_bytes
        self._outcome = Outcome(schema, pushdown)
        self.empty_rows = self._outcome.empty_rows
        """Output columns without rows."""

    def parsed(self, places: Places, texts: Sequence[Any]) -> ParsedBlock:
        """Return the block of ``texts``: a binary Arrow array for each of `fields`, with NULL where a field is missing.

        The schema and the pushdown determine malformed values, texts that mean NULL, tuples that are too long,
        conditions and projection.
        """
        lengths = places.ends - places.starts
        alive = whole = None
        if len(lengths) and lengths.max() > self._longest:
            long = lengths > self._longest
            alive = np.flatnonzero(~long)
            whole = [WholeFaults(np.flatnonzero(long), f"at most {self._longest} bytes", lengths)]
            texts = [column_texts.take(pa.array(alive)) for column_texts in texts]
        columns, faults = [], []
        for position, (field, reader, column_texts) in enumerate(zip(self.fields, self._readers, texts, strict=True)):
            column, wrong = reader.read(pc.fill_null(column_texts, b"") if column_texts.null_count else column_texts)
            if column_texts.null_count:
                missing = to_numpy(column_texts.is_null())
                if field.nullable:  # a missing field is NULL even if an empty text is not
                    column, wrong = (
                        pc.if_else(pa.array(missing), pa.scalar(None, column.type), column),
                        wrong & ~missing,
                    )
                else:
                    wrong = wrong | missing
            columns.append(column)
            if wrong.any():
                faults.append(ColumnFaults(position, wrong, _text_of(column_texts)))
        reading = Reading(len(lengths) if alive is None else len(alive), columns, faults)
        where: Any = places
        return self._outcome.of(reading, alive, lambda: where, len(lengths), whole or [])


def _text_of(column: Any) -> Callable[[int], bytes | str]:
    return lambda row: column[row].as_py() if column[row].is_valid else Absence.NOTHING
