"""Operators that look at one batch at a time and hold nothing: filter, project, flatten."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.engine.operators.columns import inward, outward
from runtime.engine.operators.errors import OperatorError
from runtime.engine.operators.evaluate import evaluate, mask
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.plan import Expr

__all__ = ["Filter", "Flatten", "Project", "computed", "flattened"]


def computed(exprs: Sequence[Expr], batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Return the values of expressions over a batch, as columns of this schema; raise `OperatorError`."""
    columns = {name: inward(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    rows = batch.num_rows
    try:
        return [outward(evaluate(expr, columns, rows), field.type) for expr, field in zip(exprs, schema, strict=True)]
    except (OperatorError, pa.ArrowException) as error:
        raise OperatorError(f"expected values of {', '.join(schema.names)}, was {error}") from None


class Filter(Operator):
    """The rows for which a condition is true (not false, not NULL)."""

    def __init__(self, schema: pa.Schema, where: Expr, *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(schema)
        self.most_rows = most_rows
        self._where = where

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        columns = {name: inward(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        try:
            chosen = mask(self._where, columns, batch.num_rows)
        except (OperatorError, pa.ArrowException) as error:
            raise OperatorError(f"expected a condition that can be computed, was {error}") from None
        return pieces(batch.filter(chosen), self.most_rows)


class Project(Operator):
    """One column per expression; integers are exact, and one that its column cannot hold is an error."""

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
    """One column per field of each struct, however deep, named after the path to it with dots."""

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
