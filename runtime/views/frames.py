"""The columns that a statement binds, looks up and adds up, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Call, Col, Expr, Lit, Term
from runtime.state import StringPool
from runtime.state.columnar.exactsums import Exact, arrow_of, exact_of, fit, largest
from runtime.views.deltas import Delta, KeyVector
from runtime.views.errors import ViewError

__all__ = ["Frame", "integers"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ROOM: Final = 2**62


class Frame:
    """The columns that a statement has bound so far, row by row."""

    def __init__(self, alias: str, delta: Delta, sum_names: Sequence[str]) -> None:
        self.rows = len(delta)
        self.keys: dict[str, KeyVector] = {f"{alias}.{name}": vector for name, vector in delta.keys.items()}
        self.values: dict[str, Exact] = {}
        self._bounds: dict[str, int] = {}
        self.bind_sums(alias, sum_names, delta.sums, delta.bounds)

    def bind_sums(
        self, name: str, sum_names: Sequence[str], sums: Sequence[Exact], bounds: Sequence[int] | None = None
    ) -> None:
        """Bind a map's weight and sums as ``name.weight`` and ``name.sum``; ``bounds``: of their magnitudes."""
        names = [f"{name}.{column}" for column in ("weight", *sum_names)]
        self.values.update(zip(names, sums, strict=True))
        if bounds is not None:
            self._bounds.update(zip(names, bounds, strict=True))

    def bind_keys(self, name: str, keys: Mapping[str, KeyVector]) -> None:
        """Bind keys as ``name.key``."""
        self.keys |= {f"{name}.{column}": vector for column, vector in keys.items()}

    def take(self, rows: Integers | Flags) -> None:
        """Keep some rows, perhaps several times."""
        self.keys = {name: vector.take(rows) for name, vector in self.keys.items()}
        self.values = {name: value[rows] for name, value in self.values.items()}
        self.rows = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)

    def number(self, name: str) -> Exact:
        """A bound column as integers; undefined where it is NULL."""
        if name in self.values:
            return self.values[name]
        vector = self.keys.get(name)
        if vector is None:
            raise ViewError(f"expected a bound column, was {name} among {[*self.keys, *self.values]}")
        if vector.type == "int128":
            return exact_of(KeyVector("int128", vector.words, None).arrow(StringPool()))
        return vector.words[:, 0]

    def bound(self, name: str) -> int:
        """No value of a bound column is further from 0."""
        found = self._bounds.get(name)
        if found is None:
            span = self.keys[name].span if name in self.keys else None
            found = largest(self.number(name)) if span is None else max(-span[0], span[1])
            self._bounds[name] = found
        return found

    def term(self, factor: int, columns: Sequence[str]) -> tuple[Exact, int]:
        """``factor × Π columns``, and a bound of the magnitudes."""
        if not columns:
            return np.full(self.rows, factor, np.int64 if abs(factor) < _ROOM else object), abs(factor)
        result, most = self.number(columns[0]), self.bound(columns[0])
        for name in columns[1:]:
            value, other = self.number(name), self.bound(name)
            if most * other >= _ROOM:
                most, other = largest(result), largest(value)
            most *= other
            result, value = fit(most, result, value)
            result = result * value
        if factor != 1:
            if most * abs(factor) >= _ROOM:
                most = largest(result)
            most *= abs(factor)
            (result,) = fit(max(most, abs(factor)), result)
            result = result * factor
        return result, most

    def total(self, terms: Sequence[Term]) -> tuple[Exact, int]:
        """The sum of terms, of which there is one at least, and a bound of the magnitudes."""
        total, most = self.term(terms[0].factor, terms[0].columns)
        for term in terms[1:]:
            value, other = self.term(term.factor, term.columns)
            if most + other >= _ROOM:
                most, other = largest(total), largest(value)
            most += other
            total, value = fit(most, total, value)
            total = total + value
        return total, most

    def arrow(self, pool: StringPool) -> dict[str, pa.Array]:
        """Everything bound, as Arrow columns."""
        named = {name: vector.arrow(pool) for name, vector in self.keys.items()}
        return named | {name: arrow_of(value) for name, value in self.values.items()}


def _divided(op: str, values: Exact, by: Exact) -> Exact:
    """Quotient or remainder, rounded towards zero as SQL does; the divisor is never 0 or -1."""
    if len(values) and values.dtype != by.dtype:
        values, by = values.astype(object), by.astype(object)
    floor = values // by
    exact = (floor * by == values).astype(np.bool_)
    negative = ((values < 0) != (by < 0)).astype(np.bool_)
    quotient = floor + (~exact & negative)
    return quotient if op == "floordiv" else values - quotient * by  # type: ignore[no-any-return]


def integers(expr: Expr, frame: Frame) -> Exact:
    """An integer expression over bound columns, exact; undefined where one is NULL. It divides by constants only."""
    return _column(_sized(expr, frame)[0], frame.rows)


def _column(value: Exact | int, rows: int) -> Exact:
    return np.full(rows, value, np.int64 if abs(value) < _ROOM else object) if isinstance(value, int) else value


def _sized(expr: Expr, frame: Frame) -> tuple[Exact | int, int]:
    """The value of an expression, a number where it is constant, and a bound of its magnitude."""
    if isinstance(expr, Col):
        return frame.number(expr.name), frame.bound(expr.name)
    if isinstance(expr, Lit):
        assert isinstance(expr.value, int)
        return int(expr.value), abs(expr.value)
    assert isinstance(expr, Call)
    args = [_sized(argument, frame) for argument in expr.args]
    result, most = args[0] if expr.op != "neg" else _combined("sub", (0, 0), args[0])
    for other in args[1:]:
        if expr.op in ("floordiv", "mod"):
            result = _divided(expr.op, _column(result, frame.rows), _column(other[0], frame.rows))
            most = largest(result)
        else:
            result, most = _combined(expr.op, (result, most), other)
    return result, most


def _combined(op: str, left: tuple[Exact | int, int], right: tuple[Exact | int, int]) -> tuple[Exact | int, int]:
    """A sum, difference or product with a bound of its magnitude, in Python integers where that is too large."""
    if op not in ("add", "sub", "mul"):
        raise ViewError(f"expected arithmetic in a bound, was {op}")
    (a, most), (b, other) = left, right
    bound = most * other if op == "mul" else most + other
    if max(bound, most, other) >= _ROOM:
        a, b = (v if isinstance(v, int) else v.astype(object) for v in (a, b))
    value: Exact | int = a * b if op == "mul" else a + b if op == "add" else a - b
    return value, bound
