"""Expansion of GROUPING SETS, ROLLUP and CUBE to a union of one SELECT for each set of keys.

In the SELECT of a set, every key that the set lacks is NULL, except inside an aggregate, and ``GROUPING(…)`` is a
constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product

from sqlglot import exp

__all__ = ["expand_groupings"]

_MOST_SETS = 64
Fail = Callable[[str, exp.Expr], Exception]
"""Maker of the error for a part of the query."""


def expand_groupings(tree: exp.Query, fail: Fail) -> exp.Query:
    """Return the query with unions in place of SELECTs over several sets of keys; ``fail`` makes errors."""
    for select in reversed(list(tree.find_all(exp.Select))):
        group = select.args.get("group")
        if group is None or not any(isinstance(part, _SEVERAL) for part in group.expressions):
            continue
        union = _union(select, fail)
        if select is tree:
            tree = union
        else:
            select.replace(union)
    return tree


_SEVERAL = (exp.GroupingSets, exp.Rollup, exp.Cube)
_Keys = tuple[exp.Expr, ...]


def _union(select: exp.Select, fail: Fail) -> exp.Query:
    group = select.args["group"]
    choices = [_sets(part) for part in group.expressions]
    sets = [tuple(_resolved(key, select, fail) for part in chosen for key in part) for chosen in product(*choices)]
    if len(sets) > _MOST_SETS:
        raise fail(f"expected at most {_MOST_SETS} sets of keys, was {len(sets)}", group)
    _refuse_windows(select, fail)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise fail("expected no DISTINCT ON beside several sets of keys; put the grouping into a subquery", select)
    every = list({key.sql(): key for keys in sets for key in keys}.values())
    arms = [_arm(select, keys, every) for keys in sets]
    union: exp.Query = arms[0]
    for arm in arms[1:]:
        union = exp.Union(this=union, expression=arm, distinct=distinct is not None)
    for name in ("with_", "limit", "offset"):
        union.set(name, select.args.get(name))
    order = select.args.get("order")
    if order is not None:
        union.set("order", exp.Order(expressions=[_criterion(part, select, fail) for part in order.expressions]))
    return union


def _sets(node: exp.Expr) -> list[_Keys]:
    """Return the sets of keys of a part of GROUP BY."""
    if isinstance(node, exp.GroupingSets):
        return [keys for part in node.expressions for keys in _sets(part)]
    if isinstance(node, exp.Rollup):
        parts = [_keys(part) for part in node.expressions]
        return [tuple(key for part in parts[:count] for key in part) for count in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube):
        parts = [_keys(part) for part in node.expressions]
        return [tuple(key for part in chosen for key in part)
                for count in range(len(parts), -1, -1) for chosen in combinations(parts, count)]  # fmt: skip
    return [_keys(node)]


def _keys(node: exp.Expr) -> _Keys:
    inner = node.unnest()
    return tuple(inner.expressions) if isinstance(inner, exp.Tuple) else (inner,)


def _resolved(key: exp.Expr, select: exp.Select, fail: Fail) -> exp.Expr:
    """Return a key, which may be the number of a column."""
    if not isinstance(key, exp.Literal) or not key.is_int:
        return key
    number = int(key.name)
    if not 1 <= number <= len(select.expressions):
        raise fail(f"expected the number of one of {len(select.expressions)} columns, was {number}", key)
    expression: exp.Expr = select.expressions[number - 1].unalias()
    return expression


def _refuse_windows(select: exp.Select, fail: Fail) -> None:
    """Refuse window functions: they read the rows of all sets together, and no SELECT of the union has these."""
    clauses = [*select.expressions, *(select.args[name] for name in ("having", "qualify") if select.args.get(name))]
    for clause in clauses:
        for window in clause.find_all(exp.Window):
            if window.find_ancestor(exp.Select) is select:
                raise fail(
                    "expected no window function beside several sets of keys; put the grouping into a subquery and the "
                    "window function around it",
                    window,
                )


def _is_aggregate(part: exp.Expr) -> bool:
    """Return True for an aggregate, also one with FILTER or WITHIN GROUP; its parts read rows, not keys."""
    inner = part
    while isinstance(inner, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return isinstance(inner, exp.AggFunc)


def _arm(select: exp.Select, keys: Sequence[exp.Expr], every: Sequence[exp.Expr]) -> exp.Select:
    arm = select.copy()
    for name in ("with_", "order", "limit", "offset"):
        arm.set(name, None)
    present = {key.sql() for key in keys}
    arm.set("group", exp.Group(expressions=[key.copy() for key in every if key.sql() in present]) if present else None)
    if not present and arm.args.get("having") is None:
        arm.set("having", exp.Having(this=exp.Boolean(this=True)))  # one row, even of constants alone
    missing = {key.sql() for key in every} - present
    for clause in [*arm.expressions, *(arm.args[name] for name in ("having", "qualify") if arm.args.get(name))]:
        for node in list(clause.find_all(exp.Grouping, exp.GroupingId)):
            node.replace(exp.Literal.number(_grouping(node, present)))
        # A missing key may be part of another key. The other key is not changed if it is a key of this set.
        for node in list(clause.walk(prune=lambda part: _is_aggregate(part) or part.sql() in present | missing)):
            if node.sql() in missing:
                node.replace(exp.Null())
    return arm


def _grouping(node: exp.Expr, present: set[str]) -> int:
    """Return the value of GROUPING: a bit for each argument, from the highest; 1 if the argument is not a key."""
    number = 0
    for argument in node.expressions:
        number = 2 * number + (argument.sql() not in present)
    return number


def _criterion(part: exp.Ordered, select: exp.Select, fail: Fail) -> exp.Ordered:
    """Return a criterion of ORDER BY as the name of a column of the union."""
    criterion = part.copy()
    if isinstance(part.this, exp.Literal) or (isinstance(part.this, exp.Column) and not part.this.table):
        return criterion
    for column in select.expressions:
        if column.unalias().sql() == part.this.sql():
            criterion.set("this", exp.column(column.alias_or_name, quoted=True))
            return criterion
    raise fail("expected ORDER BY of columns that are selected, as there are several sets of keys", part)
