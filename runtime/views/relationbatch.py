"""A relation's deltas of one version as numpy columns, converted once for all maps that read them.

Everything is lazy and kept: a column is looked at when the first map needs it, an expression is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.plan import Call, Col, Expr, Key, Lit
from runtime.state import ARROW_TYPES
from runtime.views.errors import ViewError
from runtime.views.evaluate import evaluate
from runtime.views.vectors import NotPlainError, Vector, apply, bounded, is_known, literal, of_arrow

__all__ = ["KeyCodes", "RelationBatch", "key_array"]

T = TypeVar("T")
Integers = npt.NDArray[np.int64]

_AS_INTEGERS: Final[dict[pa.DataType, pa.DataType]] = {
    pa.int64(): pa.int64(),
    ARROW_TYPES["date"]: pa.int32(),
    ARROW_TYPES["timestamp"]: pa.int64(),
}


class KeyCodes(msgspec.Struct, frozen=True):
    """A key column as integers, equal where the keys are."""

    codes: Any
    """int64 per row; a Python integer where all are equal."""
    low: int
    """Bounds of the codes."""
    high: int
    """Inclusive."""
    dictionary: pa.Array | None
    """What the codes number; None where they are the keys themselves."""


class RelationBatch(Mapping[str, pa.Array]):
    """The rows of a table of deltas, whose last column is the weight; as a mapping, its columns by name."""

    def __init__(self, table: pa.Table) -> None:
        self.rows: int = table.num_rows
        self._places = {name: place for place, name in enumerate(table.column_names[:-1])}
        self._table = table
        self._parent: RelationBatch | None = None
        self._chosen: Integers | None = None
        self._weight: Integers | None = None
        self._held: dict[Hashable, Any] = {}

    def taking(self, chosen: Integers) -> RelationBatch:
        """The rows of these numbers."""
        part = RelationBatch(self._table)
        part.rows = len(chosen)
        part._parent, part._chosen = self, chosen
        return part

    def table(self) -> pa.Table:
        """The rows as a table of deltas."""
        return self._table if self._parent is None else self._parent.table().take(pa.array(self._chosen))

    def where(self, condition: Expr | None) -> RelationBatch:
        """The rows for which a condition is true, not false or NULL."""
        if condition is None:
            return self
        found: RelationBatch | None = self._held.get(("where", condition))
        if found is None:
            found = self._held["where", condition] = self._where(condition)
        return found

    def _where(self, condition: Expr) -> RelationBatch:
        try:
            truth = self.vector(condition).values
        except NotPlainError:
            chosen = pc.fill_null(evaluate(condition, self, self.rows).cast(pa.bool_()), False)
            truth = chosen.to_numpy(zero_copy_only=False)
        if not isinstance(truth, np.ndarray):
            return self if truth else self.taking(np.zeros(0, np.int64))
        return self.taking(np.flatnonzero(truth))

    @property
    def weight(self) -> Integers:
        """The weight of each row."""
        if self._weight is None:
            if self._parent is not None:
                self._weight = self._parent.weight[self._chosen]
            else:
                self._weight = _numpy(self._table.column(self._table.num_columns - 1))
        return self._weight

    def heaviest(self) -> int:
        """The greatest absolute weight."""
        found: int | None = self._held.get("heaviest")
        if found is None:
            found = self._held["heaviest"] = bounded(self.weight).largest
        return found

    def __getitem__(self, name: str) -> pa.Array:
        held: pa.Array | None = self._held.get(name)
        if held is None:
            if self._parent is None:
                column = self._table.column(self._places[name])
                held = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            else:
                held = self._parent[name].take(pa.array(self._chosen))
            self._held[name] = held
        return held

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def vector(self, expr: Expr) -> Vector:
        """The value of an expression; raises `NotPlainError` where it has to be computed otherwise."""
        if isinstance(expr, Lit):
            return literal(expr.value)
        key = ("vector", expr)
        found: Vector | None = self._held.get(key)
        if found is None:
            found = self._held[key] = self._column(expr.name) if isinstance(expr, Col) else self._call(expr)
        return found

    def weighted(self, expr: Expr) -> Vector:
        """The value of an expression × the row's weight."""
        key = ("weighted", expr)
        found: Vector | None = self._held.get(key)
        if found is None:
            found = self._held[key] = self._weighted(expr)
        return found

    def _weighted(self, expr: Expr) -> Vector:
        value = self.vector(expr)
        most = value.largest * self.heaviest()
        if most >= 2**63:
            raise NotPlainError
        return Vector(value.values * self.weight, -most, most)

    def numbers(self, name: str) -> Integers | None:
        """An integer, date or timestamp column without NULL as int64; None for any other."""
        key = ("numbers", name)
        if key not in self._held:
            self._held[key] = self._numbers(name)
        found: Integers | None = self._held[key]
        return found

    def codes(self, name: str) -> Integers:
        """A column as int64, equal where its values are."""
        numbers = self.numbers(name)
        if numbers is not None:
            return numbers
        encoded = self[name].dictionary_encode(null_encoding="encode")
        codes: Integers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def _numbers(self, name: str) -> Integers | None:
        if self._parent is not None:
            whole = self._parent.numbers(name)
            return None if whole is None else whole[self._chosen]
        place = self._places.get(name)
        if place is None:
            raise ViewError(f"expected column {name}, was {', '.join(self._places)}")
        return _plain(self._table.column(place))

    def _column(self, name: str) -> Vector:
        place = self._places.get(name)
        if place is None:
            raise ViewError(f"expected column {name}, was {', '.join(self._places)}")
        if not pa.types.is_int64(self._table.field(place).type):
            raise NotPlainError
        numbers = self.numbers(name)
        if numbers is None:
            raise NotPlainError
        return bounded(numbers)

    def _call(self, expr: Call) -> Vector:
        if not is_known(expr.op):
            return of_arrow(evaluate(expr, self, self.rows))
        return apply(expr.op, [self.vector(argument) for argument in expr.args])

    def key(self, key: Key) -> KeyCodes:
        """A key column as codes; raises `ViewError` for a value that the key's type does not hold."""
        name = ("key", key.expr, key.type)
        found: KeyCodes | None = self._held.get(name)
        if found is None:
            found = self._held[name] = self._key(key)
        return found

    def _key(self, key: Key) -> KeyCodes:
        if key.type == "int64":
            try:
                vector = self.vector(key.expr)
                if not isinstance(vector.values, bool) and getattr(vector.values, "dtype", np.int64) == np.int64:
                    return KeyCodes(vector.values, vector.low, vector.high, None)
            except NotPlainError:
                pass
        elif key.type in ("date", "timestamp") and isinstance(key.expr, Col) and key.expr.name in self._places:
            given = self._table.field(self._places[key.expr.name]).type
            numbers = self.numbers(key.expr.name) if given.equals(ARROW_TYPES[key.type]) else None
            if numbers is not None:
                vector = bounded(numbers)
                return KeyCodes(numbers, vector.low, vector.high, None)
        encoded = key_array(self, key).dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return KeyCodes(codes, 0, max(len(encoded.dictionary) - 1, 0), encoded.dictionary)

    def kept(self, key: Hashable) -> Any:
        """What `keep` put here."""
        return self._held.get(key)

    def keep(self, key: Hashable, value: T) -> T:
        """Hold something that several maps may ask for."""
        self._held[key] = value
        return value


def key_array(batch: RelationBatch, key: Key) -> pa.Array:
    """A key's values in its type; equal floats become equal bits. Raises `ViewError` where one does not fit."""
    array = evaluate(key.expr, batch, batch.rows)
    wanted = ARROW_TYPES[key.type]
    try:
        if pa.types.is_floating(wanted):
            plain = pc.add(array.cast(wanted), pa.scalar(0.0))  # -0.0 becomes 0.0
            return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan")), plain)
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise ViewError(f"expected {key.type} for key {key.name}, was {error}") from None


def _plain(column: pa.ChunkedArray) -> Integers | None:
    kind = _AS_INTEGERS.get(column.type)
    if kind is None or column.null_count:
        return None
    if column.type.equals(kind):
        return _numpy(column)
    return _numpy(pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind))


def _numpy(column: pa.ChunkedArray) -> Integers:
    """As int64; without a copy where it is one chunk of that type."""
    if column.num_chunks == 1:
        numbers: Integers = column.chunk(0).to_numpy().astype(np.int64, copy=False)
        return numbers
    return np.concatenate([np.zeros(0, np.int64), *(chunk.to_numpy() for chunk in column.chunks)])
