"""Expressions over several relations, with CASE and NULL, as sums of products of factors over one relation each.

A condition becomes a factor that is 1 or 0, and an AND becomes the product of the factors of its parts. A NULL counts
as 0; a sum of values of several relations counts as 0 if one of the values is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runtime.compiler.operands import NotIncremental, call
from runtime.plan import Call, Col, Expr, Lit, columns_read, renamed

__all__ = [
    "Monomial",
    "Product",
    "Summands",
    "bounded",
    "column_of",
    "linear",
    "local",
    "owners",
]

_MOST = 64
"""Greatest number of products in one sum; more of them would cost more than they save."""
_MOST_EXPANDED = 1024
"""Greatest number of products when two sums are multiplied: each further factor multiplies their number."""
Product = tuple[tuple[str, Expr], ...]
"""Pairs of a relation and a factor over its columns, at most one per relation, sorted by relation; empty for 1."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """``coefficient × Π factors``."""

    coefficient: int
    """Coefficient, which is not 0."""
    product: Product
    """Factors of the monomial."""


_ONE = [Monomial(1, ())]


def column_of(table: str, column: str) -> Col:
    """Return a column of one of several relations."""
    return Col(f"{table}.{column}")


def owners(expr: Expr) -> set[str]:
    """Return the relations that an expression reads."""
    return {name.partition(".")[0] for name in columns_read(expr)}


def local(expr: Expr) -> Expr:
    """Return an expression over one relation with the relation's own column names, without its alias."""
    return renamed(expr, {name: Col(name.partition(".")[2]) for name in columns_read(expr)})


def bounded(value: int) -> int:
    """Return the constant; raise `NotIncremental` if it has more than 64 bits."""
    if abs(value) >= 2**63:
        raise NotIncremental("a constant of more than 64 bits")
    return value


def linear(expr: Expr) -> tuple[Monomial, ...]:
    """Return an integer expression as a sum of products; raise `NotIncremental` if it has another form."""
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
    """Return minus the sum."""
    return [Monomial(-monomial.coefficient, monomial.product) for monomial in part]


def times(left: Iterable[Monomial], right: Iterable[Monomial]) -> list[Monomial]:
    """Return the product of two sums."""
    firsts, others = list(left), list(right)
    if len(others) > _MOST:
        raise NotIncremental(f"a sum of more than {_MOST} products")
    if len(firsts) * len(others) > _MOST_EXPANDED:
        firsts, others = list(merged(firsts)), list(merged(others))
        if len(firsts) * len(others) > _MOST_EXPANDED:
            raise NotIncremental(f"a sum of more than {_MOST_EXPANDED} products")
    return [_times(monomial, other) for monomial in firsts for other in others]


def factor_of(expr: Expr) -> list[Monomial]:
    """Return an expression over one relation as one monomial; its constant factor becomes the coefficient."""
    (name,) = owners(expr)
    coefficient, atoms = _atoms(local(expr))
    return [Monomial(coefficient, ((name, _ordered(atoms)),))]


def _times(left: Monomial, right: Monomial) -> Monomial:
    factors = dict(left.product)
    for name, factor in right.product:
        factors[name] = _ordered([*_atoms(factors[name])[1], *_atoms(factor)[1]]) if name in factors else factor
    return Monomial(left.coefficient * right.coefficient, tuple(sorted(factors.items())))


def _atoms(expr: Expr) -> tuple[int, list[Expr]]:
    """Return the constant factor of a product, and its other factors."""
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
    """Return a product in a fixed order, so that equal products have the same form."""
    first, *others = sorted(atoms, key=repr)
    for other in others:
        first = Call("mul", (first, other))
    return first


def merged(parts: Iterable[Monomial]) -> tuple[Monomial, ...]:
    """Return the sum in which monomials with equal products are added up."""
    totals: dict[Product, int] = {}
    for part in parts:
        totals[part.product] = totals.get(part.product, 0) + part.coefficient
    return tuple(Monomial(bounded(value), product) for product, value in totals.items() if value)


class Summands:
    """Expansion of the summands of aggregates."""

    def __init__(self, is_nullable: Callable[[Expr], bool]) -> None:
        """Prepare the expansion. ``is_nullable`` returns True if an expression over one relation may be NULL."""
        self._is_nullable = is_nullable

    def value(self, expr: Expr) -> tuple[Monomial, ...]:
        """Return the expression as a sum in which NULL counts as 0.

        Raise `NotIncremental` if it combines relations by other operations than +, -, * and CASE.
        """
        return merged(self._value(expr))

    def presence(self, expr: Expr) -> tuple[Monomial, ...]:
        """Return a sum that is 1 where the expression is not NULL, and otherwise 0."""
        return merged(self._presence(expr))

    def _value(self, expr: Expr) -> list[Monomial]:
        names = owners(expr)
        if len(names) == 1:
            return factor_of(call("coalesce", expr, Lit(0)) if self._is_nullable(expr) else expr)
        if isinstance(expr, Lit):
            return [Monomial(_integer(expr), ())] if expr.value is not None else []
        assert isinstance(expr, Call)
        if expr.op == "case":
            return self._case(expr.args, self._value)
        parts = [self._value(arg) for arg in expr.args]
        if expr.op == "neg":
            return negated(parts[0])
        if expr.op == "mul":
            return times(parts[0], parts[1])
        if expr.op not in ("add", "sub"):
            raise NotIncremental("a sum that mixes relations other than by +, -, * and CASE")
        total = [*parts[0], *(negated(parts[1]) if expr.op == "sub" else parts[1])]
        presence = self._presence(expr)
        return total if presence == _ONE else times(total, presence)

    def _presence(self, expr: Expr) -> list[Monomial]:
        if len(owners(expr)) == 1:
            return factor_of(call("case", call("is_null", expr), Lit(0), Lit(1))) if self._is_nullable(expr) else _ONE
        if not isinstance(expr, Call):
            return [] if expr == Lit(None) else _ONE
        if expr.op == "case":
            return self._case(expr.args, self._presence)
        result = _ONE
        for arg in expr.args:
            part = self._presence(arg)
            result = part if result == _ONE else times(result, part) if part != _ONE else result
        return result

    def _case(self, args: Sequence[Expr], of: Callable[[Expr], list[Monomial]]) -> list[Monomial]:
        """Return the sum of the branches, each multiplied by 1 where its condition is the first true one, else by 0."""
        *pairs, last = args
        total: list[Monomial] = []
        before = _ONE
        for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
            holds = _truth(condition)
            total += times(times(before, holds), of(value))
            before = times(before, [*_ONE, *negated(holds)])
        return [*total, *times(before, of(last))]


def _truth(condition: Expr) -> list[Monomial]:
    """Return a sum that is 1 where the condition is true, and otherwise 0."""
    if isinstance(condition, Call) and len(owners(condition)) > 1:
        if condition.op == "and":
            return times(_truth(condition.args[0]), _truth(condition.args[1]))
        if condition.op == "or":
            left, right = _truth(condition.args[0]), _truth(condition.args[1])
            return [*left, *right, *negated(times(left, right))]
        raise NotIncremental("a CASE that compares relations")
    if not owners(condition):
        raise NotIncremental("a CASE of constants")
    return factor_of(call("case", condition, Lit(1), Lit(0)))


def _integer(expr: Lit) -> int:
    if not isinstance(expr.value, int):
        raise NotIncremental("a sum of something other than integers")
    return expr.value
