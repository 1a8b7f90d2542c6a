"""The result of a view that is kept as sums per group: from changed groups to rows that go and rows that come."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Col, Column, ColumnType, Expr, Joined, Selected, View
from runtime.state import ARROW_TYPES, KeyColumn, StringPool, SumRow, SumTable, decode_words, width_of
from runtime.state.columnar.exactsums import Exact, arrow_of, total_of
from runtime.views.evaluate import evaluate, mask, wide_array
from runtime.views.linear import as_column, change_schema, consolidate
from runtime.views.scalars import scalar

__all__ = ["GroupResult"]

Integers = npt.NDArray[np.int64]

_WIDE: Final = ARROW_TYPES["int128"]
_FEW: Final = 48
"""Up to so many groups are quicker one by one than as columns."""


class GroupResult:
    """Groups with weight and sums, and the view's rows over them; NULL is a key like any other."""

    def __init__(
        self,
        view: View,
        body: Joined | Selected,
        keys: Sequence[tuple[str, ColumnType]],
        sums: Sequence[str],
        pool: StringPool,
    ) -> None:
        self._columns = view.columns
        self._schema = change_schema(view.columns)
        self._keys = tuple(KeyColumn(name, kind, nullable=True) for name, kind in keys)
        self._sums = ("weight", *sums)
        self._outputs, self._having, self._empty = body.outputs, body.having, body.empty
        self._names = (*(name for name, _ in keys), *self._sums)
        self._condition = None if body.having is None else scalar(body.having)
        self._output = _output(body.outputs, self._names)
        shown = {output.name for output in body.outputs if isinstance(output, Col)}
        self._shows_keys = body.having is None and shown.issuperset(name for name, _ in keys)
        """Whether a row belongs to one group, so that rows of different groups are never equal."""
        self._places = self._places_shown() if self._shows_keys else None
        """Per output, its place among the sums, or -1 - its place among the keys; None: rows are not that plain."""
        self._pool = pool
        self._seen_words = b""
        self._seen_keys: list[tuple[Any, ...]] = []
        self.table = SumTable(width_of(self._keys), len(self._sums)) if self._keys else SumRow(len(self._sums))

    def add(self, words: Integers, deltas: list[Exact], *, begun: bool) -> pa.Table | None:
        """Add deltas to groups that do not repeat (words as of nullable columns); gives what changes in the view.

        While ``begun`` is False nothing stands in the view yet, not even the row of an empty group.
        """
        if isinstance(self.table, SumRow):
            return self.add_row([total_of(value) for value in deltas], begun=begun)
        before, after, _ = self.table.add(words, deltas)
        if self._places is not None and not words[:, ::2].any() and object not in [v.dtype for v in (*before, *after)]:
            return self._plain(self._places, words, before, after)
        if len(words) <= _FEW:
            return self._few(words, before, after)
        same = np.logical_and.reduce([(a == b).astype(np.bool_) for a, b in zip(before, after, strict=True)])
        moved = np.flatnonzero(~same)
        return self._many(words[moved], [value[moved] for value in before], [value[moved] for value in after])

    def add_row(self, deltas: Sequence[int], *, begun: bool) -> pa.Table | None:
        """The same without GROUP BY, where there is one group."""
        assert isinstance(self.table, SumRow)
        old = self.table.values
        new = self.table.add(deltas)
        counts: dict[tuple[Any, ...], int] = {}
        if old != new:
            self._count(counts, (), old, new)
        if self._empty is not None:
            counts[self._empty] = counts.get(self._empty, 0) + int(new[0] <= 0) - int(begun and old[0] <= 0)
        return self._counted(counts)

    def set_row(self, values: Sequence[int], *, begun: bool) -> pa.Table | None:
        """Make the one group's sums these."""
        assert isinstance(self.table, SumRow)
        return self.add_row([new - old for new, old in zip(values, self.table.values, strict=True)], begun=begun)

    def set_groups(self, words: Integers, values: list[Exact], *, begun: bool) -> pa.Table | None:
        """Make the groups these, which do not repeat, with these sums; gives what changes in the view."""
        assert isinstance(self.table, SumTable)
        return self.add(*self.table.difference(words, values), begun=begun)

    @property
    def nothing(self) -> tuple[Integers, list[Exact]]:
        """Words and sums of no groups."""
        return np.zeros((0, width_of(self._keys)), np.int64), [np.zeros(0, np.int64)] * len(self._sums)

    def _places_shown(self) -> list[int] | None:
        """See `_places`; None where a row is more than integer keys and sums."""
        known = {name: place for place, name in enumerate(self._sums)}
        known |= {key.name: -1 - place for place, key in enumerate(self._keys)}
        places = []
        for output, column in zip(self._outputs, self._columns, strict=True):
            place = known[output.name] if isinstance(output, Col) else None
            if place is None or column.type not in (("int64", "int128") if place >= 0 else ("int64",)):
                return None
            places.append(place)
        return places if all(key.type == "int64" for key in self._keys) else None

    def _plain(
        self, places: Sequence[int], words: Integers, before: list[Integers], after: list[Integers]
    ) -> pa.Table | None:
        """What changes where a row of the view is a group's keys, none of them NULL, and sums of 64 bits."""
        was, is_there = before[0] > 0, after[0] > 0
        differs = was != is_there
        for place in places:
            if place >= 0:
                differs |= before[place] != after[place]
        gone, come = (was & differs).nonzero()[0], (is_there & differs).nonzero()[0]
        rows = len(gone) + len(come)
        if not rows:
            return None
        arrays = []
        for place, column in zip(places, self._columns, strict=True):
            old, new = (before[place], after[place]) if place >= 0 else (words[:, -1 - 2 * place],) * 2
            values = np.concatenate([old.take(gone), new.take(come)])
            arrays.append(pa.array(values) if column.type == "int64" else _wide(values))
        weights = np.ones(rows, np.int64)
        weights[: len(gone)] = -1
        return pa.Table.from_arrays([*arrays, pa.array(weights)], schema=self._schema)

    def _few(self, words: Integers, before: list[Exact], after: list[Exact]) -> pa.Table | None:
        olds, news = zip(*[v.tolist() for v in before], strict=True), zip(*[v.tolist() for v in after], strict=True)
        groups = zip(self._key_values(words), olds, news, strict=True)
        if not self._shows_keys:
            counts: dict[tuple[Any, ...], int] = {}
            for keys, old, new in groups:
                if old != new:
                    self._count(counts, keys, old, new)
            return self._counted(counts)
        output = self._output
        rows: list[tuple[Any, ...]] = []
        weights: list[int] = []
        for keys, old, new in groups:
            gone = output(keys + old) if old[0] > 0 else None
            come = output(keys + new) if new[0] > 0 else None
            if gone != come:
                if gone is not None:
                    rows.append(gone)
                    weights.append(-1)
                if come is not None:
                    rows.append(come)
                    weights.append(1)
        return self._table(rows, weights)

    def _count(
        self, counts: dict[tuple[Any, ...], int], keys: tuple[Any, ...], old: tuple[int, ...], new: tuple[int, ...]
    ) -> None:
        """Count the rows that a group of other sums takes from the view and adds to it."""
        for sums, sign in ((old, -1), (new, 1)):
            row = self._row(keys, sums)
            if row is not None:
                counts[row] = counts.get(row, 0) + sign

    def _key_values(self, words: Integers) -> list[tuple[Any, ...]]:
        """The keys of each row; the same groups change in most batches of a view that has few of them."""
        raw = words.tobytes()
        if raw != self._seen_words:
            columns = [_python_values(array) for array in self._decoded(words)]
            self._seen_words, self._seen_keys = raw, list(zip(*columns, strict=True))
        return self._seen_keys

    def _row(self, keys: tuple[Any, ...], sums: tuple[int, ...]) -> tuple[Any, ...] | None:
        if sums[0] <= 0:
            return None
        values = (*keys, *sums)
        if self._condition is not None and self._condition(dict(zip(self._names, values, strict=True))) is not True:
            return None
        return self._output(values)

    def _counted(self, counts: Mapping[tuple[Any, ...], int]) -> pa.Table | None:
        rows = [row for row, count in counts.items() if count]
        return self._table(rows, [count for count in counts.values() if count])

    def _table(self, rows: Sequence[tuple[Any, ...]], weights: Sequence[int]) -> pa.Table | None:
        if not rows:
            return None
        columns = zip(*rows, strict=True)
        arrays = [_column(values, column) for values, column in zip(columns, self._columns, strict=True)]
        return pa.Table.from_arrays([*arrays, pa.array(np.array(weights, np.int64))], schema=self._schema)

    def _many(self, words: Integers, before: list[Exact], after: list[Exact]) -> pa.Table:
        tables = []
        for sums, sign in ((before, -1), (after, 1)):
            present = (sums[0] > 0).astype(np.bool_)
            rows = int(present.sum())
            named = dict(zip((c.name for c in self._keys), self._decoded(words[present]), strict=True))
            named |= {name: arrow_of(value[present]) for name, value in zip(self._sums, sums, strict=True)}
            chosen = mask(self._having, named, rows)
            if chosen is not None:
                named = {name: array.filter(chosen) for name, array in named.items()}
                rows = int(pc.sum(chosen).as_py() or 0)
            arrays = [
                as_column(evaluate(output, named, rows), column)
                for output, column in zip(self._outputs, self._columns, strict=True)
            ]
            tables.append(pa.Table.from_arrays([*arrays, pa.array(np.full(rows, sign))], schema=self._schema))
        return consolidate(pa.concat_tables(tables), self._schema)

    def _decoded(self, words: Integers) -> list[pa.Array]:
        return decode_words(self._keys, words, self._pool)


