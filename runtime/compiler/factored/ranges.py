"""Conditions that compare one integer of a relation with one of another, as intervals of either.

Every comparison is brought to the form ``p × x + q × y ∈ intervals`` with p and q without a common divisor; so any
combination of comparisons with the same p and q by AND, OR and NOT is a set of intervals, too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.factored.intervals import EVERYTHING, Intervals, complement, intersection, mirrored, union
from runtime.compiler.factored.polynomial import bounded, linear
from runtime.compiler.factored.tables import Tables
from runtime.compiler.lower import Leaf, Lowered, NotIncremental, at_type, lower
from runtime.compiler.types import common_type
from runtime.plan import Call, Expr, Lit, Range

__all__ = ["Comparison", "Condition", "comparison", "condition", "floor_quotient"]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge", exp.EQ: "eq", exp.NEQ: "ne",
}  # fmt: skip
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """``slopes[0] × x + slopes[1] × y  op  constant``."""

    names: tuple[str, str]
    """The relations of x and y, in the order of their names."""
    keys: tuple[Expr, Expr]
    """x and y."""
    slopes: tuple[int, int]
    """No common divisor, the first positive."""
    op: str
    """lt, le, gt, ge, eq or ne."""
    constant: int
    """The other side; rounded where the condition stays the same."""


def comparison(op: str, left: Lowered, right: Lowered) -> Comparison:
    """The comparison of two expressions that together read two relations."""
    target = common_type((left.type, right.type))
    if target is None or target.kind != "int":
        raise NotIncremental("a comparison of two relations by something other than integers")
    slopes: dict[str, tuple[Expr, int]] = {}
    constant = 0
    for part in linear(Call("sub", (at_type(left, target), at_type(right, target)))):
        if not part.product:
            constant = -part.coefficient
            continue
        ((name, key), *others) = part.product
        if others or name in slopes:
            raise NotIncremental("a comparison of two relations that is not of one column of each")
        slopes[name] = (key, part.coefficient)
    if len(slopes) != 2:
        raise NotIncremental("a comparison of two relations that is not of one column of each")
    (one, (x, p)), (other, (y, q)) = sorted(slopes.items())
    divisor = math.gcd(p, q)
    if p < 0:
        divisor, op = -divisor, _MIRRORED[op]
    p, q = p // divisor, q // divisor
    numerator, divisor = (constant, divisor) if divisor > 0 else (-constant, -divisor)
    floor, exact = numerator // divisor, numerator % divisor == 0
    if not exact and op in ("eq", "ne"):
        raise NotIncremental("a comparison that never changes")
    rounded = floor if exact or op in ("gt", "le") else floor + 1
    return Comparison((one, other), (x, y), (p, q), op, bounded(rounded))


@dataclass(slots=True)
class Condition:
    """What must hold between two relations, besides equalities."""

    names: tuple[str, str]
    """In the order of their names."""
    keys: tuple[Expr, Expr]
    """The one integer of each that it is about."""
    slopes: dict[tuple[int, int], Intervals]
    """Where ``p × x + q × y`` must lie, for each (p, q)."""
    constants: set[int] = field(default_factory=set)
    """Bounds as they were written, so that they come out so."""

    def also(self, other: Condition) -> None:
        """Both must hold."""
        if self.keys != other.keys:
            raise NotIncremental("ranges of several columns between two relations")
        for slope, intervals in other.slopes.items():
            self.slopes[slope] = intersection(self.slopes.get(slope, EVERYTHING), intervals)
        self.constants |= other.constants

    def key(self, name: str) -> Expr:
        """The integer of this relation."""
        return self.keys[self.names.index(name)]

    def ranges(self, name: str, bound: Expr) -> tuple[Range, ...]:
        """The intervals of one relation's integer that the other's lets in."""
        place = self.names.index(name)
        parts = []
        for slope, intervals in self.slopes.items():
            own, other = slope[place], slope[1 - place]
            if own > 0:
                parts.append([_range(own, -other, part, bound, self.constants) for part in intervals])
            else:
                constants = {-one for one in self.constants}
                parts.append([_range(-own, other, part, bound, constants) for part in mirrored(intervals)])
        return tuple(_overlap(ranges) for ranges in itertools.product(*parts))


def condition(node: exp.Expr, tables: Tables) -> Condition:
    """A boolean combination of comparisons between the same two integers; raises `NotIncremental`."""
    if isinstance(node, exp.Paren):
        return condition(node.this, tables)
    if isinstance(node, exp.Not):
        inner = condition(node.this, tables)
        return Condition(inner.names, inner.keys, {_only(inner): complement(inner.slopes[_only(inner)])},
                         inner.constants)  # fmt: skip
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return condition(exp.And(this=low, expression=high), tables)
    if isinstance(node, (exp.And, exp.Or)):
        left, right = condition(node.left, tables), condition(node.right, tables)
        if isinstance(node, exp.And):
            left.also(right)
            return left
        slope = _only(left)
        if left.keys != right.keys or _only(right) != slope:
            raise NotIncremental("OR of ranges of several columns")
        either = union(left.slopes[slope], right.slopes[slope])
        return Condition(left.names, left.keys, {slope: either}, left.constants | right.constants)
    if type(node) not in _OPERATORS:
        raise NotIncremental("a condition on two relations that is no comparison")
    return _condition(node, tables, tables.column)


def _condition(node: exp.Expr, tables: Tables, leaf: Leaf) -> Condition:
    found = comparison(_OPERATORS[type(node)], lower(node.this, leaf), lower(node.expression, leaf))
    for name, key in zip(found.names, found.keys, strict=True):
        if not tables.is_narrow(name, key):
            raise NotIncremental("a range of what may pass 64 bits")
    value = found.constant
    intervals: dict[str, Intervals] = {
        "lt": ((None, value - 1),), "le": ((None, value),), "gt": ((value + 1, None),), "ge": ((value, None),),
        "eq": ((value, value),), "ne": ((None, value - 1), (value + 1, None)),
    }  # fmt: skip
    return Condition(found.names, found.keys, {found.slopes: intervals[found.op]}, {value})


def _only(of: Condition) -> tuple[int, int]:
    if len(of.slopes) > 1:
        raise NotIncremental("OR of ranges with several factors")
    return next(iter(of.slopes))


def _range(own: int, other: int, part: tuple[int | None, int | None], bound: Expr, constants: set[int]) -> Range:
    """``low <= own × key - other × bound <= high`` as an interval of the key."""
    low, high = part
    if own > 1:
        return Range(1, None if low is None else floor_quotient(_line(other, bound, low - 1), own), low is not None,
                     None if high is None else floor_quotient(_line(other, bound, high), own), False)  # fmt: skip
    low_strict = low is not None and low - 1 in constants
    high_strict = high is not None and high + 1 in constants
    return Range(
        1,
        None if low is None else _line(other, bound, low - low_strict),
        low_strict,
        None if high is None else _line(other, bound, high + high_strict),
        high_strict,
    )


def _line(slope: int, bound: Expr, constant: int) -> Expr:
    """``slope × bound + constant``."""
    bounded(constant)
    if slope == -1:
        return Call("sub", (Lit(constant), bound)) if constant else Call("neg", (bound,))
    value = bound if slope == 1 else Call("mul", (bound, Lit(slope)))
    if constant == 0:
        return value
    return Call("add" if constant > 0 else "sub", (value, Lit(abs(constant))))


def floor_quotient(value: Expr, by: int) -> Expr:
    """The greatest integer not above value / by: the program's division rounds towards zero."""
    divisor = Lit(bounded(by))
    rest = Call("mod", (Call("add", (Call("mod", (value, divisor)), divisor)), divisor))
    return Call("floordiv", (Call("sub", (value, rest)), divisor))


def _overlap(ranges: tuple[Range, ...]) -> Range:
    """One interval of several, each of which has another end; it may be empty."""
    first, *others = ranges
    low, low_strict, high, high_strict = first.low, first.low_strict, first.high, first.high_strict
    for other in others:
        if (other.low is not None and low is not None) or (other.high is not None and high is not None):
            raise NotIncremental("ranges of one column with several bounds at one end")
        low, low_strict = (low, low_strict) if other.low is None else (other.low, other.low_strict)
        high, high_strict = (high, high_strict) if other.high is None else (other.high, other.high_strict)
    return Range(1, low, low_strict, high, high_strict)
