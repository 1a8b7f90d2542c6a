"""GROUP BY and the aggregates of one SELECT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from runtime.compiler.flow.blocks import Block, QueryBuilder
from runtime.compiler.flow.graph import Rows, free_name
from runtime.compiler.flow.joining import attach, paired, semi_of
from runtime.compiler.lower import lower_key
from runtime.compiler.operands import Lowered, NotIncremental, call
from runtime.compiler.sums import Accumulator, Extreme, accumulate, is_accumulated
from runtime.compiler.types import INT, Type
from runtime.plan import Aggregate, Col, Lit, Quantile

__all__ = ["AggregateKind", "GroupAggregates", "aggregates_of", "group"]

AggregateKind = Literal["count_rows", "count", "sum", "min", "max", "count_distinct", "sum_distinct", "quantile"]
"""Function of an `Aggregate`."""


def aggregates_of(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the outermost aggregates of expressions, each with its FILTER, except aggregates in subqueries.

    A function under OVER is not an aggregate of the SELECT, but aggregates in its arguments are.
    """

    def stops(part: exp.Expr) -> bool:
        return is_accumulated(part) or isinstance(part, (exp.Query, exp.Window))

    aggregates: list[exp.Expr] = []
    for node in nodes:
        for part in node.walk(prune=stops):
            if isinstance(part, exp.Window):
                aggregates += aggregates_of(_inside(part))
            elif is_accumulated(part):
                aggregates.append(part)
    return aggregates


def _inside(window: exp.Window) -> list[exp.Expr]:
    """Return the arguments of a window function; aggregates in the arguments are aggregates of the SELECT."""
    inner = list(window.args.get("partition_by") or [])
    order = window.args.get("order")
    inner += [part.this for part in order.expressions] if order is not None else []
    for part in window.this.iter_expressions():
        inner += part.iter_expressions() if is_accumulated(part) else [part]
    return inner


def group(
    queries: QueryBuilder, block: Block, keys: Sequence[exp.Expr], nodes: Sequence[exp.Expr], *, grouped: bool
) -> Block:
    """Return the groups, with the aggregates that these expressions use; without GROUP BY there is always one group."""
    aggregates = {node.sql(): node for node in aggregates_of(nodes)}
    queries.subqueries.attach(block, [*keys, *aggregates.values()])
    known: dict[str, Lowered] = {}
    outputs = [(name, block.rows.column(name)) for _, name in block.links]
    for node in keys:
        value = lower_key(node, block.leaf)
        name = _place(outputs, value, "key")
        known[node.unnest().sql()] = Lowered(Col(name), value.type)
    names = list(dict.fromkeys(name for name, _ in outputs))
    made = _Aggregates(outputs, may_be_empty=not grouped, zero=queries.zero)
    parts = {sql: accumulate(node, block.leaf, made) for sql, node in aggregates.items()}
    rows = queries.graph.group(queries.graph.select(block.rows, None, outputs), names, made.made)
    keyed = [(name, value) for name, value in outputs if name in names]
    for extreme in made.extremes:
        rows = _with_extreme(queries, block, rows, keyed, extreme)
    defaults = {part.name: Lit(0) for part, _ in made.made if part.kind.startswith("count")}
    known |= parts

    def resolve(node: exp.Expr) -> Lowered | None:
        value = known.get(node.unnest().sql())
        if value is None and isinstance(node, exp.Column):
            raise NotIncremental("a column that is neither grouped nor summed")
        return value

    return Block(rows, resolve, block.links, defaults)


def _place(outputs: list[tuple[str, Lowered]], value: Lowered, name: str) -> str:
    """Return the column of this value in a projection; add the column if it is missing."""
    for known, other in outputs:
        if other.expr == value.expr and other.type == value.type:
            return known
    taken = [known for known, _ in outputs]
    outputs.append((free_name(value.expr.name if isinstance(value.expr, Col) else name, taken), value))
    return outputs[-1][0]


@dataclass(frozen=True, slots=True)
class _Extreme:
    """Aggregate ARG_MIN or ARG_MAX."""

    name: str
    """Name of the result's column."""
    kind: Extreme
    """Extreme of ``by`` that selects the rows."""
    value: Lowered
    """Value that is returned."""
    by: Lowered
    """Value by which rows are selected."""


