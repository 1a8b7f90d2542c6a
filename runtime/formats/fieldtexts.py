"""What a format of text leaves to others once it has found the texts of its fields: values, policies, descriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.csv.columns import ColumnReader
from runtime.formats.csv.outcome import Outcome, WholeFaults
from runtime.formats.csv.reading import Absence, ColumnFaults, Reading
from runtime.formats.csv.tokens import to_numpy
from runtime.formats.format import ParsedBlock
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Schema

__all__ = ["FieldTexts", "Places"]


class Places(msgspec.Struct, frozen=True, eq=False):
    """Where the tuples of a block stand: an int64 offset each, in order, empty tuples left out."""

    starts: Any
    """Of their first bytes."""
    stops: Any
    """Behind them, without their delimiters."""
    ends: Any
    """Behind their delimiters."""


class FieldTexts:
    """Reads texts as the values of a schema's fields and makes of them what a block gives.

    For formats that find fields by themselves; the work is done by columns and outside the interpreter lock. Safe for
    several threads.
    """

    def __init__(self, schema: Schema, pushdown: Pushdown) -> None:
        self.fields = schema.select(pushdown.parsed_columns)
        """Those whose texts are wanted, in the order in which `parsed` takes them."""
        self._readers = [ColumnReader(field, schema.null_values, trim=False) for field in self.fields]
        self._longest = schema.limits.tuple_bytes
        self._outcome = Outcome(schema, pushdown)
        self.empty_rows = self._outcome.empty_rows
        """No rows of the columns that come out."""

    def parsed(self, places: Places, texts: Sequence[Any]) -> ParsedBlock:
        """The block, from one binary Arrow array for each of `fields`, a text per tuple, NULL where it lacks the field.

        Malformed values, texts that mean NULL, tuples that are too long, conditions and projection are as the schema
        and the pushdown say.
        """
        lengths = places.ends - places.starts
        alive = whole = None
        if len(lengths) and lengths.max() > self._longest:
            long = lengths > self._longest
            alive = np.flatnonzero(~long)
            whole = [WholeFaults(np.flatnonzero(long), f"at most {self._longest} bytes", lengths)]
            texts = [found.take(pa.array(alive)) for found in texts]
        columns, faults = [], []
        for position, (field, reader, found) in enumerate(zip(self.fields, self._readers, texts, strict=True)):
            column, wrong = reader.read(pc.fill_null(found, b"") if found.null_count else found)
            if found.null_count:
                missing = to_numpy(found.is_null())
                if field.nullable:  # also where an empty text is none for NULL
                    column, wrong = (
                        pc.if_else(pa.array(missing), pa.scalar(None, column.type), column),
                        wrong & ~missing,
                    )
                else:
                    wrong = wrong | missing
            columns.append(column)
            if wrong.any():
                faults.append(ColumnFaults(position, wrong, _text_of(found)))
        reading = Reading(len(lengths) if alive is None else len(alive), columns, faults)
        where: Any = places
        return self._outcome.of(reading, alive, lambda: where, len(lengths), whole or [])


def _text_of(found: Any) -> Callable[[int], bytes | str]:
    return lambda row: found[row].as_py() if found[row].is_valid else Absence.NOTHING
