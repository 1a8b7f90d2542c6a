"""As-of join of every left row with the last right row that is not later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import concat, matched, stacked, take, ticks_of
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes, null_rows
from runtime.engine.operators.operator import ENDED, MOST_ROWS, Batches, Operator
from runtime.state import ObjectSpace

__all__ = ["AsofJoin"]

Integers = npt.NDArray[np.int64]

_SWEEP_FACTOR: Final = 4
"""Greatest ratio of held rows to new ones at which rows past the tolerance are searched for."""


class AsofJoin(Operator):
    """Operator that joins each row of port 0 with the last row of port 1 that is not later.

    ``by`` has pairs of columns, and only rows in which these are equal match; NULL is equal to nothing. Of several
    right rows at the same time the last one matches. ``tolerance`` is the greatest difference to the time of a match,
    in the unit of the times. ``outer`` is True if left rows without a match are yielded, too, with NULL. Output is in
    the order of the left input.

    The last right row of each key is in the object space; at a barrier, the rows with the keys of the new left rows are
    read. When at least a quarter of the held rows are new, all held rows past the tolerance are deleted.
    """

    ports = 2
    keeps = "the last right row of each key"
    holds_state = True
    drops = (False, True)

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: tuple[str, str],
        by: Sequence[tuple[str, str]] = (),
        *,
        outer: bool,
        tolerance: int | None,
        name: str,
        space: ObjectSpace,
        most_rows: int = MOST_ROWS,
    ) -> None:
        super().__init__(matched(left, right, left_optional=False, right_optional=outer))
        self.most_rows = most_rows
        self._left, self._right = left, right
        self._on = on
        self._by = ([left_name for left_name, _ in by], [right_name for _, right_name in by])
        self._outer = outer
        self._tolerance = tolerance
        self._keys = {theirs: mine for mine, theirs in reversed(by)}  # right → left column of each key
        order = dict.fromkeys((*self._by[1], *right.names))
        self._kept = KeyedRows(pa.schema([right.field(each) for each in order]), len(self._keys), name, space)
        self._rows: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._fresh = 0  # new rows since rows past the tolerance were searched for

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if batch.num_rows:
            self._rows[port].append(batch)
        return iter(())

    def advance(self, bound: int) -> Batches:
        left, right = concat(self._rows[0], self._left), concat(self._rows[1], self._right)
        self._rows = ([], [])
        right = self._with_key(right)
        if left.num_rows:
            yield from self._answered(left, concat([self._past(left), right], self._right))
        self._remember(right, bound)

    def held_rows(self) -> int:
        return len(self._kept) + sum(int(batch.num_rows) for rows in self._rows for batch in rows)

    def _past(self, left: pa.RecordBatch) -> pa.RecordBatch:
        """Return the last right rows of earlier barriers, at least those with the keys of these left rows."""
        names = self._kept.schema.names[: len(self._keys)]
        keys = [left.column(self._keys[name]) for name in names]
        if any(key.type != self._kept.schema.field(name).type for key, name in zip(keys, names, strict=True)):
            slots = self._kept.live_slots()  # equal values of other types have other words
        else:
            _, first = group_codes(keys, left.num_rows)
            keys = take(keys, first)
            if (nulls := null_rows(keys)) is not None:
                keys = [key.filter(pa.array(~nulls)) for key in keys]
            slots = self._kept.find(keys, len(keys[0]) if keys else 1)
            slots = slots[slots >= 0]
        kept = pa.RecordBatch.from_arrays(self._kept.rows(slots), schema=self._kept.schema)
        return kept.select(self._right.names)

    def _with_key(self, right: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows without a NULL in their key."""
        nulls = null_rows([right.column(name) for name in self._by[1]])
        return right if nulls is None else right.filter(pa.array(~nulls))

    def _remember(self, right: pa.RecordBatch, bound: int) -> None:
        """Store the last row of each key, and delete rows past the tolerance from time to time."""
        if right.num_rows:
            codes, first = group_codes([right.column(name) for name in self._by[1]], right.num_rows)
            last = np.zeros(len(first), np.int64)
            last[codes] = np.arange(right.num_rows)
            last.sort()
            self._kept.put(right.take(pa.array(last)).select(self._kept.schema.names))
            self._fresh += len(last)
        if self._tolerance is None or bound == ENDED or _SWEEP_FACTOR * self._fresh < len(self._kept):
            return
        self._fresh = 0
        slots = self._kept.live_slots()
        self._kept.delete_at(slots[self._kept.integers(self._on[1], slots) < bound - self._tolerance])

    def _answered(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Batches:
        matches = self._matches(left, right)
        places = np.arange(left.num_rows) if self._outer else np.flatnonzero(matches >= 0)
        for begin in range(0, len(places), self.most_rows):
            rows = places[begin : begin + self.most_rows]
            columns = left.columns if len(rows) == left.num_rows else take(left.columns, rows)
            arrays = columns + take(right.columns, matches[rows])
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _matches(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Integers:
        """Return the right row of each left row, -1 for none.

        Both inputs are in order of time, except that the right one begins with the rows of earlier barriers, in any
        order. Rows of both sides are merged by time; a left row matches the last right row of its key that is not
        later.
        """
        count = left.num_rows
        if not right.num_rows:
            return np.full(count, -1)
        mine, theirs = ticks_of(left.column(self._on[0])), ticks_of(right.column(self._on[1]))
        # Number of right rows that are not later.
        reached = np.searchsorted(np.maximum.accumulate(theirs), mine, side="right")
        matches = self._by_key(left, right, reached) if self._by[0] else reached - 1
        if self._tolerance is not None:
            # A match is not later: as unsigned integers, the difference of any two such times is exact.
            differences = mine.view(np.uint64) - theirs[np.maximum(matches, 0)].view(np.uint64)
            matches = np.where(differences > self._tolerance, -1, matches)
        return matches

    def _by_key(self, left: pa.RecordBatch, right: pa.RecordBatch, reached: Integers) -> Integers:
        """Return, for each left row, the last of the first ``reached`` right rows that has its key; -1 for none."""
        count, others = left.num_rows, right.num_rows
        columns = [stacked(left.column(mine), right.column(theirs)) for mine, theirs in zip(*self._by, strict=True)]
        codes, _ = group_codes(columns, count + others)
        mine, theirs = codes[:count], codes[count:]
        ordered = theirs * (others + 1) + np.arange(1, others + 1)
        order = np.argsort(theirs, kind="stable")
        ordered = ordered[order]
        positions = np.searchsorted(ordered, mine * (others + 1) + reached, side="right") - 1
        matches = np.where(positions >= 0, order[np.maximum(positions, 0)], -1)
        matches = np.where((matches >= 0) & (theirs[np.maximum(matches, 0)] == mine), matches, -1)
        nulls = null_rows([left.column(name) for name in self._by[0]])
        if nulls is not None:
            matches[nulls] = -1
        return matches