class GroupAggregates(Accumulator):
    """Accumulator that turns aggregates of the query into aggregates of a group node."""

    def __init__(self, *, may_be_empty: bool, zero: bool) -> None:
        super().__init__(may_be_empty=may_be_empty, zero=zero)
        self.made: list[tuple[Aggregate, Type]] = []
        """Aggregates of the node, with the types of their results."""

    @abstractmethod
    def argument(self, value: Lowered) -> str:
        """Return the column of the node's input that has this value; add the column if it is missing."""

    @abstractmethod
    def new_name(self, kind: AggregateKind) -> str:
        """Return a name for an aggregate of this kind; no column and no other aggregate has the name."""

    def _add(
        self, kind: AggregateKind, value: Lowered | None, result: Type, quantile: Quantile | None = None
    ) -> Lowered:
        column = None if value is None else self.argument(value)
        for part, known in self.made:
            if (part.kind, part.column, part.quantile) == (kind, column, quantile):
                return Lowered(Col(part.name), known)
        name = self.new_name(kind)
        self.made.append((Aggregate(name, kind, column, result.column(name).type, quantile), result))
        return Lowered(Col(name), result)

    def rows(self) -> Lowered:
        return self._add("count_rows", None, INT)

    def count(self, value: Lowered) -> Lowered:
        return self._add("count", value, INT)

    def total(self, value: Lowered) -> Lowered:
        return self._summed("sum", value)

    def extreme(self, kind: Extreme, value: Lowered) -> Lowered:
        if value.type.kind in ("null", "other"):
            raise NotIncremental(f"{kind.upper()} of {value.type}")
        return self._add(kind, value, value.type.with_null(value.type.nullable or self.may_be_empty))

    def quantile(self, place: Quantile, value: Lowered) -> Lowered:
        return self._add("quantile", value, value.type.with_null(), place)

    def distinct(self, kind: Literal["count_distinct", "sum_distinct"], value: Lowered) -> Lowered:
        if kind == "sum_distinct":
            return self._summed(kind, value)
        if value.type.kind in ("null", "other"):
            raise NotIncremental(f"COUNT(DISTINCT) of {value.type}")
        return self._add(kind, value, INT)

    def _summed(self, kind: Literal["sum", "sum_distinct"], value: Lowered) -> Lowered:
        summed = self._add(kind, value, Type("int", value.type.scale, True, value.type.nullable or self.may_be_empty))
        if not self._zero:
            return summed
        return Lowered(call("coalesce", summed.expr, Lit(0)), summed.type.with_null(False))


class _Aggregates(GroupAggregates):
    """Accumulator of the aggregates of a SELECT with groups."""

    def __init__(self, outputs: list[tuple[str, Lowered]], *, may_be_empty: bool, zero: bool) -> None:
        """Begin with no aggregates. ``outputs`` is the projection that the node reads; arguments are added to it."""
        super().__init__(may_be_empty=may_be_empty, zero=zero)
        self.outputs = outputs
        self.extremes: list[_Extreme] = []

    def argument(self, value: Lowered) -> str:
        return _place(self.outputs, value, "value")

    def new_name(self, kind: AggregateKind) -> str:
        return free_name(kind, [*(name for name, _ in self.outputs), *(part.name for part, _ in self.made)])

    def arg_extreme(self, kind: Extreme, value: Lowered, by: Lowered) -> Lowered:
        name = f"arg_{kind}_{len(self.extremes) + 1}"
        self.extremes.append(_Extreme(name, kind, value, by))
        return Lowered(Col(name), value.type.with_null())


def _with_extreme(
    queries: QueryBuilder, block: Block, rows: Rows, keys: Sequence[tuple[str, Lowered]], extreme: _Extreme
) -> Rows:
    """Join to each group the least value among its rows with the least (or greatest) ``by``; NULL if it has none."""
    graph, value, by = queries.graph, extreme.value, extreme.by
    names = [name for name, _ in keys]
    nullable = value.type.nullable or by.type.nullable
    present = call("not", call("or", call("is_null", value.expr), call("is_null", by.expr))) if nullable else None
    taken = [free_name(part, names) for part in ("value", "by", "extreme")]
    some = graph.select(block.rows, present, [*keys, (taken[0], value), (taken[1], by)])
    best = graph.group(some, names, [(_aggregate(taken[2], extreme.kind, taken[1], by.type), by.type)])
    own = [some.column(key) for key in (*names, taken[1])]
    chosen = semi_of(graph, some, best, own, [best.column(key) for key in (*names, taken[2])], anti=False)
    least = _aggregate(extreme.name, "min", taken[0], value.type)
    extremes = graph.group(chosen, names, [(least, value.type.with_null())])
    mine, theirs = paired([rows.column(name) for name in names], [extremes.column(name) for name in names])
    extremes, columns = graph.extended(extremes, theirs)
    extremes = graph.keep(extremes, [*columns, extreme.name])
    joined, _ = attach(graph, rows, extremes, list(zip(mine, columns, strict=True)), {} if nullable else None)
    return graph.keep(joined, [*rows.columns, extreme.name])


def _aggregate(name: str, kind: Extreme, column: str, of: Type) -> Aggregate:
    return Aggregate(name, kind, column, of.column(name).type)
