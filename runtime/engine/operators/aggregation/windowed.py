"""Streaming aggregation by event time: groups of each window, yielded when event time has passed its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.aggregation.cells import Aggregate, Cells
from runtime.engine.operators.columns import concat, take, ticks_of, time_array
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes, order_codes
from runtime.engine.operators.operator import ENDED, MOST_ROWS, Batches, Operator, pieces
from runtime.state import ObjectSpace

__all__ = ["WindowAggregation", "WindowSpan"]

Integers = npt.NDArray[np.int64]

_NONE: Final = 2**63 - 1
_LAST: Final = "window_last"


class WindowSpan(msgspec.Struct, frozen=True):
    """Columns and lengths that determine the ends of windows."""

    start: str
    """Name of the input's column with each row's window start; the first key."""
    end: str
    """Name of the output's column with the window's end."""
    size: int
    """Length from start to end; for sessions, from the last row to the end."""
    slide: int = 0
    """Distance from one window to the next; 0 for sessions."""
    time: str = ""
    """Name of the time column of the rows, for sessions."""


class WindowAggregation(Operator):
    """Aggregation with a row for each group of each window: window start, window end, the other keys, the aggregates.

    A group is stored as its *cells*, a row of partial aggregates in the object space. The rows of a batch are added to
    the cells of their groups, and only the cells of groups that changed are written. `advance` yields the groups of
    windows that end at or before the bound, in the order of the end, then the keys, and deletes their cells. Rows of
    one group are added in their order, so that even sums of floats do not depend on how rows are cut into batches.

    COUNT(DISTINCT …) keeps the values of each open group in a table of its own.
    """

    keeps = "the cells of each open window"

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        span: WindowSpan,
        *,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """Create an aggregation over rows of ``schema``, with its state in ``space``.

        ``keys`` are the columns that are keys besides the window's start.
        """
        super().__init__(self.schema_of(schema, keys, aggregates, span))
        self._span = span
        self._keys = (span.start, *keys)
        hidden = [Aggregate(_LAST, "last", span.time)] if span.time else []
        self._distinct = {
            part.name: KeyedRows(pa.schema([schema.field(key) for key in (*self._keys, part.column)]),
                                 len(self._keys) + 1, f"{name}/distinct/{number}", space)
            for number, part in enumerate(aggregates) if part.kind == "count_distinct"
        }  # fmt: skip
        self._aggregates = [*aggregates, *hidden]
        self._input = pa.schema([*schema, *(pa.field(f"distinct {each}", pa.int64(), True) for each in self._distinct)])
        counted = [Aggregate(part.name, "count", f"distinct {part.name}") if part.kind == "count_distinct" else part
                   for part in self._aggregates]  # fmt: skip
        self._cells = Cells(self._input, self._keys, counted)
        self.most_rows = most_rows
        self._has_floats = any(
            part.kind in ("sum", "avg") and pa.types.is_floating(schema.field(part.column).type) for part in aggregates
        )
        self._open = KeyedRows(self._cells.schema, len(self._keys), name, space)
        self._next_end = min(self._ends_of(self._open.live_slots()).tolist(), default=_NONE)

    @staticmethod
    def schema_of(
        schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[Aggregate], span: WindowSpan
    ) -> pa.Schema:
        """Return the columns of the output."""
        first, *rest = Cells(schema, (span.start, *keys), aggregates).output
        return pa.schema([first, first.with_name(span.end).with_nullable(False), *rest])

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        for part in self._aggregates:
            if part.kind == "count_distinct":
                column = self._first_of_each(batch, part)
                batch = batch.append_column(f"distinct {part.name}", column)
        if self._has_floats:  # row by row, so that floats are added in the order of the rows
            rows = np.arange(batch.num_rows)
            cells = self._cells.of_rows(batch, rows, rows)
            _, first = group_codes([batch.column(key) for key in self._keys], batch.num_rows)
            keys = take([batch.column(key) for key in self._keys], first)
        else:
            cells = self._cells.grouped(batch)
            keys = cells.columns[: len(self._keys)]
        slots = self._open.find(keys, len(keys[0]))
        known = slots[slots >= 0]
        if len(known):
            old = pa.RecordBatch.from_arrays(self._open.rows(known), schema=self._cells.schema)
            cells = concat([old, cells], self._cells.schema)
        cells = self._cells.merged(cells)
        self._open.put(cells)
        self._next_end = min(self._next_end, int(self._ends_in(cells).min()))
        return iter(())

    def advance(self, bound: int) -> Batches:
        if bound < self._next_end or not len(self._open):
            return
        slots = self._open.live_slots()
        ends = self._ends_of(slots)
        is_closed = ends <= bound
        self._next_end = int(ends[~is_closed].min()) if not is_closed.all() else _NONE
        slots, ends = slots[is_closed], ends[is_closed]
        if not len(slots):
            return
        cells = pa.RecordBatch.from_arrays(self._open.rows(slots), schema=self._cells.schema)
        ends_column = time_array(ends, self.schema.field(1).type)
        (codes,) = order_codes([[ends_column, *cells.columns[: len(self._keys)]]])
        order = np.argsort(codes, kind="stable")
        cells = cells.take(pa.array(order))
        for distinct in self._distinct.values():
            self._forget(distinct, slots)
        self._open.delete_at(slots)
        first, *rest = self._cells.results(cells).columns
        arrays = [first, ends_column.take(pa.array(order)), *rest][: len(self.schema)]
        yield from pieces(pa.RecordBatch.from_arrays(arrays, schema=self.schema), self.most_rows)

    def watermark(self, bound: int) -> int:
        """Return the least window end that is not complete at this bound."""
        if bound == ENDED:
            return ENDED
        if not self._span.slide:
            return bound + 1
        return ((bound - self._span.size) // self._span.slide + 1) * self._span.slide + self._span.size

    def held_rows(self) -> int:
        return len(self._open) + sum(len(each) for each in self._distinct.values())

    def _ends_of(self, slots: Integers) -> Integers:
        """Return the ends of the windows of open groups."""
        if self._span.time:
            last: Integers = self._open.values(slots)[-1]  # last word of the last cell
            return last + self._span.size
        return self._open.first_words(slots) + self._span.size

    def _ends_in(self, cells: pa.RecordBatch) -> Integers:
        column = cells.column(cells.num_columns - 1 if self._span.time else 0)
        return ticks_of(column) + self._span.size

    def _first_of_each(self, batch: pa.RecordBatch, part: Aggregate) -> pa.Array:
        """Return 1 for each value that is the first of its kind in its group, otherwise NULL."""
        seen = self._distinct[part.name]
        columns = [batch.column(key) for key in (*self._keys, part.column)]
        _, first = group_codes(columns, batch.num_rows)
        valid = columns[-1].take(pa.array(first)).is_valid().to_numpy(zero_copy_only=False)
        first = first[valid]
        keys = take(columns, first)
        slots = seen.find(keys, len(first))
        fresh = np.flatnonzero(slots < 0)
        seen.put(pa.RecordBatch.from_arrays(take(keys, fresh), schema=seen.schema))
        missing = np.ones(batch.num_rows, np.bool_)
        missing[first[fresh]] = False
        return pa.array(np.ones(batch.num_rows, np.int64), mask=missing)

    def _forget(self, distinct: KeyedRows, closed: Integers) -> None:
        """Delete the values of closed groups."""
        slots = distinct.live_slots()
        if not len(slots):
            return
        groups = self._open.find(distinct.rows(slots)[:-1], len(slots))
        distinct.delete_at(slots[np.isin(groups, closed)])
