"""Code that the tests of the rows share: small schemas, and texts formatted in given pieces and order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from runtime.formats import CsvFormat, Field, InputFormatter, Pushdown, RawBuffer, Schema
from tests.conformance.formats.drive import Outcome, drive

__all__ = [
    "PAIRS",
    "WORDS",
    "cut_after",
    "format_bytes",
    "format_raws",
    "in_pieces",
    "outcome_of",
    "schema_of",
    "values",
]

WORDS = Schema((Field("word", "string"),), CsvFormat())
"""One text a tuple."""
PAIRS = Schema((Field("n", "int64"), Field("word", "string")), CsvFormat())
"""A number and a text."""


def schema_of(types: Sequence[str], form: Any = None, **settings: Any) -> Schema:
    """Fields f0, f1, … of these types; a type with ``?`` behind it is nullable."""
    fields = tuple(Field(f"f{n}", name.rstrip("?"), nullable=name.endswith("?")) for n, name in enumerate(types))
    return Schema(fields, format=form or CsvFormat(), **settings)


def in_pieces(pieces: Sequence[bytes], origin_id: int = 1) -> list[RawBuffer]:
    """Raw buffers with these bytes, numbered from 1."""
    offset, raws = 0, []
    for number, piece in enumerate(pieces, 1):
        raws.append(RawBuffer(origin_id, number, piece, offset))
        offset += len(piece)
    return raws


def cut_after(data: bytes, size: int, origin_id: int = 1) -> list[RawBuffer]:
    """Raw buffers of one size."""
    return in_pieces([data[at : at + size] for at in range(0, len(data), size)], origin_id)


def outcome_of(formatter: InputFormatter, raws: Sequence[RawBuffer], order: Sequence[int] = (), **how: Any) -> Outcome:
    """One origin's buffers, in the order of these numbers, one call each; then its end."""
    todo = [raws[number - 1] for number in order] if order else list(raws)
    return drive(formatter, todo, random.Random(0), **{"most": 1, **how})[raws[0].origin_id]


def format_raws(schema: Schema, raws: Sequence[RawBuffer], order: Sequence[int] = (), **how: Any) -> Outcome:
    """The same with a formatter of its own."""
    return outcome_of(InputFormatter(schema), raws, order, **how)


def format_bytes(schema: Schema, data: bytes, *, size: int = 1 << 20, pushdown: Pushdown | None = None) -> Outcome:
    """Bytes in buffers of one size, in order."""
    return outcome_of(InputFormatter(schema, pushdown or Pushdown()), cut_after(data, size))


def values(outcome: Outcome) -> list[tuple[Any, ...]]:
    """All rows as Python's values; the bare values if there is one field."""
    return [tuple(row.values()) for batch in outcome.batches for row in batch.rows.to_pylist()]
