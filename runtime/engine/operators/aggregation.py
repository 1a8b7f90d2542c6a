"""Streaming aggregation by event time: groups of windows, whose partial aggregates are *cells*.

```
rows ──▶ Cells: a row per group ──▶ WindowAggregation: added to the open groups, yielded when their window has ended
```

Cells are Arrow columns with a value for each group, so that incomplete groups are ordinary batches. Cells are computed
from rows, or merged from other cells of the same groups. SUM and AVG have two cells: a total, and the number of values
in it. COUNT has one cell with a number; MIN, MAX, FIRST and LAST have one cell with one of the values.

Integer sums are exact: int64 while nothing can pass 64 bits, Python integers (dtype object) from then on. numpy has the
same operations for both types, so that code over such columns is written once. `fit` is called before values are added:
it returns them in a type in which their sum cannot wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import concat, inward, outward, take, ticks_of, time_array
from runtime.engine.operators.keyedrows import KeyedRows
from runtime.engine.operators.keys import group_codes, order_codes
from runtime.engine.operators.operator import ENDED, MOST_ROWS, Batches, Operator, OperatorError, pieces
from runtime.state import WIDE, CorruptStateError, ObjectSpace, StateOverflowError, decimals_of_integers

__all__ = ["WindowAggregate", "WindowAggregation", "WindowSpan"]


Exact = npt.NDArray[Any]
"""Array of int64, or of Python integers with dtype object."""

_ROOM: Final = 2**62
"""Magnitude below which results are computed as int64."""
_MOST: Final = 2**126
"""Magnitude that no sum may reach."""
_FEW: Final = 32
"""Number of values up to which a Python loop is faster than numpy."""


def largest(values: Exact) -> int:
    """Return the largest magnitude."""
    if values.size <= _FEW:
        few = values.tolist()
        return max(*few, -min(few)) if few else 0
    return max(int(np.maximum.reduce(values)), -int(np.minimum.reduce(values)))


def fit(bound: int, *arrays: Exact) -> tuple[Exact, ...]:
    """Return the arrays unchanged if results up to magnitude ``bound`` cannot wrap, else as Python integers."""
    if bound < _ROOM:
        for array in arrays:
            if array.dtype == object:
                break
        else:
            return arrays
    return tuple(array.astype(object) for array in arrays)


def _checked(values: Exact) -> Exact:
    """Return the values; raise `StateOverflowError` if one has more than 126 bits."""
    if values.dtype == object and largest(values) >= _MOST:
        raise StateOverflowError(f"expected a sum of at most 126 bits, was {largest(values)}")
    return values


def arrow_of(values: Exact) -> pa.Array:
    """Return an int64 array, or decimal128(38, 0) for Python integers; raise `StateOverflowError` past 126 bits."""
    if values.dtype != object:
        return pa.array(np.ascontiguousarray(values))
    return decimals_of_integers(_checked(values).tolist())


def exact_of(array: pa.Array) -> Exact:
    """Return the integers of an array, the inverse of `arrow_of`.

    Raise `CorruptStateError` for an array of another type.
    """
    if array.type.equals(pa.int64()):
        plain: Exact = array.to_numpy(zero_copy_only=False)
        return plain
    if not array.type.equals(WIDE):
        raise CorruptStateError(f"expected int64 or {WIDE}, was {array.type}")
    return _of_integers([int(value) for value in array.to_pylist()])


def _of_integers(values: Sequence[int]) -> Exact:
    """Return Python integers as a column: int64 if all of them are below 2^62 in magnitude."""
    if all(-_ROOM < value < _ROOM for value in values):
        return np.array(values, np.int64)
    result = np.empty(len(values), object)
    result[:] = values
    return result


Integers = npt.NDArray[np.int64]
Kind = Literal["count_rows", "count", "count_distinct", "sum", "avg", "min", "max", "first", "last"]


class WindowAggregate(msgspec.Struct, frozen=True):
    """One aggregate of every group."""

    name: str
    """Name of the aggregate's column in the output."""
    kind: Kind
    """Kind of the aggregate. SUM, AVG, MIN and MAX are NULL if all values are NULL; FIRST and LAST take the value of
    the first and last row, NULL or not."""
    column: str = ""
    """Column to aggregate; not needed for ``count_rows``."""


