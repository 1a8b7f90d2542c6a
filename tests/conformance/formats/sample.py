"""Valid file with the table that its library reads from it and the ends of its tuples."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

from runtime.formats import Pushdown, Schema

__all__ = ["Expected", "Files", "Sample", "rows_as_text"]

_COUNTED = {pa.date32(): pa.int32()} | {pa.timestamp(unit): pa.int64() for unit in ("s", "ms", "us", "ns")}


def rows_as_text(table: Any) -> list[str]:
    """Return one text per row, so that NaN equals NaN and differences are readable; times are counts of their unit."""
    columns = [column.cast(_COUNTED.get(column.type, column.type)) for column in table.columns]
    return [repr(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


@dataclass(frozen=True)
class Expected:
    """Expected output of a formatter for a sample under a pushdown."""

    rows: list[str]
    """Rows as `rows_as_text` writes them."""
    ends: list[int]
    """Offset in the stream at which each row's tuple ends."""
    numbers: list[int]
    """Number of each row's tuple among all tuples."""
    tuples: int
    """Number of all tuples, including those filtered out."""


@dataclass(frozen=True)
class Sample:
    """Valid file."""

    schema: Schema
    """Schema of the file."""
    data: bytes
    """Whole file, not encoded."""
    table: Any
    """`pyarrow.Table` of all tuples and fields, from the library's own parse of the whole file."""
    ends: list[int]
    """Offset after each tuple and its delimiter."""
    breaks: list[int] = field(default_factory=list)
    """Offsets near which cuts are likely to cause errors: delimiters, quotes, escapes, length prefixes."""
    spread: Literal["tuple", "length", "rest"] = "rest"
    """Extent of the damage of a change of bytes.

    ``tuple``: its own tuple and those whose delimiters it changes; ``length``: the same, provided that it changes
    neither the length of the file nor an anchor; ``rest``: the whole file from the change on.
    """
    anchors: frozenset[int] = frozenset()
    """Offsets of bytes that determine where the next tuple starts."""
    start: int = 0
    """Offset of the first tuple, after a header."""

    def __post_init__(self) -> None:
        if self.table.num_rows != len(self.ends):
            raise ValueError(f"expected {len(self.ends)} tuples in the oracle's table, was {self.table.num_rows}")

    def expected(self, pushdown: Pushdown) -> Expected:
        """Return the expected output under a pushdown."""
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
        """Return a file with this number of rows, by default a random number."""
