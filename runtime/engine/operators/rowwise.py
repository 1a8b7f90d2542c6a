"""Operators that look at one batch at a time and hold nothing: filter, project, union."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.engine.operators.columns import as_schema, inward, outward
from runtime.engine.operators.errors import OperatorError
from runtime.engine.operators.evaluate import evaluate, mask
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces
from runtime.plan import Expr

__all__ = ["Filter", "Project", "Union", "computed"]


def computed(exprs: Sequence[Expr], batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """The values of expressions over a batch, as columns of this schema; raises `OperatorError`."""
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


class Union(Operator):
    """The rows of all inputs, as they come; equal rows stay."""

    def __init__(self, schema: pa.Schema, ports: int, *, most_rows: int = MOST_ROWS) -> None:
        super().__init__(schema)
        self.ports = ports
        self.most_rows = most_rows

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        renamed = pa.RecordBatch.from_arrays(batch.columns, names=self.schema.names)
        return pieces(as_schema(renamed, self.schema), self.most_rows)
