"""Check that a condition on an ordered key can change its truth only once along the key."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from runtime.plan import Call, Col, Expr, Lit, columns_read

__all__ = ["is_monotone"]

_COMPARISONS = ("lt", "le", "gt", "ge")
_Product = tuple[str, ...]


def is_monotone(condition: Expr, directions: Mapping[str, int]) -> bool:
    """Return True if both sides' difference only grows or only falls with the key.

    ``directions`` has for each column which way it goes as the key grows: 1 up, -1 down; any other is the same for all
    keys. A product of one moving column with fixed ones goes one way, whatever their sign; a sum of several moving
    terms only if it is known that they go the same way.
    """
    if directions.keys().isdisjoint(columns_read(condition)):
        return True
    if not isinstance(condition, Call) or condition.op not in _COMPARISONS:
        return False
    terms = _terms(Call("sub", condition.args), directions)
    if terms is None:
        ways = [_way(arg, directions) for arg in condition.args]
        return None not in ways and 0 in ways
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


def _way(expr: Expr, directions: Mapping[str, int]) -> int | None:
    """Return 1 or -1 if the expression never turns along the key, 0 if it stays; None if that is not known."""
    if directions.keys().isdisjoint(columns_read(expr)):
        return 0
    if isinstance(expr, Col):
        return directions[expr.name]
    assert isinstance(expr, Call)
    first = _way(expr.args[0], directions)
    if expr.op == "neg":
        return None if first is None else -first
    divisor = expr.args[1] if len(expr.args) == 2 else None
    if expr.op == "div" and isinstance(divisor, Lit) and isinstance(divisor.value, (int, float)) and divisor.value > 0:
        return first
    terms = _terms(expr, directions)
    return 1 if terms is not None and is_monotone(Call("lt", (expr, Lit(0))), directions) else None


def _terms(expr: Expr, directions: Mapping[str, int]) -> Mapping[_Product, int] | None:
    """Return the expression multiplied out; None if moving columns are under other operations than +, - and *."""
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
