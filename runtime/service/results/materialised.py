"""Rows of a view for clients: repeated by weight, sorted if requested, as JSON values or with Arrow's decimals."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.plan import Column

__all__ = ["FullRows", "json_rows", "with_point"]

_INT64_LIMIT: Final = 2**63
"""Least number above all integers of 64 bits."""
_DIGITS: Final = 38
"""Number of digits of Arrow's decimals of 128 bits."""


class FullRows:
    """Rows of a view at one version, each repeated by its weight; immutable.

    Positions count repeated rows: there are ``len(rows)`` of them.
    """

    def __init__(self, columns: Sequence[Column], table: pa.Table) -> None:
        """Keep the rows of ``table``, whose last column has the weights, each of them above 0."""
        *values, weights = table.columns
        self.columns = tuple(columns)
        # Columns are named by number: two columns of a view may have the same name.
        self._values = pa.Table.from_arrays(values, names=[str(number) for number in range(len(values))])
        counts = weights.to_numpy()
        # For each row, the position after its last copy. None if no row is repeated: positions are then numbers of
        # rows, and a page is a slice.
        self._ends = None if (counts == 1).all() else np.cumsum(counts)
        self._counts = counts
        self._rows = len(counts) if self._ends is None else int(self._ends[-1])

    def __len__(self) -> int:
        """Return the number of rows, counting repeated ones."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Size in memory in bytes."""
        return int(self._values.nbytes + self._counts.nbytes * (1 if self._ends is None else 2))

    @property
    def whole_bytes(self) -> int:
        """Approximate size of all rows in bytes, with repeated rows written out."""
        return int(self._values.nbytes * (self._rows / max(1, self._values.num_rows)))

    def sorted(self) -> FullRows:
        """Return the rows sorted by the columns from the left, NULL first. May run on any thread."""
        if not self._values.num_columns:
            return self
        keys = self._values
        for name in reversed(self._values.column_names):
            if (column := self._values[name]).null_count:  # Arrow's option for the place of NULL varies by release
                keys = keys.add_column(keys.column_names.index(name), f"is {name}", pc.is_valid(column))
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
        weights = pa.chunked_array([pa.array(self._counts).take(order)])
        return FullRows(
            self.columns, pa.Table.from_arrays([*self._values.take(order).columns, weights], names=self._names())
        )

    def arrow(self, begin: int, end: int) -> pa.Table:
        """Return the rows at these positions, with Arrow's decimals in place of integers that have a scale."""
        fields, arrays = [], []
        for column, values in zip(self.columns, self._at(begin, end).columns, strict=True):
            array = with_point(values, column.scale) if column.scale else values
            fields.append(pa.field(column.name, array.type))
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def json(self, begin: int, end: int, *, as_text: bool = False) -> list[list[Any]]:
        """Return the rows at these positions as JSON values.

        Integers beyond 64 bits and decimals are `Decimal`, to be encoded as JSON numbers; with ``as_text`` every exact
        number is text.
        """
        lists = [
            _json_values(values, column, as_text=as_text)
            for column, values in zip(self.columns, self._at(begin, end).columns, strict=True)
        ]
        return [list(row) for row in zip(*lists, strict=True)]

    def _at(self, begin: int, end: int) -> pa.Table:
        """Return the rows at these positions in O(log n + end - begin), without a copy if no row is repeated."""
        end = min(end, self._rows)
        if self._ends is None or begin >= end:
            return self._values.slice(begin, max(0, end - begin))
        first, last = (int(row) for row in np.searchsorted(self._ends, [begin, end - 1], side="right"))
        inside = np.minimum(self._ends[first : last + 1], end) - begin
        times = np.diff(inside, prepend=0)
        return self._values.slice(first, len(times)).take(pa.array(np.repeat(np.arange(len(times)), times)))

    def _names(self) -> list[str]:
        return [*self._values.column_names, "weight"]


def json_rows(columns: Sequence[Column], table: pa.Table) -> list[list[Any]]:
    """Return rows as JSON values, sorted and repeated by weight, which is the last column; see `FullRows`."""
    rows = FullRows(columns, table).sorted()
    return rows.json(0, len(rows))


def with_point(values: pa.ChunkedArray, scale: int) -> pa.ChunkedArray:
    """Return integers as decimals of this scale with the same digits.

    ``values`` are int64, or decimals of scale 0. Nothing is rounded: an int64 has at most 19 digits, a decimal 38.
    """
    whole = values.cast(pa.decimal128(_DIGITS, 0)) if pa.types.is_integer(values.type) else values
    type_ = pa.decimal128(_DIGITS, scale)
    chunks = [pa.Array.from_buffers(type_, len(chunk), chunk.buffers(), offset=chunk.offset) for chunk in whole.chunks]
    return pa.chunked_array(chunks, type_)


def _json_values(values: pa.ChunkedArray, column: Column, *, as_text: bool) -> list[Any]:
    """Return a column as JSON values; columns of most types are converted at once, not value by value."""
    if column.scale:
        exact: list[Any] = with_point(values, column.scale).to_pylist()
        return [None if value is None else f"{value:f}" for value in exact] if as_text else exact
    shown: list[Any]
    if column.type in {"int64", "int128"}:
        try:
            whole = values.cast(pa.int64())
        except pa.ArrowInvalid:  # some values have more than 64 bits
            shown = values.to_pylist()
            return [None if value is None else str(value) for value in shown] if as_text else [*map(_narrowed, shown)]
        shown = (whole.cast(pa.string()) if as_text else whole).to_pylist()
        return shown
    shown = values.to_pylist()
    is_time = column.type in {"date", "timestamp"}
    return [None if value is None else value.isoformat() for value in shown] if is_time else shown


def _narrowed(value: Decimal | None) -> Decimal | int | None:
    """Return the value as an `int` if it fits into 64 bits, unchanged otherwise."""
    return int(value) if value is not None and -_INT64_LIMIT <= value < _INT64_LIMIT else value
