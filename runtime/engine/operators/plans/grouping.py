"""GROUP BY over a step: a projection of keys and arguments, the aggregation, and a projection of what is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from runtime.compiler.lower import Leaf
from runtime.compiler.operands import Lowered, choose
from runtime.compiler.sums import is_accumulated
from runtime.compiler.types import INT, NULL
from runtime.engine.operators.aggregation.aggregations import HashAggregation, StreamingAggregation
from runtime.engine.operators.aggregation.cells import Aggregate, Cells, Kind
from runtime.engine.operators.columns import type_of
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.building import Bounds
from runtime.engine.operators.plans.expressions import condition, lowered
from runtime.engine.operators.plans.steps import Step
from runtime.plan import Col, Lit

__all__ = ["aggregates_of", "grouped"]

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


def aggregates_of(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """The aggregates in expressions, each with its FILTER."""
    for node in nodes:
        for part in node.walk(prune=lambda part: is_accumulated(part) or isinstance(part, exp.Window)):
            if isinstance(part, exp.Window):
                raise PlanError(f"expected no window function here, was {part.sql('duckdb')}")
            if is_accumulated(part):
                yield part


def grouped(
    step: Step,
    keys: Sequence[Named],
    outputs: Sequence[Named],
    leaf: Leaf,
    bounds: Bounds,
    *,
    having: exp.Expr | None = None,
    keep: bool = False,
    label: str,
) -> Step:
    """The groups of these keys, and expressions over keys and aggregates as columns."""
    nodes = [node for _, node in outputs] + ([] if having is None else [having])
    inner: list[tuple[str, Lowered]] = []
    known: dict[str, str] = {}
    for name, node in keys:
        known[node.unnest().sql()] = _placed(inner, lowered(node, leaf), name)
    names = list(dict.fromkeys(known.values()))
    called = {node.unnest().sql(): name for name, node in reversed(outputs) if name not in names}
    aggregates: list[Aggregate] = []
    for part in {part.sql(): part for part in aggregates_of(nodes)}.values():
        kind, argument = _argument(part, leaf)
        column = "" if argument is None else _placed(inner, argument, "argument")
        name = called.get(part.sql(), f"aggregate_{len(aggregates) + 1}")
        aggregates.append(Aggregate(name, kind, column))
        known[part.sql()] = name
    before = _arguments(step, inner, bounds)
    made = _aggregation(before, names, aggregates, bounds, keep=keep, label=label)

    def outer(node: exp.Expr) -> Lowered | None:
        name = known.get(node.unnest().sql())
        if name is not None:
            return Lowered(Col(name), type_of(made.schema.field(name)))
        if isinstance(node, exp.Column):
            raise PlanError(f"expected a column that is grouped, or an aggregate of it, was {node.sql('duckdb')}")
        return None

    if having is not None:
        made = building.filtered(made, condition(having, outer).expr, having.sql("duckdb"), bounds)
    results = [(name, lowered(node, outer)) for name, node in outputs]
    if [(name, value.expr) for name, value in results] == [(name, Col(name)) for name in made.schema.names]:
        return made
    text = ", ".join(f"{node.sql('duckdb')} AS {name}" for name, node in outputs)
    return building.projected(made, results, text, bounds)


def _arguments(step: Step, columns: list[tuple[str, Lowered]], bounds: Bounds) -> Step:
    """What the aggregation reads, computed where it is not there already."""
    if all(value.expr == Col(name) for name, value in columns):
        return step
    return building.projected(step, columns, ", ".join(name for name, _ in columns), bounds)


def _aggregation(
    step: Step, keys: Sequence[str], aggregates: Sequence[Aggregate], bounds: Bounds, *, keep: bool, label: str
) -> Step:
    schema = step.schema
    output = Cells(schema, keys, aggregates).output
    if step.instances > 1 and not (step.spread and set(step.spread) <= set(keys)):
        raise PlanError(f"expected several instances before an aggregation to be spread by keys of it, were spread by "
                        f"{', '.join(step.spread) or 'none'}: exchange them by the keys, or gather them")  # fmt: skip
    if keys and not keep and set(step.order[: len(keys)]) == set(keys):
        return Step("operator", f"streaming aggregation{label}", output, (step,),
                    lambda place: StreamingAggregation(schema, keys, aggregates, most_rows=bounds.most_rows),
                    step.order[: len(keys)], step.instances, step.spread, state="holds the open group")  # fmt: skip
    return Step(
        "operator", f"hash aggregation{label}", output, (step,),
        lambda place: HashAggregation(schema, keys, aggregates, keep=keep, name=place.name, space=place.space,
                                      most_rows=bounds.most_rows, most_held=bounds.most_held),
        (), step.instances, step.spread, state="keeps all groups" if keep else "holds the groups of the epoch",
    )  # fmt: skip


def _placed(columns: list[tuple[str, Lowered]], value: Lowered, name: str) -> str:
    """The column of this value, added if it is not there yet."""
    for known, other in columns:
        if other == value:
            return known
    taken = {known for known, _ in columns}
    wanted = value.expr.name if isinstance(value.expr, Col) else name
    free, number = wanted, 1
    while free in taken:
        free, number = f"{wanted}_{number}", number + 1
    columns.append((free, value))
    return free


def _argument(node: exp.Expr, leaf: Leaf) -> tuple[Kind, Lowered | None]:
    """Which aggregate it is, and of what."""
    where = None
    if isinstance(node, exp.Filter):
        where = condition(node.expression.this, leaf)
        node = node.this
    kind = _KINDS.get(type(node))
    if kind is None or isinstance(node.this, exp.Distinct):
        raise PlanError(f"expected SUM, COUNT, MIN, MAX, AVG, FIRST or LAST, was {node.sql('duckdb')}")
    if where is not None and kind in ("first", "last"):
        raise PlanError(f"expected no FILTER with FIRST and LAST, was {node.sql('duckdb')}")
    if kind == "count" and (node.this is None or isinstance(node.this, exp.Star)):
        if where is None:
            return "count_rows", None
        return "count", choose(where, Lowered(Lit(1), INT), Lowered(Lit(None), NULL))
    value = lowered(node.this, leaf)
    if where is not None:
        value = choose(where, value, Lowered(Lit(None), NULL))
    if kind == "count" and not value.type.nullable:
        return "count_rows", None
    return kind, value
