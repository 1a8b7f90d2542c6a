"""Expressions over several relations as sums of products of factors over one relation each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.compiler.lower import NotIncremental
from runtime.compiler.program import Call, Col, Expr, Lit

__all__ = ["Monomial", "Product", "bounded", "column_of", "columns", "local", "owners", "polynomial", "replaced"]

Product = tuple[tuple[str, Expr], ...]
"""(relation, factor over its columns) pairs, at most one for each, in the order of their names; empty for 1."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """``coefficient × Π factors``."""

    coefficient: int
    """Not 0."""
    product: Product
    """Its factors."""


def column_of(table: str, column: str) -> Col:
    """A column of one of several relations."""
    return Col(f"{table}.{column}")


def columns(expr: Expr) -> set[str]:
    """The names of all columns that an expression reads."""
    if isinstance(expr, Call):
        return {name for arg in expr.args for name in columns(arg)}
    return {expr.name} if isinstance(expr, Col) else set()


def owners(expr: Expr) -> set[str]:
    """The relations that an expression reads."""
    return {name.partition(".")[0] for name in columns(expr)}


def local(expr: Expr) -> Expr:
    """An expression over one of several relations as one over its columns."""
    if isinstance(expr, Call):
        return Call(expr.op, tuple(local(arg) for arg in expr.args))
    return Col(expr.name.partition(".")[2]) if isinstance(expr, Col) else expr


def replaced(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """The expression with columns replaced by others."""
    if isinstance(expr, Call):
        return Call(expr.op, tuple(replaced(arg, by) for arg in expr.args))
    return by.get(expr.name, expr) if isinstance(expr, Col) else expr


def polynomial(expr: Expr, *, whole: bool = False) -> tuple[Monomial, ...]:
    """The integer expression multiplied out, as far as its relations mix, or as a whole; raises `NotIncremental`."""
    return _merged(_expand(expr, whole))


def bounded(value: int) -> int:
    """The constant, if the program can hold it."""
    if abs(value) >= 2**63:
        raise NotIncremental("a constant of more than 64 bits")
    return value


def _expand(expr: Expr, whole: bool) -> list[Monomial]:
    names = owners(expr)
    if isinstance(expr, Lit):
        if not isinstance(expr.value, int):
            raise NotIncremental("a sum of something other than integers")
        return [Monomial(expr.value, ())]
    is_sum = isinstance(expr, Call) and expr.op in ("add", "sub", "neg", "mul")
    if len(names) == 1 and not (whole and is_sum):
        return _factor(expr, *names)
    if not isinstance(expr, Call) or not is_sum:
        raise NotIncremental("a sum of what mixes relations other than by +, - and *")
    parts = [_expand(arg, whole) for arg in expr.args]
    if expr.op == "add":
        return [one for part in parts for one in part]
    if expr.op == "neg":
        return _negated(parts[0])
    if expr.op == "sub":
        return [*parts[0], *_negated(parts[1])]
    return [_times(one, other) for one in parts[0] for other in parts[1]]


def _negated(part: Iterable[Monomial]) -> list[Monomial]:
    return [Monomial(-one.coefficient, one.product) for one in part]


def _times(one: Monomial, other: Monomial) -> Monomial:
    factors = dict(one.product)
    for name, factor in other.product:
        factors[name] = _ordered([*_atoms(factors[name])[1], *_atoms(factor)[1]]) if name in factors else factor
    return Monomial(one.coefficient * other.coefficient, tuple(sorted(factors.items())))


def _factor(expr: Expr, name: str) -> list[Monomial]:
    """An expression over one relation stays one factor, but for its constant."""
    coefficient, atoms = _atoms(local(expr))
    return [Monomial(coefficient, ((name, _ordered(atoms)),))]


def _atoms(expr: Expr) -> tuple[int, list[Expr]]:
    """A product's constant and its other factors."""
    if isinstance(expr, Lit) and isinstance(expr.value, int) and not isinstance(expr.value, bool):
        return expr.value, []
    if isinstance(expr, Call) and expr.op == "neg":
        coefficient, atoms = _atoms(expr.args[0])
        return -coefficient, atoms
    if isinstance(expr, Call) and expr.op == "mul":
        coefficient, atoms = 1, []
        for arg in expr.args:
            inner, more = _atoms(arg)
            coefficient *= inner
            atoms += more
        return coefficient, atoms
    return 1, [expr]


def _ordered(atoms: list[Expr]) -> Expr:
    """A product in a fixed order, so that equal ones are the same."""
    first, *others = sorted(atoms, key=repr)
    for other in others:
        first = Call("mul", (first, other))
    return first


def _merged(parts: Iterable[Monomial]) -> tuple[Monomial, ...]:
    totals: dict[Product, int] = {}
    for part in parts:
        totals[part.product] = totals.get(part.product, 0) + part.coefficient
    return tuple(Monomial(bounded(value), product) for product, value in totals.items() if value)
