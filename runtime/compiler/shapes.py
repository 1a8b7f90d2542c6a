"""Rewritten queries as wholes: their columns, brought to other types, and ties that are broken."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runtime.compiler.fixedpoint import Value, as_type
from runtime.compiler.scope import Scope
from runtime.compiler.types import Type

__all__ = ["Output", "break_ties", "coerced", "group_keys", "is_aggregate", "unique"]

_NEEDS_TOTAL_ORDER = (exp.RowNumber, exp.Ntile, exp.Lead, exp.Lag, exp.FirstValue, exp.LastValue, exp.NthValue)


@dataclass(slots=True)
class Output:
    """A rewritten query and its columns."""

    sql: exp.Query
    """In which every integer of more than 64 bits, and every scaled one, is HUGEINT."""
    names: list[str]
    """Unique."""
    types: list[Type]
    """Of each column."""


def unique(name: str, taken: list[str]) -> str:
    """The name, numbered where it is taken."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def is_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands in the expression itself, not under OVER nor in a subquery."""
    for found in node.find_all(exp.AggFunc):
        window = found.find_ancestor(exp.Window, exp.Select)
        windowed = isinstance(window, exp.Window) and (window.this is found or window.this is found.parent)
        if not windowed and found.find_ancestor(exp.Subquery) is node.find_ancestor(exp.Subquery):
            return True
    return False


def group_keys(select: exp.Select) -> list[exp.Expr]:
    """The keys of GROUP BY; of GROUP BY ALL the columns that are no aggregates."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [part.unalias() for part in select.expressions if not is_aggregate(part)]
    return list(group.expressions)


def coerced(output: Output, targets: list[Type]) -> exp.Query:
    """The query with its columns brought to these types."""
    columns = [Value(exp.column(exp.to_identifier(name, quoted=True)), kind)
               for name, kind in zip(output.names, output.types, strict=True)]  # fmt: skip
    parts = [as_type(value, target) for value, target in zip(columns, targets, strict=True)]
    if all(part is value.sql for part, value in zip(parts, columns, strict=True)):
        return output.sql
    select = exp.Select(expressions=[exp.alias_(part, name, quoted=True, copy=False)
                                     for part, name in zip(parts, output.names, strict=True)])  # fmt: skip
    alias = exp.TableAlias(this=exp.to_identifier("arm", quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=output.sql, alias=alias)))
    return select


def break_ties(parts: list[exp.Expr], keys: list[exp.Expr], scope: Scope) -> None:
    """Windows whose answer depends on the order of equal rows get every column in play as last criteria."""
    columns = keys or [exp.column(name, table=table, quoted=True) for table, name in scope.used]
    for part in parts:
        for window in part.find_all(exp.Window):
            spec = window.args.get("spec")
            by_rows = spec is not None and spec.args.get("kind") == "ROWS"
            call = window.this.this if isinstance(window.this, (exp.IgnoreNulls, exp.RespectNulls)) else window.this
            if window.find_ancestor(exp.Select) is not None or not (by_rows or isinstance(call, _NEEDS_TOTAL_ORDER)):
                continue
            order = window.args.get("order") or exp.Order(expressions=[])
            order.set("expressions", [*order.expressions, *(exp.Ordered(this=column.copy(), nulls_first=False)
                                                            for column in columns)])  # fmt: skip
            window.set("order", order)
