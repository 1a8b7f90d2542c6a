"""What an operator of a flow is, and those that keep nothing: scan, select, union."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Call, Col, Expr, Map, Program, SelectNode
from runtime.state import KeyedTable, StringPool
from runtime.views.errors import ViewError
from runtime.views.evaluate import evaluate, mask
from runtime.views.flow.batch import Batch, Field, Vector, concat
from runtime.views.flow.order import StringOrder
from runtime.views.linear import as_column

__all__ = ["Context", "Operator", "Scan", "Select", "Union", "no_nulls", "place_of", "typed", "wider"]


class Context(msgspec.Struct, frozen=True):
    """What all operators of a flow share."""

    program: Program
    """Where the maps are described."""
    pool: StringPool
    """Numbers of strings that are kept."""
    strings: StringOrder
    """Their order."""


class Operator(ABC):
    """Turns changes of its inputs into the change of its rows.

    Linear operators pass weights of any sign on; the others take a row, a value or a group whose weight is not positive
    for absent, so that a deletion may come before its insertion.
    """

    fields: tuple[Field, ...]
    """Its columns."""

    @abstractmethod
    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        """The change of its rows, perhaps with rows that cancel; ``first``: it has never been asked before."""

    def tables(self) -> dict[str, KeyedTable]:
        """Its state."""
        return {}


def place_of(fields: Sequence[Field], name: str) -> int:
    """The place of a column."""
    for place, field in enumerate(fields):
        if field[0] == name:
            return place
    raise ViewError(f"expected column {name}, was {', '.join(f[0] for f in fields)}")


def wider(left: Field, right: Field) -> Field:
    """The left column in a type that has the values of both."""
    types = {left[1], right[1]}
    if len(types) > 1 and types != {"int64", "int128"}:
        raise ViewError(f"expected columns of one type, was {left[0]} {left[1]} and {right[0]} {right[1]}")
    return left if len(types) == 1 else (left[0], "int128")


class Scan(Operator):
    """The delta of a base map."""

    def __init__(self, map_: Map, context: Context) -> None:
        self.fields = tuple((key.name, key.type) for key in map_.keys)
        self._pool = context.pool

    def rows(self, delta: pa.Table) -> Batch:
        """The rows of the delta."""
        columns = [column.combine_chunks() for column in delta.columns]
        vectors = [Vector(type_, self._pool, columns[place]) for place, (_, type_) in enumerate(self.fields)]
        weight = columns[len(self.fields)].to_numpy(zero_copy_only=False)
        return Batch(vectors, weight)

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        return changes[0]


def _columns_of(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Col):
        yield expr.name
    elif isinstance(expr, Call):
        for argument in expr.args:
            yield from _columns_of(argument)


class Select(Operator):
    """Filter and project; a column that is only passed on is not looked at."""

    def __init__(self, node: SelectNode, fields: Sequence[Field], context: Context) -> None:
        self._node = node
        self._pool = context.pool
        self.fields = tuple((column.name, column.type) for column in node.columns)
        self._where = self._places([node.where] if node.where is not None else [], fields)
        self._outputs = self._places([e for e in node.outputs if not isinstance(e, Col)], fields)
        self._passed = [place_of(fields, e.name) if isinstance(e, Col) else -1 for e in node.outputs]
        self._used = sorted({*self._outputs.values(), *(place for place in self._passed if place >= 0)})

    @staticmethod
    def _places(exprs: Sequence[Expr], fields: Sequence[Field]) -> dict[str, int]:
        return {name: place_of(fields, name) for expr in exprs for name in _columns_of(expr)}

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        batch = changes[0]
        if batch is None:
            return None
        vectors = {place: batch.vectors[place] for place in self._used}
        weight = batch.weight
        if self._node.where is not None:
            arrays = {name: batch.vectors[place].array for name, place in self._where.items()}
            chosen = mask(self._node.where, arrays, len(batch))
            assert chosen is not None
            rows = chosen.to_numpy(zero_copy_only=False)
            if not rows.all():
                weight = weight[rows]
                vectors = {place: vector.take(rows) for place, vector in vectors.items()}
        if not len(weight):
            return None
        arrays = {name: vectors[place].array for name, place in self._outputs.items()}
        made = []
        for expr, place, column in zip(self._node.outputs, self._passed, self._node.columns, strict=True):
            if place >= 0:
                made.append(vectors[place].as_type(column.type))
            else:
                array = as_column(evaluate(expr, arrays, len(weight)), column)
                whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
                made.append(Vector(column.type, self._pool, whole))
        return Batch(made, weight)


class Union(Operator):
    """The rows of all inputs."""

    def __init__(self, inputs: Sequence[Sequence[Field]], context: Context) -> None:
        self._pool = context.pool
        fields = list(inputs[0])
        for other in inputs[1:]:
            fields = [wider(mine, theirs) for mine, theirs in zip(fields, other, strict=True)]
        self.fields = tuple(fields)

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        given = [typed(batch, self.fields) for batch in changes if batch is not None]
        return concat(given, self._pool) if given else None


def typed(batch: Batch, fields: Sequence[Field]) -> Batch:
    """The rows with columns of these types."""
    vectors = [vector.as_type(type_) for vector, (_, type_) in zip(batch.vectors, fields, strict=True)]
    return Batch(vectors, batch.weight, distinct=batch.distinct)


def no_nulls(vectors: Sequence[Vector]) -> npt.NDArray[np.bool_] | None:
    """The rows in which none of these columns is NULL; None for all."""
    valid: npt.NDArray[np.bool_] | None = None
    for vector in vectors:
        if vector.nulls is not None:
            valid = ~vector.nulls if valid is None else valid & ~vector.nulls
    return valid
