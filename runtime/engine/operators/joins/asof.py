"""As-of join: every left row with the last right row that is not later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.aggregation.keptcells import KeyedRows
from runtime.engine.operators.columns import concat, matched, take
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.joins.sides import Side
from runtime.engine.operators.keys import group_codes, key_at, null_rows, order_codes
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator
from runtime.engine.operators.sorting import MOST_HELD
from runtime.state import ObjectSpace

__all__ = ["AsofJoin"]

Integers = npt.NDArray[np.int64]

_LEAST_ROWS: Final = 1 << 15
_ROOM: Final = 2**31
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class AsofJoin(Operator):
    """Joins each row of port 0 with the row of port 1 that has the greatest ``on`` not above its own.

    Both inputs are sorted by ``on``, an integer, date or timestamp, with NULL last, which matches nothing. With ``by``,
    pairs of columns, only rows in which these are equal are looked at. Of right rows at the same ``on`` the last one
    counts. ``tolerance`` is how far back a match may lie, in the unit of ``on``, or a timedelta. ``outer``: left rows
    without a match come too, with NULL. Output is in the order of the left input.

    A left row is answered as soon as the right input is past it. At a barrier both inputs begin anew, and the right
    rows of earlier epochs are forgotten, unless they are kept: with ``keep`` the last one of each ``by`` lies in the
    object space and is matched by later epochs too.
    """

    ports = 2

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        on: tuple[str, str],
        by: Sequence[tuple[str, str]] = (),
        *,
        outer: bool = False,
        tolerance: int | timedelta | None = None,
        keep: bool = False,
        name: str = "asof",
        space: ObjectSpace | None = None,
        most_rows: int = MOST_ROWS,
        most_held: int = MOST_HELD,
        least_rows: int = _LEAST_ROWS,
    ) -> None:
        super().__init__(matched(left, right, left_optional=False, right_optional=outer))
        self.most_rows = most_rows
        self._left = Side("left", left, (on[0],), most_held)
        self._right = Side("right", right, (on[1],), most_held)
        self._by = ([one for one, _ in by], [other for _, other in by])
        self._outer = outer
        self._least_rows = least_rows
        self._tolerance = _in_units(tolerance, left.field(on[0]))
        order = [*self._by[1], *(other for other in right.names if other not in self._by[1])]
        self._kept_schema = pa.schema([right.field(each).with_nullable(True) for each in order])
        self._kept = KeyedRows(self._kept_schema, len(by), name, space) if keep else None
        self.keeps = "the last right row of each key" if keep else ""
        self._past = self._carried()  # right rows that left rows to come may match still: the last of each key

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if self.drops_input(port):
            return
        side = self._right if port else self._left
        side.push(batch)
        if self._left.rows + self._right.rows >= self._least_rows:
            yield from self._advance()
        side.check_room()

    def drain_input(self, port: int = 0) -> Batches:
        (self._right if port else self._left).finish()
        return self._advance()

    def start_drain(self) -> Batches:
        self._left.finish()
        self._right.finish()
        yield from self._advance()
        if self._kept is not None:
            self._past = self._last_of_each(concat([self._past, self._right.take_below(None)], self._right.schema))
            self._kept.put(self._past.select(self._kept_schema.names))
        else:
            self._past = self._past.slice(0, 0)
        self._left.restart()
        self._right.restart()

    def end_of_input(self, port: int = 0) -> Batches:
        (self._right if port else self._left).has_ended = True
        return self.drain_input(port)

    def drops_input(self, port: int = 0) -> bool:
        if port == 0:
            return not self._outer and self._right.is_done and not self._right.rows and not self._past.num_rows
        return self._kept is None and self._left.is_done and not self._left.rows

    def held_rows(self) -> int:
        return self._left.rows + self._right.rows + int(self._past.num_rows)

    def _carried(self) -> pa.RecordBatch:
        if self._kept is None or not len(self._kept):
            return concat([], self._right.schema)
        found = pa.RecordBatch.from_arrays(self._kept.rows(self._kept.live_slots()), schema=self._kept_schema)
        return pa.RecordBatch.from_arrays(
            [found.column(name) for name in self._right.schema.names], schema=self._right.schema
        )

    def _advance(self) -> Batches:
        """Answer the left rows that the right input is past, at equal times only when it is drained."""
        right, left = self._right, self._left
        if not right.is_done and right.last is None:
            return
        ready = left.take_below(None if right.is_done else right.last)
        if ready.num_rows:
            latest = key_at(left.key_columns(ready), ready.num_rows - 1)
            reached = right.take_below(latest, inclusive=True)
            known = concat([self._past, reached], right.schema)
            self._past = self._last_of_each(known)
        if left.is_done and not left.rows and self._kept is None:
            right.drop()
        if ready.num_rows:
            yield from self._answered(ready, known)

    def _answered(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Batches:
        found = self._found(left, right)
        if not self._outer:
            chosen = np.flatnonzero(found >= 0)
        for begin in range(0, left.num_rows if self._outer else len(chosen), self.most_rows):
            rows = slice(begin, begin + self.most_rows)
            places = np.arange(left.num_rows)[rows] if self._outer else chosen[rows]
            arrays = take(left.columns, places) + take(right.columns, found[places])
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _found(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Integers:
        """The right row of each left row, -1 for none."""
        if not right.num_rows:
            return np.full(left.num_rows, -1)
        on = (self._left.key_columns(left), self._right.key_columns(right))
        times, others = order_codes(on)
        by = [[left.column(name) for name in self._by[0]], [right.column(name) for name in self._by[1]]]
        usable = null_rows([*by[1], *on[1]])
        places = np.arange(right.num_rows) if usable is None else np.flatnonzero(~usable)
        if by[0]:
            mine, theirs = order_codes(by)
            both, when = _numbered(np.concatenate([mine, theirs])), _numbered(np.concatenate([times, others]))
            codes = both * (int(when.max()) + 1) + when  # in the order of key and time
            count = left.num_rows
            order = places[np.argsort(codes[count:][places], kind="stable")]
            found = np.searchsorted(codes[count:][order], codes[:count], side="right") - 1
            rows = np.where(found < 0, -1, order[np.maximum(found, 0)]) if len(order) else np.full(count, -1)
            rows = np.where((rows >= 0) & (both[count:][np.maximum(rows, 0)] == both[:count]), rows, -1)
        else:
            found = np.searchsorted(others[places], times, side="right") - 1
            rows = np.where(found < 0, -1, places[np.maximum(found, 0)]) if len(places) else np.full(len(times), -1)
        nulls = null_rows([*by[0], *on[0]])
        if nulls is not None:
            rows[nulls] = -1
        return self._within(rows, on)

    def _within(self, rows: Integers, on: tuple[list[pa.Array], list[pa.Array]]) -> Integers:
        """Without matches that lie too far back."""
        if self._tolerance is None:
            return rows
        mine, theirs = (_ticks(column) for (column,) in on)
        far = mine - theirs[np.maximum(rows, 0)] > self._tolerance
        return np.where(far, -1, rows)

    def _last_of_each(self, right: pa.RecordBatch) -> pa.RecordBatch:
        """The last row of each key, those with a NULL in it left out."""
        nulls = null_rows([right.column(name) for name in (*self._by[1], *self._right.keys)])
        if nulls is not None:
            right = right.filter(pa.array(~nulls))
        if not right.num_rows:
            return right
        codes, first = group_codes([right.column(name) for name in self._by[1]], right.num_rows)
        last = np.zeros(len(first), np.int64)
        last[codes] = np.arange(right.num_rows)
        return right.take(pa.array(np.sort(last)))


def _numbered(codes: Integers) -> Integers:
    """The codes from 0, small enough for two of them to be one integer; numbered anew if they are too far apart."""
    low, high = int(codes.min()), int(codes.max())
    if high - low < _ROOM:
        return codes - low
    return np.unique(codes, return_inverse=True)[1]


def _ticks(column: pa.Array) -> Integers:
    """A time column as integers of its unit; undefined where NULL."""
    plain = column.view(pa.int32()).cast(pa.int64()) if pa.types.is_date32(column.type) else column.view(pa.int64())
    found: Integers = plain.fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _in_units(tolerance: int | timedelta | None, field: pa.Field) -> int | None:
    kind = field.type
    if not (pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        raise PlanError(
            f"expected an integer, a date or a timestamp in column {field.name} of an as-of join, was {kind}"
        )
    if not isinstance(tolerance, timedelta):
        return tolerance
    if pa.types.is_date32(kind):
        return tolerance.days
    if not pa.types.is_timestamp(kind):
        raise PlanError(f"expected an integer as tolerance of column {field.name}, was {tolerance}")
    return tolerance // timedelta(microseconds=1) * _UNITS[kind.unit] // _UNITS["us"]
