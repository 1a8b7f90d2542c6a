"""What an aggregate adds up, as products of factors over one relation each: with CASE and NULL.

A condition becomes a factor that is 1 or 0, of AND the product of several; a value that may be NULL becomes 0 where it
is, and so does a sum of relations' values of which one is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.compiler.factored.polynomial import Monomial, factor_of, merged, negated, owners, times
from runtime.compiler.lower import NotIncremental
from runtime.compiler.operands import call
from runtime.plan import Call, Expr, Lit

__all__ = ["Summands"]

_ONE = [Monomial(1, ())]


class Summands:
    """Multiplies expressions out; ``is_nullable`` says whether an expression over one relation may be NULL."""

    def __init__(self, is_nullable: Callable[[Expr], bool]) -> None:
        self._is_nullable = is_nullable

    def value(self, expr: Expr) -> tuple[Monomial, ...]:
        """The expression, 0 where it is NULL; raises `NotIncremental` where relations mix in other ways."""
        return merged(self._value(expr))

    def presence(self, expr: Expr) -> tuple[Monomial, ...]:
        """1 where the expression is not NULL, else 0."""
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
            raise NotIncremental("a sum of what mixes relations other than by +, -, * and CASE")
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
        """The value of the first branch whose condition is true."""
        *pairs, last = args
        total: list[Monomial] = []
        before = _ONE
        for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
            holds = _truth(condition)
            total += times(times(before, holds), of(value))
            before = times(before, [*_ONE, *negated(holds)])
        return [*total, *times(before, of(last))]


def _truth(condition: Expr) -> list[Monomial]:
    """1 where the condition is true, else 0."""
    if isinstance(condition, Call) and len(owners(condition)) > 1:
        if condition.op == "and":
            return times(_truth(condition.args[0]), _truth(condition.args[1]))
        if condition.op == "or":
            one, other = _truth(condition.args[0]), _truth(condition.args[1])
            return [*one, *other, *negated(times(one, other))]
        raise NotIncremental("a CASE that compares relations")
    if not owners(condition):
        raise NotIncremental("a CASE of constants")
    return factor_of(call("case", condition, Lit(1), Lit(0)))


def _integer(expr: Lit) -> int:
    if not isinstance(expr.value, int):
        raise NotIncremental("a sum of something other than integers")
    return expr.value
