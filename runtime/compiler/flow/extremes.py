"""EXISTS with an inequality as a comparison with the least or greatest value."""

from __future__ import annotations

from sqlglot import exp

from runtime.compiler.flow.groups import aggregates_of
from runtime.compiler.flow.names import free_columns, outermost_queries, own_tables
from runtime.compiler.lower import conjuncts

__all__ = ["extreme_test"]

_SHAPES = ("group", "having", "limit", "offset", "distinct", "with_")
_TURNED: dict[type[exp.Expr], type[exp.Binary]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


def extreme_test(node: exp.Expr) -> exp.Binary | None:
    """Of EXISTS (rows with x < y), y from around: ``(SELECT MIN(x) …) < y``, NULL where there is no row; else None."""
    select = node.unnest()
    if not isinstance(select, exp.Select) or any(select.args.get(name) for name in _SHAPES):
        return None
    if any(True for _ in aggregates_of(select.expressions)) or select.args.get("where") is None:
        return None
    own = own_tables(select)
    parts = conjuncts(select.args["where"].this)
    found = [(part, bound) for part in parts if (bound := _bound(part, own)) is not None]
    if len(found) != 1:
        return None
    part, (kind, inside, outside) = found[0]
    rest = [other.copy() for other in parts if other is not part]
    inner = select.copy()
    inner.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    extreme = exp.Min if kind in (exp.LT, exp.LTE) else exp.Max
    inner.set("expressions", [extreme(this=inside.copy())])
    return kind(this=exp.Subquery(this=inner), expression=outside.copy())


def _bound(node: exp.Expr, own: set[str]) -> tuple[type[exp.Binary], exp.Expr, exp.Expr] | None:
    """Of an inequality of something inside and something outside: how, the inside and the outside."""
    if type(node) not in _TURNED or any(True for _ in outermost_queries(node)):
        return None
    assert isinstance(node, exp.Binary)
    left, right = ({column.table for column in free_columns(side)} for side in (node.left, node.right))
    if left and right and left <= own and not right & own:
        return type(node), node.left, node.right
    if left and right and right <= own and not left & own:
        return _TURNED[type(node)], node.right, node.left
    return None
