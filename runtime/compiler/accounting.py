"""Check that every part of a query is read: the compiler refuses parts that it would not read, and drops none."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

__all__ = ["unread_part"]

_QUERY: Final = frozenset({"with_", "order", "limit", "offset"})
_BINARY: Final = frozenset({"this", "expression"})
_READ: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _QUERY
    | {"expressions", "from_", "joins", "where", "group", "having", "qualify", "distinct", "windows"},
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _QUERY | _BINARY | {"distinct", "by_name", "side", "kind"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.With: frozenset({"expressions", "recursive"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins"}),
    exp.Join: frozenset({"this", "on", "side", "kind", "using", "method"}),
    exp.Where: frozenset({"this"}),
    exp.Having: frozenset({"this"}),
    exp.Qualify: frozenset({"this"}),
    exp.Group: frozenset({"expressions", "all", "grouping_sets", "rollup", "cube"}),
    exp.Order: frozenset({"this", "expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"this", "expression", "expressions", "limit_options"}),
    exp.Offset: frozenset({"this", "expression", "expressions"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.Distinct: frozenset({"expressions", "on"}),
    exp.Star: frozenset({"except_", "replace", "rename"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over", "first"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.Filter: _BINARY,
    exp.WithinGroup: _BINARY,
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.TryCast: frozenset({"this", "to"}),
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max, exp.CountIf, exp.First, exp.Last), frozenset({"this"})),
    exp.Count: frozenset({"this", "expressions"}),
    **dict.fromkeys((exp.ArgMin, exp.ArgMax), _BINARY),
}
"""Parts of each node that the compiler reads. Other functions go to DuckDB whole."""
_FLAGS: Final = frozenset({"big_int", "safe", "is_string", "typed", "requires_string", "distinct"})
"""Notes of sqlglot on a dialect, which do not concern the query."""
_WORDS: Final = {
    "limit_options": "PERCENT or WITH TIES",
    "sample": "SAMPLE",
    "pivots": "PIVOT",
    "locks": "FOR UPDATE",
    "when": "AT (…)",
    "only": "ONLY",
    "ordinality": "WITH ORDINALITY",
    "with_fill": "WITH FILL",
    "count": "a number of rows",
    "symmetric": "SYMMETRIC",
    "exclude": "EXCLUDE",
}


def unread_part(tree: exp.Expr) -> tuple[str, exp.Expr] | None:
    """Return the first part that the compiler does not read, described, and the node that has it."""
    for node in tree.walk():
        read = _READ.get(type(node))
        if read is None:
            continue
        for name, part in node.args.items():
            if part and name not in read and name not in _FLAGS:
                word = _WORDS.get(name) or (part.key.upper() if isinstance(part, exp.Expr) else name.upper())
                return f"{word} in {node.key.upper()}", node
        options = node.args.get("limit_options")
        if isinstance(options, exp.Expr) and any(options.args.get(name) for name in ("percent", "with_ties")):
            return f"{_WORDS['limit_options']} in {node.key.upper()}", node
    return None
