"""Plan of GROUP BY over windows: a projection of keys and arguments, the aggregation, a projection of the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from runtime.compiler.lower import Leaf
from runtime.compiler.operands import Lowered, choose
from runtime.compiler.sums import is_accumulated
from runtime.compiler.types import INT, NULL
from runtime.engine.errors import PlanError
from runtime.engine.operators.aggregation import Kind, WindowAggregate, WindowSpan
from runtime.engine.operators.columns import type_of
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.expressions import condition, first_free, lowered, numbered_names
from runtime.engine.operators.plans.sqlscope import HIDDEN
from runtime.engine.operators.plans.steps import Step
from runtime.plan import Col, Lit

__all__ = ["WINDOW_END", "WINDOW_START", "Grouping", "aggregates_of", "grouped", "window_bound"]

WINDOW_START: Final = "window_start"
"""Name by which a SELECT refers to the start of the window of GROUP BY."""
WINDOW_END: Final = "window_end"
"""Name by which a SELECT refers to the end of the window of GROUP BY."""

_KINDS: Final[dict[type[exp.Expr], Kind]] = {
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
    exp.First: "first",
    exp.Last: "last",
}

Named = tuple[str, exp.Expr]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Keys by which rows are grouped, and outputs of the groups."""

    time: exp.Column
    """Time column of the windows."""
    start: exp.Column
    """Column with the start of each row's window."""
    size: int
    """Length of the windows, or the gap of sessions, in the unit of the time."""
    slide: int
    """Distance from one window to the next, in the unit of the time; 0 for sessions."""
    keys: tuple[Named, ...]
    """Keys besides the window."""
    outputs: tuple[Named, ...]
    """Names and expressions over keys, the window and aggregates."""
    having: exp.Expr | None
    """Condition on the groups; None if there is none."""
    label: str
    """Description of the grouping, for people."""


def window_bound(name: str) -> exp.Column:
    """Return the column with the start or end of GROUP BY's window, even if the rows have a column of that name."""
    return exp.column(name, table=HIDDEN, quoted=True)


