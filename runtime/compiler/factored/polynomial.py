"""Expressions over several relations as sums of products of factors over one relation each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.compiler.lower import NotIncremental
from runtime.plan import Call, Col, Expr, Lit, columns_read, renamed

__all__ = [
    "Monomial",
    "Product",
    "bounded",
    "column_of",
    "factor_of",
    "linear",
    "local",
    "merged",
    "negated",
    "owners",
    "times",
]

_MOST = 64
"""More products than this in one sum cost more than they save."""
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


def owners(expr: Expr) -> set[str]:
    """The relations that an expression reads."""
    return {name.partition(".")[0] for name in columns_read(expr)}


def local(expr: Expr) -> Expr:
    """An expression over one of several relations as one over its columns."""
    return renamed(expr, {name: Col(name.partition(".")[2]) for name in columns_read(expr)})


def bounded(value: int) -> int:
    """The constant, if the program can hold it."""
    if abs(value) >= 2**63:
        raise NotIncremental("a constant of more than 64 bits")
    return value


def linear(expr: Expr) -> tuple[Monomial, ...]:
    """An integer expression as a sum; raises `NotIncremental` for one that is no sum of products."""
    return merged(_expand(expr))


def _expand(expr: Expr) -> list[Monomial]:
    if isinstance(expr, Lit) and isinstance(expr.value, int):
        return [Monomial(expr.value, ())]
    if not isinstance(expr, Call) or expr.op not in ("add", "sub", "neg", "mul"):
        if len(owners(expr)) != 1:
            raise NotIncremental("a comparison that mixes relations other than by +, - and *")
        return factor_of(expr)
    parts = [_expand(arg) for arg in expr.args]
    if expr.op == "add":
        return [*parts[0], *parts[1]]
    if expr.op == "neg":
        return negated(parts[0])
    if expr.op == "sub":
        return [*parts[0], *negated(parts[1])]
    return times(parts[0], parts[1])


def negated(part: Iterable[Monomial]) -> list[Monomial]:
    """Minus the sum."""
    return [Monomial(-one.coefficient, one.product) for one in part]


def times(left: Iterable[Monomial], right: Iterable[Monomial]) -> list[Monomial]:
    """The product of two sums."""
    others = list(right)
    if len(others) > _MOST:
        raise NotIncremental(f"a sum of more than {_MOST} products")
    return [_times(one, other) for one in left for other in others]


def factor_of(expr: Expr) -> list[Monomial]:
    """An expression over one relation stays one factor, but for its constant."""
    (name,) = owners(expr)
    coefficient, atoms = _atoms(local(expr))
    return [Monomial(coefficient, ((name, _ordered(atoms)),))]


def _times(one: Monomial, other: Monomial) -> Monomial:
    factors = dict(one.product)
    for name, factor in other.product:
        factors[name] = _ordered([*_atoms(factors[name])[1], *_atoms(factor)[1]]) if name in factors else factor
    return Monomial(one.coefficient * other.coefficient, tuple(sorted(factors.items())))


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


def merged(parts: Iterable[Monomial]) -> tuple[Monomial, ...]:
    """The sum with equal products once."""
    totals: dict[Product, int] = {}
    for part in parts:
        totals[part.product] = totals.get(part.product, 0) + part.coefficient
    return tuple(Monomial(bounded(value), product) for product, value in totals.items() if value)
