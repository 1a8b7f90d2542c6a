"""A valid file, what its library makes of it, and where each of its tuples ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

from runtime.formats import Pushdown, Schema

__all__ = ["Expected", "Files", "Sample", "rows_as_text"]

_COUNTED = {pa.date32(): pa.int32()} | {pa.timestamp(unit): pa.int64() for unit in ("s", "ms", "us", "ns")}


def rows_as_text(table: Any) -> list[str]:
    """One text per row, so that a NaN equals a NaN and a difference is readable; times as counts of their unit."""
    columns = [column.cast(_COUNTED.get(column.type, column.type)) for column in table.columns]
    return [repr(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


@dataclass(frozen=True)
class Expected:
    """What a formatter must make of a sample under a pushdown."""

    rows: list[str]
    """The rows, each as `rows_as_text` writes it."""
    ends: list[int]
    """Where the tuple of each ends in the stream."""
    numbers: list[int]
    """Its number among all tuples."""
    tuples: int
    """All tuples, those filtered out too."""


@dataclass(frozen=True)
class Sample:
    """A valid file."""

    schema: Schema
    """What it follows."""
    data: bytes
    """The whole file; not encoded."""
    table: Any
    """`pyarrow.Table` of all tuples and fields, from the library's own parse of the whole file."""
    ends: list[int]
    """Offset behind each tuple and its delimiter."""
    breaks: list[int] = field(default_factory=list)
    """Places where a cut is worth while: around delimiters, quotes, escapes, length prefixes."""
    spread: Literal["tuple", "length", "rest"] = "rest"
    """How far a change of bytes reaches: its own tuple and those whose delimiters it touches; the same, if it changes
    neither the length of the file nor an anchor; all the rest of the file."""
    anchors: frozenset[int] = frozenset()
    """Places of bytes that decide where the next tuple starts."""
    start: int = 0
    """Where the first tuple starts: behind a header."""

    def __post_init__(self) -> None:
        if self.table.num_rows != len(self.ends):
            raise ValueError(f"expected {len(self.ends)} tuples in the oracle's table, was {self.table.num_rows}")

    def expected(self, pushdown: Pushdown) -> Expected:
        """What is left of the table."""
        table, numbers = self.table, list(range(self.table.num_rows))
        if pushdown.conditions and table.num_rows:
            batch = table.combine_chunks().to_batches()[0]
            mask = pushdown.wanted(batch)
            numbers = [number for number, wanted in enumerate(mask.to_pylist()) if wanted]
            table = pa.Table.from_batches([batch.filter(mask)])
        if pushdown.columns is not None:
            table = table.select([name for name in self.schema.names if name in pushdown.columns])
        rows = rows_as_text(table) if table.num_columns else ["()"] * len(numbers)
        return Expected(rows, [self.ends[number] for number in numbers], numbers, self.table.num_rows)


class Files(Protocol):
    """Random files of one schema."""

    schema: Schema

    def sample(self, rng: random.Random, rows: int | None = None) -> Sample:
        """A file of so many rows; None: of any number."""
