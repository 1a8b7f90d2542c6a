"""A relation's deltas of one version as numpy columns, converted once for all maps that read them.

Everything is lazy and kept: a column is looked at when the first map needs it, an expression is computed once. Integers
are computed without overflow checks where the bounds of the columns prove that nothing can pass 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Call, Col, Expr, Key, Lit
from runtime.state import ARROW_TYPES
from runtime.views.errors import ViewError
from runtime.views.evaluate import evaluate

__all__ = ["KeyCodes", "NotPlainError", "RelationBatch", "Vector", "key_array"]

T = TypeVar("T")
Integers = npt.NDArray[np.int64]

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_COMPARE: Final[dict[str, np.ufunc]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_LOGIC: Final[dict[str, np.ufunc]] = {"and": np.logical_and, "or": np.logical_or}
_AS_INTEGERS: Final[dict[pa.DataType, pa.DataType]] = {
    pa.int64(): pa.int64(),
    ARROW_TYPES["date"]: pa.int32(),
    ARROW_TYPES["timestamp"]: pa.int64(),
}


class NotPlainError(Exception):
    """Not computable on int64 alone: NULLs, another type, or numbers too large; the exact way is slower."""


class Vector(msgspec.Struct, frozen=True):
    """Integers or truths of a batch, one per row, without NULL."""

    values: Any
    """int64 or bool; a Python number where all are equal."""
    low: int
    """No value is less …"""
    high: int
    """… and none greater."""

    @property
    def largest(self) -> int:
        """No value is further from 0."""
        return max(-self.low, self.high)


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
            found = self._held["heaviest"] = _bounded(self.weight).largest
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
            return _literal(expr.value)
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
        if most > _MOST:
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
        return _bounded(numbers)

    def _call(self, expr: Call) -> Vector:
        function = _FUNCTIONS.get(expr.op)
        if function is None:
            return _of_arrow(evaluate(expr, self, self.rows))
        first, *rest = (self.vector(argument) for argument in expr.args)
        value = first if rest else function(expr.op, first, first)
        for other in rest:
            value = function(expr.op, value, other)
        return value

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
                vector = _bounded(numbers)
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


def _bounded(numbers: Integers) -> Vector:
    return Vector(numbers, int(numbers.min()), int(numbers.max())) if len(numbers) else Vector(numbers, 0, 0)


def _literal(value: object) -> Vector:
    if isinstance(value, int) and _LEAST <= value <= _MOST:
        return Vector(value, int(value), int(value))
    raise NotPlainError


def _of_arrow(array: pa.Array) -> Vector:
    if array.null_count:
        raise NotPlainError
    if pa.types.is_int64(array.type):
        return _bounded(array.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(array.type):
        return Vector(array.to_numpy(zero_copy_only=False), 0, 1)
    raise NotPlainError


def _arithmetic(op: str, left: Vector, right: Vector) -> Vector:
    _refuse_truths(left, right)
    values: Any
    if op == "neg":
        low, high = -left.high, -left.low
    elif op == "add":
        low, high = left.low + right.low, left.high + right.high
    elif op == "sub":
        low, high = left.low - right.high, left.high - right.low
    else:
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = min(corners), max(corners)
    if low < _LEAST or high > _MOST:
        raise NotPlainError
    if op == "neg":
        values = -left.values
    elif op == "add":
        values = left.values + right.values
    elif op == "sub":
        values = left.values - right.values
    else:
        values = left.values * right.values
    return Vector(values, low, high)


def _division(op: str, left: Vector, right: Vector) -> Vector:
    """Of nothing below 0 by a positive constant, where rounding towards zero is rounding down."""
    _refuse_truths(left, right)
    if left.low < 0 or right.low <= 0 or isinstance(right.values, np.ndarray):
        raise NotPlainError
    if op == "floordiv":
        return Vector(left.values // right.values, left.low // right.low, left.high // right.low)
    return Vector(left.values % right.values, 0, min(left.high, right.low - 1))


def _comparison(op: str, left: Vector, right: Vector) -> Vector:
    _refuse_truths(left, right)
    if not isinstance(left.values, np.ndarray) and not isinstance(right.values, np.ndarray):
        raise NotPlainError
    return Vector(_COMPARE[op](left.values, right.values), 0, 1)


def _logic(op: str, left: Vector, right: Vector) -> Vector:
    for side in (left, right):
        if getattr(side.values, "dtype", None) != np.bool_:
            raise NotPlainError
    return Vector(~left.values if op == "not" else _LOGIC[op](left.values, right.values), 0, 1)


def _refuse_truths(*sides: Vector) -> None:
    for side in sides:
        if isinstance(side.values, bool) or getattr(side.values, "dtype", np.int64) != np.int64:
            raise NotPlainError


_FUNCTIONS: Final[dict[str, Callable[[str, Vector, Vector], Vector]]] = {
    **dict.fromkeys(("add", "sub", "mul", "neg"), _arithmetic),
    **dict.fromkeys(("floordiv", "mod"), _division),
    **dict.fromkeys(_COMPARE, _comparison),
    **dict.fromkeys(("and", "or", "not"), _logic),
}
