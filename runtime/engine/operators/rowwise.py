"""Operators that process one batch at a time and hold nothing: filter, project, flatten, unnest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import inward, outward, take
from runtime.engine.operators.evaluate import evaluate, mask
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, OperatorError, pieces
from runtime.plan import Expr

__all__ = ["Filter", "Flatten", "Project", "Unnest", "flattened"]


def computed(exprs: Sequence[Expr], batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Return the values of expressions over a batch, as columns of this schema.

    Raise `OperatorError` for values that do not fit.
    """
    columns = {name: inward(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    rows = batch.num_rows
    try:
        return [outward(evaluate(expr, columns, rows), field.type) for expr, field in zip(exprs, schema, strict=True)]
    except (OperatorError, pa.ArrowException) as error:
        raise OperatorError(f"the columns {', '.join(schema.names)} cannot be computed: {error}") from None


class Filter(Operator):
    """Operator that yields the rows for which a condition is true (not false, not NULL)."""

    def __init__(self, schema: pa.Schema, where: Expr, *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._where = where

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        columns = {name: inward(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        try:
            chosen = mask(self._where, columns, batch.num_rows)
        except (OperatorError, pa.ArrowException) as error:
            raise OperatorError(f"a condition cannot be computed: {error}") from None
        return pieces(batch.filter(chosen), self.most_rows)


class Project(Operator):
    """Operator that computes one column per expression; an integer that its column cannot hold raises an error."""

    def __init__(self, schema: pa.Schema, exprs: Sequence[Expr], *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._exprs = tuple(exprs)

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if not batch.num_rows:
            return iter(())
        made = pa.RecordBatch.from_arrays(computed(self._exprs, batch, self.schema), schema=self.schema)
        return pieces(made, self.most_rows)


class Flatten(Operator):
    """Operator that yields one column per field of each struct, at any depth, named with the path to it: ``a.b.c``."""

    def __init__(self, schema: pa.Schema, *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(flattened(schema))
        self.most_rows = most_rows

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        arrays = [array for column in batch.columns for array in _leaves(column)]
        return pieces(pa.RecordBatch.from_arrays(arrays, schema=self.schema), self.most_rows)


def flattened(schema: pa.Schema) -> pa.Schema:
    """Return the schema with one column per field of each struct."""
    return pa.schema([leaf for field in schema for leaf in _leaf_fields(field)])


def _leaf_fields(field: pa.Field) -> list[pa.Field]:
    if not pa.types.is_struct(field.type):
        return [field]
    inner = (pa.field(f"{field.name}.{each.name}", each.type, each.nullable or field.nullable) for each in field.type)
    return [leaf for each in inner for leaf in _leaf_fields(each)]


def _leaves(column: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(column.type):
        return [column]
    return [leaf for each in column.flatten() for leaf in _leaves(each)]


Integers = npt.NDArray[np.int64]


class Unnest(Operator):
    """Operator that repeats every row for each element of its longest list, with the elements in place of the lists.

    Several lists are expanded in parallel, the shorter ones padded with NULL. A row without elements yields no row, or
    with ``outer`` one row whose elements are NULL. With ``ordinality`` the last column is the element's number, from 1,
    NULL if there is no element. A batch that expands a lot is expanded piece by piece; the caller takes all pieces
    before a barrier, so that no row is expanded in part at a barrier.
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
    """Return the index of each list's first value, and the list's length, 0 for NULL."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return offsets[:-1], lengths