def aggregates_of(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the aggregates in expressions, each with its FILTER; raise `PlanError` for a window function."""
    for node in nodes:
        for part in node.walk(prune=lambda part: is_accumulated(part) or isinstance(part, exp.Window)):
            if isinstance(part, exp.Window):
                raise PlanError(f"expected no window function beside GROUP BY, was {part.sql('duckdb')}: compute it in "
                                f"a subquery in FROM")  # fmt: skip
            if is_accumulated(part):
                yield part


def grouped(step: Step, grouping: Grouping, leaf: Leaf) -> Step:
    """Return a step with the groups, and expressions over keys, windows and aggregates as columns."""
    nodes = [node for _, node in grouping.outputs] + ([] if grouping.having is None else [grouping.having])
    inner: list[tuple[str, Lowered]] = []
    start = _placed(inner, lowered(grouping.start, leaf), WINDOW_START)
    time = _placed(inner, lowered(grouping.time, leaf), "t")
    known: dict[str, str] = {}
    for name, node in grouping.keys:
        known[node.unnest().sql()] = _placed(inner, lowered(node, leaf), name)
    names = [name for name in dict.fromkeys(known.values()) if name != start]
    end = first_free(numbered_names(WINDOW_END), {name for name, _ in inner})
    for bound, column in ((WINDOW_START, start), (WINDOW_END, end)):
        known[window_bound(bound).sql()] = column
        known.setdefault(exp.column(bound).sql(), column)  # unless a key has this name
    called = {
        node.unnest().sql(): name for name, node in reversed(grouping.outputs) if name not in (*names, start, end)
    }
    aggregates: list[WindowAggregate] = []
    for part in {part.sql(): part for part in aggregates_of(nodes)}.values():
        kind, argument = _argument(part, leaf, grouping.time)
        column = "" if argument is None else _placed(inner, argument, "argument")
        name = called.get(part.sql(), f"aggregate_{len(aggregates) + 1}")
        aggregates.append(WindowAggregate(name, kind, column))
        known[part.sql()] = name
    before = step
    if not all(value.expr == Col(name) for name, value in inner):
        before = building.projected(step, inner, ", ".join(name for name, _ in inner))
    span = WindowSpan(start, end, grouping.size, grouping.slide, "" if grouping.slide else time)
    made = building.aggregated(before, time, names, aggregates, span, label=grouping.label)

    def outer(node: exp.Expr) -> Lowered | None:
        name = known.get(node.unnest().sql())
        if name is not None:
            return Lowered(Col(name), type_of(made.schema.field(name)))
        if isinstance(node, exp.Column):
            raise PlanError(f"expected a column that is grouped, or an aggregate of it, was {node.sql('duckdb')}")
        return None

    if grouping.having is not None:
        made = building.filtered(made, condition(grouping.having, outer).expr, grouping.having.sql("duckdb"))
    results = [(name, lowered(node, outer)) for name, node in grouping.outputs]
    if [(name, value.expr) for name, value in results] == [(name, Col(name)) for name in made.schema.names]:
        return made
    text = ", ".join(f"{node.sql('duckdb')} AS {name}" for name, node in grouping.outputs)
    return building.projected(made, results, text)


def _placed(columns: list[tuple[str, Lowered]], value: Lowered, name: str) -> str:
    """Return the name of the column with this value, and add the column if it is missing."""
    for known, other in columns:
        if other == value:
            return known
    wanted = value.expr.name if isinstance(value.expr, Col) else name
    free = first_free(numbered_names(wanted), {known for known, _ in columns})
    columns.append((free, value))
    return free


def _argument(node: exp.Expr, leaf: Leaf, time: exp.Column) -> tuple[Kind, Lowered | None]:
    """Return the kind of an aggregate, and its argument."""
    where = None
    if isinstance(node, exp.Filter):
        where = condition(node.expression.this, leaf)
        node = node.this
    kind = _KINDS.get(type(node))
    argument = node.this
    if isinstance(argument, exp.Distinct) and kind == "count" and len(argument.expressions) == 1:
        kind, argument = "count_distinct", argument.expressions[0]
    if isinstance(argument, exp.Order) and kind in ("first", "last"):
        argument = _ordered_argument(argument, leaf, time)
    if kind is None or isinstance(argument, (exp.Distinct, exp.Order)):
        raise PlanError(f"expected SUM, COUNT, COUNT(DISTINCT), MIN, MAX, AVG, FIRST, LAST or TIME_WEIGHTED_AVG, was "
                        f"{node.sql('duckdb')}")  # fmt: skip
    if where is not None and kind in ("first", "last"):
        raise PlanError(f"expected no FILTER with FIRST and LAST, was {node.sql('duckdb')}: write a WHERE in a "
                        f"subquery in FROM")  # fmt: skip
    if node.expressions:
        raise PlanError(f"expected one argument in {node.sql('duckdb')}, were more")
    if kind == "count" and (argument is None or isinstance(argument, exp.Star)):
        if where is None:
            return "count_rows", None
        return "count", choose(where, Lowered(Lit(1), INT), Lowered(Lit(None), NULL))
    value = lowered(argument, leaf)
    if where is not None:
        value = choose(where, value, Lowered(Lit(None), NULL))
    if kind == "count" and not value.type.nullable:
        return "count_rows", None
    return kind, value


def _ordered_argument(node: exp.Order, leaf: Leaf, time: exp.Column) -> exp.Expr:
    """Return the argument of FIRST(… ORDER BY time), as rows already have that order here."""
    (order,) = node.expressions if len(node.expressions) == 1 else (None,)
    if order is None or order.args.get("desc") or leaf(order.this) != leaf(time):
        raise PlanError(f"expected FIRST and LAST in order of the windows' time alone, was {node.sql('duckdb')}")
    argument: exp.Expr = node.this
    return argument