def _output(outputs: Sequence[Expr], names: Sequence[str]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """From a group's keys and sums to the view's row."""
    if all(isinstance(output, Col) for output in outputs) and len(outputs) > 1:
        places = {name: place for place, name in enumerate(names)}
        return operator.itemgetter(*(places[output.name] for output in outputs if isinstance(output, Col)))
    functions = [scalar(output) for output in outputs]

    def row(values: tuple[Any, ...]) -> tuple[Any, ...]:
        named = dict(zip(names, values, strict=True))
        return tuple([function(named) for function in functions])

    return row


def _wide(values: Integers) -> pa.Array:
    halves = np.empty((len(values), 2), np.int64)
    halves[:, 0] = values
    np.right_shift(values, 63, out=halves[:, 1])
    return pa.Array.from_buffers(_WIDE, len(values), [None, pa.py_buffer(halves)])


def _python_values(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return [None if v is None else int(v) for v in values] if pa.types.is_decimal(array.type) else values


def _column(values: Sequence[Any], column: Column) -> pa.Array:
    """Python values in the type of a view's column; raises `ViewOverflowError` where one does not fit."""
    if column.type == "int128":
        return wide_array(values)
    if column.type == "int64" and {*map(type, values)} == {int}:
        try:
            return pa.array(np.array(values, np.int64))  # of a list Arrow looks into the environment first
        except OverflowError:
            pass  # refused below, in words of the view
    return as_column(_narrow(values, column), column)


def _narrow(values: Sequence[Any], column: Column) -> pa.Array:
    """Python values as an Arrow array that can be checked against the column's type."""
    if column.type == "int64" and any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
        return wide_array(list(values))
    if column.type == "float64":
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array(values, ARROW_TYPES[column.type])
