"""Unnest: a row for each element of its lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import take
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator

__all__ = ["Unnest"]

Integers = npt.NDArray[np.int64]


class Unnest(Operator):
    """Every row as often as the longest of its lists has elements, those in the place of the lists' columns.

    Several lists are gone through side by side, the shorter ones filled up with NULL. A row without elements gives no
    row, or with ``outer`` one whose elements are NULL. ``ordinality`` names a column of the element's number, from 1,
    which becomes the last one. A batch that expands a lot is expanded piece by piece; a drain takes the rest of it
    first, so that no row is ever half expanded at a barrier.
    """

    def __init__(
        self,
        schema: pa.Schema,
        lists: Sequence[str],
        *,
        outer: bool = False,
        ordinality: bool = False,
        most_rows: int = MOST_ROWS,
    ) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._lists = frozenset(lists)
        self._outer = outer
        self._ordinality = ordinality

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        starts, lengths = {}, {}
        for name in self._lists:
            starts[name], lengths[name] = _places(batch.column(name))
        counts = np.maximum.reduce(list(lengths.values()))
        if self._outer:
            counts = np.maximum(counts, 1)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, self.most_rows):
            places = np.arange(begin, min(begin + self.most_rows, total))
            rows = np.searchsorted(ends, places, side="right")
            number = places - (ends - counts)[rows]
            yield self._piece(batch, rows, number, starts, lengths)

    def _piece(
        self,
        batch: pa.RecordBatch,
        rows: Integers,
        number: Integers,
        starts: dict[str, Integers],
        lengths: dict[str, Integers],
    ) -> pa.RecordBatch:
        arrays = []
        present = np.zeros(len(rows), np.bool_)
        for name in batch.schema.names:
            column = batch.column(name)
            if name not in self._lists:
                arrays += take([column], rows)
                continue
            there = number < lengths[name][rows]
            present |= there
            arrays += take([column.values], np.where(there, starts[name][rows] + number, -1))
        if self._ordinality:
            arrays.append(pa.array(number + 1, mask=~present))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _places(column: pa.ListArray) -> tuple[Integers, Integers]:
    """Return the place of each list among the values, and its length, 0 for NULL."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return offsets[:-1], lengths
