"""Windows over event time: each row with the start of every window that contains it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import checked_ticks, take, time_array
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.state import ObjectSpace

__all__ = ["Sessions", "Windows"]


class Windows(Operator):
    """Operator that appends the start of each window that contains a row, as last column.

    Windows begin at the multiples of ``slide``, are ``size`` long and contain their start, not their end. With a slide
    of ``size`` they are tumbling windows. Hopping windows overlap, and a row is yielded once for each of its windows,
    the latest window first. A batch is expanded piece by piece.
    """

    def __init__(
        self, schema: pa.Schema, time: str, start: str, slide: int, size: int, *, most_rows: int = MOST_ROWS
    ) -> None:
        super().__init__(schema.append(pa.field(start, schema.field(time).type, nullable=False)))
        self.most_rows = most_rows
        self._time = time
        self._slide = slide
        self._size = size

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        times = checked_ticks(batch.column(self._time))
        latest = times - times % self._slide
        if self._size == self._slide:
            yield from pieces(self._made(batch.columns, latest), self.most_rows)
            return
        counts = (latest + self._size - times - 1) // self._slide + 1
        ends = np.cumsum(counts)
        for begin in range(0, int(ends[-1]) if len(ends) else 0, self.most_rows):
            places = np.arange(begin, min(begin + self.most_rows, int(ends[-1])))
            rows = np.searchsorted(ends, places, side="right")
            number = places - (ends - counts)[rows]
            yield self._made(take(batch.columns, rows), latest[rows] - number * self._slide)

    def _made(self, columns: Sequence[pa.Array], starts: npt.NDArray[np.int64]) -> pa.RecordBatch:
        kind = self.schema.field(len(self.schema) - 1).type
        return pa.RecordBatch.from_arrays([*columns, time_array(starts, kind)], schema=self.schema)


class Sessions(Operator):
    """Operator that appends the start of the session that contains a row, as last column.

    A session of a key continues while each row is less than ``gap`` after the previous row. The times of the first and
    last row of every open session are in the object space; the times of a session that event time has ended are
    deleted.
    """

    keeps = "start and last row of each open session"
    holds_state = True

    def __init__(
        self,
        schema: pa.Schema,
        time: str,
        start: str,
        keys: Sequence[str],
        gap: int,
        *,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        kind = schema.field(time).type
        super().__init__(schema.append(pa.field(start, kind, nullable=False)))
        self.most_rows = most_rows
        self._time = time
        self._keys = tuple(keys)
        self._gap = gap
        fields = [schema.field(key) for key in keys]
        times = [pa.field("session_start", pa.int64(), False), pa.field("session_last", pa.int64(), False)]
        self._open = KeyedRows(pa.schema([*fields, *times]), len(fields), name, space)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        times = checked_ticks(batch.column(self._time))
        columns = [batch.column(key) for key in self._keys]
        codes, first = group_codes(columns, batch.num_rows)
        order = np.argsort(codes, kind="stable")
        codes, times = codes[order], times[order]
        is_head = np.ones(len(codes), np.bool_)
        is_head[1:] = codes[1:] != codes[:-1]
        heads = np.flatnonzero(is_head)  # groups in the order of their codes
        before = np.empty_like(times)
        before[1:] = times[:-1]
        keys = take(columns, first)
        slots = self._open.find(keys, len(first))
        known = slots >= 0
        old = self._open.values(np.maximum(slots, 0)) if known.any() else np.zeros((2, len(slots)), np.int64)
        before[heads] = np.where(known, old[1], times[heads])
        begins = times - before >= self._gap
        begins[heads] |= ~known
        anchors = np.where(begins | is_head, np.arange(len(times)), 0)
        anchors = np.maximum.accumulate(anchors)
        starts = times[anchors]
        carried = ~begins[anchors]  # flags of the first rows of groups that continue an open session
        starts[carried] = old[0][codes[carried]]
        tails = np.append(heads[1:], len(codes)) - 1
        self._open.put(pa.RecordBatch.from_arrays(
            [*keys, pa.array(starts[tails]), pa.array(times[tails])], schema=self._open.schema
        ))  # fmt: skip
        result = np.empty_like(starts)
        result[order] = starts
        kind = self.schema.field(len(self.schema) - 1).type
        made = pa.RecordBatch.from_arrays([*batch.columns, time_array(result, kind)], schema=self.schema)
        return pieces(made, self.most_rows)

    def advance(self, bound: int) -> Batches:
        slots = self._open.live_slots()
        if len(slots):
            last = self._open.values(slots)[1]
            self._open.delete_at(slots[last <= bound - self._gap])
        return iter(())

    def held_rows(self) -> int:
        return len(self._open)
