"""Conditions that compare an integer of one relation with an integer of another, as intervals of either integer.

Every comparison is brought to the form ``p × x + q × y ∈ intervals``, in which p and q have no common divisor. If
comparisons with the same p and q are combined by AND, OR and NOT, the result is again a set of intervals. `is_monotone`
identifies the conditions on aggregates whose truth changes at most once as the key grows.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from runtime.compiler.factored.polynomial import bounded, linear
from runtime.compiler.operands import NotIncremental, floor_quotient
from runtime.plan import Call, Col, Expr, Lit, Range, columns_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.compiler.factored.tables import Tables

__all__ = ["MIRRORED", "Comparison", "RangeCondition", "comparison", "condition", "is_monotone", "line"]


_COMPARISONS = ("lt", "le", "gt", "ge")
_Product = tuple[str, ...]


def is_monotone(condition: Expr, directions: Mapping[str, int]) -> bool:
    """Return True if the difference of a comparison's sides is monotone in the key: it never falls, or never rises.

    ``directions`` has the columns that depend on the key: 1 for a column that rises with the key, -1 for a column that
    falls. The product of such a column and columns that do not depend on the key is monotone, whatever the signs of the
    factors. A sum of several such products is monotone only if all terms are known to have the same direction.
    """
    if directions.keys().isdisjoint(columns_read(condition)):
        return True
    if not isinstance(condition, Call) or condition.op not in _COMPARISONS:
        return False
    terms = _terms(Call("sub", condition.args), directions)
    if terms is None:
        moves = [_moves(arg, directions) for arg in condition.args]
        return None not in moves and False in moves
    known: set[int] = set()
    unknown = 0
    for product, coefficient in terms.items():
        moving = [name for name in product if name in directions]
        if not moving or coefficient == 0:
            continue
        if len(moving) > 1:
            return False
        if len(product) > 1:
            unknown += 1
        else:
            known.add(directions[moving[0]] if coefficient > 0 else -directions[moving[0]])
    return unknown + len(known) <= 1


def _moves(expr: Expr, directions: Mapping[str, int]) -> bool | None:
    """Return False if the expression does not depend on the key, True if it is monotone in the key, None if unknown."""
    if directions.keys().isdisjoint(columns_read(expr)):
        return False
    if isinstance(expr, Col):
        return True
    assert isinstance(expr, Call)
    first = _moves(expr.args[0], directions)
    if expr.op == "neg":
        return first
    divisor = expr.args[1] if len(expr.args) == 2 else None
    if expr.op == "div" and isinstance(divisor, Lit) and isinstance(divisor.value, (int, float)) and divisor.value > 0:
        return first
    terms = _terms(expr, directions)
    return True if terms is not None and is_monotone(Call("lt", (expr, Lit(0))), directions) else None


def _terms(expr: Expr, directions: Mapping[str, int]) -> Mapping[_Product, int] | None:
    """Return the coefficient of each product of the expanded expression.

    Return None if columns that depend on the key are operands of other operations than +, - and *.
    """
    if isinstance(expr, Lit) and isinstance(expr.value, int) and not isinstance(expr.value, bool):
        return {(): expr.value}
    if directions.keys().isdisjoint(columns_read(expr)):
        return {(repr(expr),): 1}
    if isinstance(expr, Col):
        return {(expr.name,): 1}
    assert isinstance(expr, Call)
    parts = [_terms(arg, directions) for arg in expr.args]
    first = parts[0]
    if first is None:
        return None
    if expr.op == "neg":
        return {product: -value for product, value in first.items()}
    second = parts[1] if len(parts) == 2 else None
    if second is None or expr.op not in ("add", "sub", "mul"):
        return None
    total: Counter[_Product] = Counter()
    if expr.op == "mul":
        for (left, value), (right, factor) in itertools.product(first.items(), second.items()):
            total[tuple(sorted((*left, *right)))] += value * factor
        return total
    total.update(first)
    (total.subtract if expr.op == "sub" else total.update)(second)
    return total


MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
"""Comparison → equivalent comparison of the exchanged sides."""

Intervals = tuple[tuple[int | None, int | None], ...]
"""Set of integers: disjoint closed intervals in ascending order; None means that an interval has no end there."""
_EVERYTHING: Final[Intervals] = ((None, None),)


def _complement(of: Intervals) -> Intervals:
    """Return all integers that are in none of the intervals.

    >>> _complement(((None, 3), (7, 9)))
    ((4, 6), (10, None))
    """
    gaps: list[tuple[int | None, int | None]] = []
    start: int | None = None
    for place, (low, high) in enumerate(of):
        if low is not None:
            gaps.append((start if place else None, low - 1))
        if high is None:
            return tuple(gaps)
        start = high + 1
    return (*gaps, (start, None))


def _union(left: Intervals, right: Intervals) -> Intervals:
    """Return the integers in either set; adjacent intervals are joined.

    >>> _union(((1, 3),), ((4, 5), (9, None)))
    ((1, 5), (9, None))
    """
    done: list[tuple[int | None, int | None]] = []
    for low, high in sorted((*left, *right), key=lambda part: (part[0] is not None, part[0] or 0)):
        if done and (done[-1][1] is None or low is None or low <= done[-1][1] + 1):
            before = done[-1]
            done[-1] = (before[0], None if before[1] is None or high is None else max(before[1], high))
        else:
            done.append((low, high))
    return tuple(done)


def _intersection(left: Intervals, right: Intervals) -> Intervals:
    """Return the integers in both sets.

    >>> _intersection(((None, 5),), ((3, None),))
    ((3, 5),)
    """
    return _complement(_union(_complement(left), _complement(right)))


def _mirrored(of: Intervals) -> Intervals:
    """Return the negative of each integer."""
    return tuple((None if high is None else -high, None if low is None else -low) for low, high in reversed(of))


# --- conditions


@dataclass(frozen=True, slots=True)
class Comparison:
    """``slopes[0] × x + slopes[1] × y  op  constant``."""

    names: tuple[str, str]
    """Relations of x and y, in the order of their names."""
    keys: tuple[Expr, Expr]
    """Expressions x and y."""
    slopes: tuple[int, int]
    """Slopes, which have no common divisor; the first is positive."""
    op: str
    """Operator: lt, le, gt, ge, eq or ne."""
    constant: int
    """Right side, rounded to an integer so that the condition stays equivalent."""


def comparison(test: Call) -> Comparison:
    """Return the comparison of two integers that together read two relations; raise `NotIncremental` for others."""
    op: str = test.op
    slopes: dict[str, tuple[Expr, int]] = {}
    constant = 0
    for part in linear(Call("sub", test.args)):
        if not part.product:
            constant = -part.coefficient
            continue
        ((name, key), *others) = part.product
        if others or name in slopes:
            raise NotIncremental("a comparison of two relations that is not of one column of each")
        slopes[name] = (key, part.coefficient)
    if len(slopes) != 2:
        raise NotIncremental("a comparison of two relations that is not of one column of each")
    (first, (x, p)), (second, (y, q)) = sorted(slopes.items())
    divisor = math.gcd(p, q)
    if p < 0:
        divisor, op = -divisor, MIRRORED[op]
    p, q = p // divisor, q // divisor
    numerator, divisor = (constant, divisor) if divisor > 0 else (-constant, -divisor)
    floor, exact = numerator // divisor, numerator % divisor == 0
    if not exact and op in ("eq", "ne"):
        raise NotIncremental("a comparison that never changes")
    rounded = floor if exact or op in ("gt", "le") else floor + 1
    return Comparison((first, second), (x, y), (p, q), op, bounded(rounded))


@dataclass(slots=True)
class RangeCondition:
    """Condition that compares an integer of one relation with an integer of another."""

    names: tuple[str, str]
    """Names of the relations, in order."""
    keys: tuple[Expr, Expr]
    """Compared integer of each relation."""
    slopes: dict[tuple[int, int], Intervals]
    """Intervals of ``p × x + q × y``, for each (p, q)."""
    constants: set[int] = field(default_factory=set)
    """Constants that the query compares with; plans show a bound with such a constant, as in ``< 5``, not ``<= 4``."""

    def also(self, other: RangeCondition) -> None:
        """Combine with another condition by AND; raise `NotIncremental` if the other compares different integers."""
        if self.keys != other.keys:
            raise NotIncremental("ranges of several columns between two relations")
        for slope, intervals in other.slopes.items():
            self.slopes[slope] = _intersection(self.slopes.get(slope, _EVERYTHING), intervals)
        self.constants |= other.constants

    def key(self, name: str) -> Expr:
        """Return the integer of this relation."""
        return self.keys[self.names.index(name)]

    def ranges(self, name: str, bound: Expr) -> tuple[Range, ...]:
        """Return the intervals of one relation's integer, given the value of the other relation's integer.

        Raise `NotIncremental` if there is none, as no intervals at all would mean that every integer matches.
        """
        if not all(self.slopes.values()):
            raise NotIncremental("a range that no values fulfil")
        place = self.names.index(name)
        parts = []
        for slope, intervals in self.slopes.items():
            own, other = slope[place], slope[1 - place]
            if own > 0:
                parts.append([_range(own, -other, part, bound, self.constants) for part in intervals])
            else:
                constants = {-constant for constant in self.constants}
                parts.append([_range(-own, other, part, bound, constants) for part in _mirrored(intervals)])
        return tuple(_overlap(ranges) for ranges in itertools.product(*parts))


def condition(test: Expr, tables: Tables) -> RangeCondition:
    """Return a boolean combination of comparisons of the same two integers; raise `NotIncremental` for others."""
    if not isinstance(test, Call) or test.op not in ("not", "and", "or", *MIRRORED):
        raise NotIncremental("a condition on two relations that is not a comparison")
    if test.op not in ("not", "and", "or"):
        return _condition(comparison(test), tables)
    first, *others = (condition(arg, tables) for arg in test.args)
    if test.op == "not":
        outside = _complement(first.slopes[_only(first)])
        return RangeCondition(first.names, first.keys, {_only(first): outside}, first.constants)
    (second,) = others
    if test.op == "and":
        first.also(second)
        return first
    slope = _only(first)
    if first.keys != second.keys or _only(second) != slope:
        raise NotIncremental("OR of ranges of several columns")
    either = _union(first.slopes[slope], second.slopes[slope])
    return RangeCondition(first.names, first.keys, {slope: either}, first.constants | second.constants)


def _condition(compared: Comparison, tables: Tables) -> RangeCondition:
    for name, key in zip(compared.names, compared.keys, strict=True):
        if not tables.is_narrow(name, key):
            raise NotIncremental("a range of a value that is not an integer of 64 bits")
    value = compared.constant
    intervals: dict[str, Intervals] = {
        "lt": ((None, value - 1),), "le": ((None, value),), "gt": ((value + 1, None),), "ge": ((value, None),),
        "eq": ((value, value),), "ne": ((None, value - 1), (value + 1, None)),
    }  # fmt: skip
    return RangeCondition(compared.names, compared.keys, {compared.slopes: intervals[compared.op]}, {value})


def _only(of: RangeCondition) -> tuple[int, int]:
    """Return the only pair of slopes of a condition; raise `NotIncremental` if it has several."""
    if len(of.slopes) > 1:
        raise NotIncremental("OR of ranges with several factors")
    return next(iter(of.slopes))


def _range(own: int, other: int, part: tuple[int | None, int | None], bound: Expr, constants: set[int]) -> Range:
    """Return ``low <= own × key - other × bound <= high`` as an interval of the key."""
    low, high = part
    if own > 1:
        return Range(1, None if low is None else _floor_by(own, line(other, bound, low - 1)), low is not None,
                     None if high is None else _floor_by(own, line(other, bound, high)), False)  # fmt: skip
    low_strict = low is not None and low - 1 in constants
    high_strict = high is not None and high + 1 in constants
    return Range(
        1,
        None if low is None else line(other, bound, low - low_strict),
        low_strict,
        None if high is None else line(other, bound, high + high_strict),
        high_strict,
    )


def line(slope: int, bound: Expr, constant: int) -> Expr:
    """Return ``slope × bound + constant``."""
    bounded(constant)
    if slope == -1:
        return Call("sub", (Lit(constant), bound)) if constant else Call("neg", (bound,))
    value = bound if slope == 1 else Call("mul", (bound, Lit(slope)))
    if constant == 0:
        return value
    return Call("add" if constant > 0 else "sub", (value, Lit(abs(constant))))


def _floor_by(divisor: int, value: Expr) -> Expr:
    """Return the greatest integer not above value / divisor."""
    return floor_quotient(value, Lit(bounded(divisor)))


def _overlap(ranges: tuple[Range, ...]) -> Range:
    """Return the intersection, possibly empty, of ranges; raise `NotIncremental` for several bounds at one end."""
    first, *others = ranges
    low, low_strict, high, high_strict = first.low, first.low_strict, first.high, first.high_strict
    for other in others:
        if (other.low is not None and low is not None) or (other.high is not None and high is not None):
            raise NotIncremental("ranges of one column with several bounds at one end")
        low, low_strict = (low, low_strict) if other.low is None else (other.low, other.low_strict)
        high, high_strict = (high, high_strict) if other.high is None else (other.high, other.high_strict)
    return Range(1, low, low_strict, high, high_strict)