class Cells:
    """Cells of some aggregates over rows of one schema, with the conversions between rows, cells and results."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[WindowAggregate]) -> None:
        self.keys = tuple(keys)
        self.aggregates = tuple(aggregates)
        self._input = schema
        fields = [schema.field(key) for key in keys]
        outputs = list(fields)
        for number, part in enumerate(aggregates):
            fields += _cell_fields(number, part, schema)
            outputs.append(_output_field(part, schema, grouped=bool(keys)))
        self.schema = pa.schema(fields)
        """Schema of keys and cells."""
        self.output = pa.schema(outputs)
        """Schema of keys and results."""

    def of_rows(self, batch: pa.RecordBatch, codes: Integers, first: Integers) -> pa.RecordBatch:
        """Return the cells of a batch's groups; ``codes`` is each row's group, ``first`` each group's first row."""
        arrays = take([batch.column(key) for key in self.keys], first)
        for part in self.aggregates:
            column = batch.column(part.column) if part.column else None
            arrays += _of_rows(part, column, codes, len(first))
        return self._cells(arrays)

    def grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the cells of a batch's rows, with one row per group."""
        return self.of_rows(batch, *group_codes([batch.column(key) for key in self.keys], batch.num_rows))

    def merged(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return the cells merged to one row per group; FIRST and LAST follow the order of the rows."""
        codes, first = group_codes([cells.column(key) for key in self.keys], cells.num_rows)
        if len(first) == cells.num_rows:
            return cells
        arrays = take([cells.column(key) for key in self.keys], first)
        place = len(self.keys)
        for part in self.aggregates:
            for operation in _CELLS[part.kind]:
                arrays.append(_combined(operation, cells.column(place), codes, len(first)))
                place += 1
        return self._cells(arrays)

    def results(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of the groups from their cells."""
        arrays = list(cells.columns[: len(self.keys)])
        place = len(self.keys)
        for part, field in zip(self.aggregates, list(self.output)[len(self.keys) :], strict=True):
            width = len(_CELLS[part.kind])
            arrays.append(_result(part, cells.columns[place : place + width], field, self._scale(part)))
            place += width
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    def _scale(self, part: WindowAggregate) -> int:
        """Return the number of digits after the point in the values that are aggregated."""
        kind = self._input.field(part.column).type if part.column else None
        return kind.scale if kind is not None and pa.types.is_decimal(kind) else 0

    def _cells(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        typed = [outward(array, field.type) for array, field in zip(arrays, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)


_CELLS: Final[dict[str, tuple[str, ...]]] = {
    "count_rows": ("add",),
    "count": ("add",),
    "sum": ("add", "add"),
    "avg": ("add", "add"),
    "min": ("min",),
    "max": ("max",),
    "first": ("first",),
    "last": ("last",),
}
"""Operation that merges two cells of a group, for each cell of an aggregate, by the aggregate's kind."""


def _cell_fields(number: int, part: WindowAggregate, schema: pa.Schema) -> list[pa.Field]:
    if part.kind in ("count_rows", "count", "count_distinct"):
        return [pa.field(f"cell_{number}_count", pa.int64(), nullable=False)]
    kind = schema.field(part.column).type
    if part.kind in ("sum", "avg"):
        if not (pa.types.is_int64(kind) or pa.types.is_decimal(kind) or pa.types.is_float64(kind)):
            raise PlanError(f"expected numbers in {part.kind.upper()}({part.column}), was {kind}")
        total = pa.float64() if pa.types.is_float64(kind) else WIDE
        return [pa.field(f"cell_{number}_total", total, nullable=False),
                pa.field(f"cell_{number}_count", pa.int64(), nullable=False)]  # fmt: skip
    if pa.types.is_list(kind) and part.kind in ("min", "max"):
        raise PlanError(f"expected values with an order in {part.kind.upper()}({part.column}), was {kind}")
    return [pa.field(f"cell_{number}_value", kind, nullable=True)]


def _output_field(part: WindowAggregate, schema: pa.Schema, *, grouped: bool) -> pa.Field:
    if part.kind in ("count_rows", "count", "count_distinct"):
        return pa.field(part.name, pa.int64(), nullable=False)
    field = schema.field(part.column)
    nullable = field.nullable or not grouped
    if part.kind == "avg":
        return pa.field(part.name, pa.float64(), nullable)
    if part.kind == "sum" and not pa.types.is_float64(field.type):
        scale = field.type.scale if pa.types.is_decimal(field.type) else 0
        return pa.field(part.name, pa.decimal128(38, scale), nullable)
    return pa.field(part.name, field.type, nullable)


def _of_rows(part: WindowAggregate, column: pa.Array | None, codes: Integers, groups: int) -> list[pa.Array]:
    if part.kind == "count_rows":
        return [pa.array(np.bincount(codes, minlength=groups))]
    assert column is not None
    column = inward(column)
    if part.kind in ("min", "max", "first", "last"):
        return [_picked(part.kind, column, codes, groups)]
    if column.null_count:
        valid = column.is_valid()
        codes = codes[valid.to_numpy(zero_copy_only=False)]
        column = column.filter(valid)
    counts = pa.array(np.bincount(codes, minlength=groups))
    return [counts] if part.kind == "count" else [_added(column, codes, groups), counts]


def _combined(operation: str, column: pa.Array, codes: Integers, groups: int) -> pa.Array:
    if operation == "add":
        return _added(inward(column), codes, groups)
    return _picked(operation, inward(column), codes, groups)


def _added(column: pa.Array, codes: Integers, groups: int) -> pa.Array:
    """Return the exact sums of integers, int64 unless a sum could pass 64 bits; float sums in the order of the rows."""
    if pa.types.is_float64(column.type):
        totals = np.zeros(groups, np.float64)
        with np.errstate(invalid="ignore"):  # the sum of an infinity and its opposite is NaN
            np.add.at(totals, codes, column.to_numpy(zero_copy_only=False))
        return pa.array(totals)
    values = exact_of(column)
    (values,) = fit(largest(values) * len(values), values)
    sums = np.zeros(groups, np.int64) if values.dtype != object else np.full(groups, 0, object)
    np.add.at(sums, codes, values)
    try:
        return arrow_of(sums)
    except StateOverflowError as error:
        raise OperatorError(str(error)) from None


def _picked(kind: str, column: pa.Array, codes: Integers, groups: int) -> pa.Array:
    """Return one value of each group, NULL if it has none; FIRST and LAST return the value of a row, NULL or not."""
    rows = len(column)
    places = np.full(groups, -1, np.int64)
    if kind == "first":
        places[codes[::-1]] = np.arange(rows - 1, -1, -1)
    elif kind == "last":
        places[codes] = np.arange(rows)
    elif rows:
        valid = None if not column.null_count else np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if valid is not None:
            column, codes = column.take(pa.array(valid)), codes[valid]
        (order,) = order_codes([[column]])
        best = np.full(groups, np.iinfo(np.int64).max if kind == "min" else np.iinfo(np.int64).min)
        (np.minimum if kind == "min" else np.maximum).at(best, codes, order)
        hits = np.flatnonzero(order == best[codes])[::-1]
        places[codes[hits]] = hits  # the first of equal values
    return take([column], places)[0]


def _result(part: WindowAggregate, cells: Sequence[pa.Array], field: pa.Field, scale: int) -> pa.Array:
    if part.kind not in ("sum", "avg"):
        return cells[0]
    total, count = cells
    empty = pc.equal(count, 0)
    if part.kind == "sum":
        return outward(pc.if_else(empty, pa.scalar(None, total.type), total), field.type)
    averages = _quotients(inward(total), count, 10**scale)
    return pc.if_else(empty, pa.scalar(None, pa.float64()), averages)


def _quotients(total: pa.Array, count: pa.Array, unit: int) -> pa.Array:
    """Return the averages: exact integers are divided once, and only then rounded.

    ``unit`` is the integer that represents the number 1 in the totals.
    """
    counts = count.to_numpy(zero_copy_only=False)
    is_wide = pa.types.is_decimal(total.type)
    totals = np.array(total.to_pylist(), object) if is_wide else total.to_numpy(zero_copy_only=False)
    is_exact = totals.dtype != np.float64
    if is_wide or (is_exact and max(largest(totals), largest(counts) * unit) > 2**53):
        pairs = zip(totals.tolist(), counts.tolist(), strict=True)
        return pa.array([int(t) / (n * unit) if n else None for t, n in pairs], pa.float64())
    return pa.array(totals / (np.maximum(counts, 1) * unit))


_NONE: Final = 2**63 - 1
"""End of the next window to close if no window is open."""
_LAST: Final = "window_last"
"""Name of the hidden aggregate with the time of the last row of a session."""


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
    windows that end at or before the bound, ordered by the window's end and then by the keys, and deletes their cells.
    Rows of one group are added in their order, so that even sums of floats do not depend on how rows are cut into
    batches.

    Each COUNT(DISTINCT …) has a table of its own, with the values of all open groups.
    """

    keeps = "the cells of each open window"

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Sequence[WindowAggregate],
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
        hidden = [WindowAggregate(_LAST, "last", span.time)] if span.time else []
        self._distinct = {
            part.name: KeyedRows(pa.schema([schema.field(key) for key in (*self._keys, part.column)]),
                                 len(self._keys) + 1, f"{name}/distinct/{number}", space)
            for number, part in enumerate(aggregates) if part.kind == "count_distinct"
        }  # fmt: skip
        self._aggregates = [*aggregates, *hidden]
        self._input = pa.schema([*schema, *(pa.field(f"distinct {each}", pa.int64(), True) for each in self._distinct)])
        counted = [
            WindowAggregate(part.name, "count", f"distinct {part.name}") if part.kind == "count_distinct" else part
            for part in self._aggregates
        ]
        self._cells = Cells(self._input, self._keys, counted)
        self.most_rows = most_rows
        self._has_floats = any(
            part.kind in ("sum", "avg") and pa.types.is_floating(schema.field(part.column).type) for part in aggregates
        )
        self._open = KeyedRows(self._cells.schema, len(self._keys), name, space)
        self._next_end = min(self._ends_of(self._open.live_slots()).tolist(), default=_NONE)

    @staticmethod
    def schema_of(
        schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[WindowAggregate], span: WindowSpan
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

    def _first_of_each(self, batch: pa.RecordBatch, part: WindowAggregate) -> pa.Array:
        """Return 1 for each row whose value is new in its group, otherwise NULL."""
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
