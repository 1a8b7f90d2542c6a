"""Joins that are built from several nodes: outer joins, and joins in which NULL equals NULL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.compiler.flow.graph import Graph, Rows
from runtime.compiler.operands import Lowered, NotIncremental, call
from runtime.compiler.types import BOOL
from runtime.plan import Expr, Lit, columns_read

__all__ = ["attach", "outer_join", "paired", "semi_of"]

Pairs = Sequence[tuple[str, str]]


def _null_safe(value: Lowered) -> list[Lowered]:
    """Return one or two values to compare by ``=`` in place of a value, so that NULL equals NULL."""
    if not value.type.nullable:
        return [value]
    defaults: dict[str, Expr] = {
        "int": Lit(0), "float64": Lit(0.0), "string": Lit(""), "bool": Lit(False),
        "date": call("date", Lit("1970-01-01")), "timestamp": call("timestamp", Lit("1970-01-01 00:00:00")),
    }  # fmt: skip
    if value.type.kind not in defaults:
        raise NotIncremental(f"a comparison of {value.type}")
    plain = call("coalesce", value.expr, defaults[value.type.kind])
    return [Lowered(call("is_null", value.expr), BOOL), Lowered(plain, value.type.with_null(False))]


def _filled(graph: Graph, alone: Rows, joined: Rows, defaults: Mapping[str, Lit]) -> Rows:
    """Return the rows of one side with all columns of the join: those of the other side are defaults, or NULL."""
    outputs = []
    for name, kind in joined.columns.items():
        value = alone.column(name).expr if name in alone.columns else defaults.get(name, Lit(None))
        outputs.append((name, Lowered(value, kind.with_null(kind.nullable or value == Lit(None)))))
    return graph.arranged(alone, outputs)


def outer_join(
    graph: Graph, left: Rows, right: Rows, on: Pairs, conditions: Sequence[Expr] = (), *, full: bool = False
) -> Rows:
    """Return the LEFT or FULL JOIN on equalities, and on conditions over the columns of both sides."""
    if not conditions and (on or not full):
        return _equal_join(graph, left, right, on, {}, full=full)
    # Two rows that have equal values in the columns that the conditions use also have the same partners. So a row has
    # no partner if no matched row has its values in these columns.
    matched = graph.filter(graph.join(left, right, on), conditions)
    used = {name for pair in on for name in pair}.union(*map(columns_read, conditions))
    arms = [matched]
    for side in (left, right) if full else (left,):
        own = [value for name, value in side.all() if name in used]
        arms.append(_filled(graph, semi_of(graph, side, matched, own, own, anti=True), matched, {}))
    return graph.union(arms)


def _equal_join(
    graph: Graph, left: Rows, right: Rows, on: Pairs, defaults: Mapping[str, Lit], *, full: bool = False
) -> Rows:
    """Return the LEFT or FULL JOIN on equalities alone.

    In a left row without a partner the right columns are NULL, or the value that ``defaults`` has for the column.
    """
    joined = graph.join(left, right, on)
    alone = [graph.semi(left, right, on, anti=True)]
    if full:
        alone.append(graph.semi(right, left, [(right_name, left_name) for left_name, right_name in on], anti=True))
    return graph.union([joined, *(_filled(graph, rows, joined, defaults) for rows in alone)])


def attach(
    graph: Graph, left: Rows, right: Rows, pairs: Sequence[tuple[Lowered, str]], defaults: Mapping[str, Lit] | None
) -> tuple[Rows, dict[str, str]]:
    """Join each left row to the right row whose columns equal these values; at most one right row may match.

    A left row without a match is dropped if ``defaults`` is None. Also return the new names of the right columns.
    """
    kept = list(left.columns)
    wide, names = graph.extended(left, [value for value, _ in pairs])
    right, called = graph.apart(wide, right)
    on = [(name, called[column]) for name, (_, column) in zip(names, pairs, strict=True)]
    if pairs and defaults is not None:
        known = {called[name]: value for name, value in defaults.items() if name in called}
        joined = _equal_join(graph, wide, right, on, known)
    else:
        joined = graph.join(wide, right, on)
    return graph.keep(joined, [*kept, *called.values()]), called


def semi_of(
    graph: Graph, left: Rows, right: Rows, own: Sequence[Lowered], theirs: Sequence[Lowered], *, anti: bool
) -> Rows:
    """Return the left rows that equal a right row in these values, or with ``anti`` all others; NULL equals NULL."""
    mine, others = paired(own, theirs)
    wide, left_names = graph.extended(left, mine)
    narrow, right_names = graph.extended(right, others)
    matches = graph.semi(wide, narrow, list(zip(left_names, right_names, strict=True)), anti=anti)
    return graph.keep(matches, left.columns)


def paired(own: Sequence[Lowered], theirs: Sequence[Lowered]) -> tuple[list[Lowered], list[Lowered]]:
    """Return both sides of a comparison in which NULL equals NULL."""
    mine, others = [], []
    for left, right in zip(own, theirs, strict=True):
        nullable = left.type.nullable or right.type.nullable
        mine += _null_safe(Lowered(left.expr, left.type.with_null(nullable)))
        others += _null_safe(Lowered(right.expr, right.type.with_null(nullable)))
    return mine, others
