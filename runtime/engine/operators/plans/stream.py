"""Plans built in code: a stream of batches, and what may be done with it.

>>> import pyarrow as pa
>>> trades = scan("trades", pa.schema([("symbol", pa.string()), ("price", pa.int64()), ("volume", pa.int64())]))
>>> print(trades.filter("volume > 0").aggregate(["symbol"], ["MAX(price) AS high", "COUNT(*) AS trades"]))
pipeline 1
  hash aggregation by symbol: MAX(price) AS high, COUNT(*) AS trades → symbol string, high int64, trades int64
  │ holds the groups of the epoch
  filter volume > 0 → symbol string, price int64, volume int64
└─ scan trades → symbol string, price int64, volume int64
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from runtime.compiler.operands import Lowered
from runtime.engine.operators.columns import canonical
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.joins.lookup import Index, LookupKind
from runtime.engine.operators.joins.merge import JoinKind
from runtime.engine.operators.operator import MOST_ROWS
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.drawing import drawn
from runtime.engine.operators.plans.expressions import column_of, condition, lowered, named, parsed, schema_leaf
from runtime.engine.operators.plans.grouping import grouped
from runtime.engine.operators.plans.steps import Step
from runtime.engine.operators.sorting import MOST_HELD

__all__ = ["Stream", "scan"]


def scan(name: str, schema: pa.Schema, *, order: Sequence[str] = ()) -> Stream:
    """What comes from outside under this name; ``order``: the columns by which the rows of every epoch are sorted.

    Its batches are brought to types that operators have (`columns.canonical`); raises `PlanError` where there is none.
    """
    known = canonical(schema)
    for column in order:
        column_of(known, column)
    return Stream(Step("scan", f"scan {name}", known, order=tuple(order)))


class Stream:
    """The output of a step, and what may follow it; expressions are SQL. Streams are never changed."""

    def __init__(self, step: Step, *, most_rows: int = MOST_ROWS, most_held: int = MOST_HELD) -> None:
        self.step = step
        self._bounds = building.Bounds(most_rows, most_held)

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.step.schema

    def __str__(self) -> str:
        return drawn(self.step)

    def bounded(self, *, most_rows: int | None = None, most_held: int | None = None) -> Stream:
        """The same, for whose next steps other bounds hold: rows of a batch, and rows that an operator may hold."""
        bounds = self._bounds
        return Stream(self.step, most_rows=most_rows or bounds.most_rows, most_held=most_held or bounds.most_held)

    def filter(self, where: str) -> Stream:
        """The rows for which this is true."""
        value = condition(parsed(where), schema_leaf(self.schema))
        return self._next(building.filtered(self.step, value.expr, where, self._bounds))

    def project(self, *columns: str) -> Stream:
        """These columns: names, or expressions with ``AS name``."""
        outputs: list[tuple[str, Lowered]] = []
        for text in columns:
            name, node = named(parsed(text), text)
            outputs.append((name, lowered(node, schema_leaf(self.schema))))
        return self._next(building.projected(self.step, outputs, ", ".join(columns), self._bounds))

    def renamed(self, prefix: str) -> Stream:
        """All columns, their names with something in front: the sides of a join need different ones."""
        outputs = [(prefix + name, column_of(self.schema, name)) for name in self.schema.names]
        return self._next(building.projected(self.step, outputs, f"{prefix}*", self._bounds))

    def aggregate(self, keys: Sequence[str], aggregates: Sequence[str], *, keep: bool = False) -> Stream:
        """A row per group, of the keys and of expressions over aggregates with ``AS name``.

        SUM, COUNT, MIN, MAX, AVG, FIRST and LAST. Streaming, one open group at a time, where the stream is known to be
        sorted by the keys; otherwise by hash. ``keep``: groups go on over barriers, by hash.
        """
        by = [(key, exp.column(key)) for key in keys]
        outputs = by + [named(parsed(text), text) for text in aggregates]
        label = f" by {', '.join(keys)}" if keys else ""
        label += f": {', '.join(aggregates)}" if aggregates else ""
        return self._next(
            grouped(self.step, by, outputs, schema_leaf(self.schema), self._bounds, keep=keep, label=label)
        )

    def sort(self, *keys: str) -> Stream:
        """The rows of an epoch sorted by these columns, ascending with NULL last."""
        return self._next(building.sorted_by(self.step, keys, self._bounds))

    def join(self, right: Stream, on: Sequence[tuple[str, str]], kind: JoinKind = "inner") -> Stream:
        """Sort-merge join on equal columns; a side that is not known to be sorted by them is sorted by epoch."""
        return self._next(building.joined(self.step, right.step, on, kind, self._bounds))

    def asof_join(
        self,
        right: Stream,
        on: tuple[str, str],
        by: Sequence[tuple[str, str]] = (),
        *,
        outer: bool = False,
        tolerance: int | timedelta | None = None,
        keep: bool = False,
    ) -> Stream:
        """Each row with the last right one that is not later; see `AsofJoin`."""
        made = building.asof_joined(
            self.step, right.step, on, by, self._bounds, outer=outer, tolerance=tolerance, keep=keep
        )
        return self._next(made)

    def lookup(
        self,
        index: Index,
        keys: Sequence[str],
        kind: LookupKind = "inner",
        *,
        updates: Stream | None = None,
        batch_rows: int = 1,
        most_in_flight: int = 8,
    ) -> Stream:
        """Each row with its matches in an index, which ``updates`` keep up to date; see `LookupJoin`."""
        made = building.looked_up(
            self.step, index, keys, kind, self._bounds, updates=None if updates is None else updates.step,
            batch_rows=batch_rows, most_in_flight=most_in_flight,
        )  # fmt: skip
        return self._next(made)

    def unnest(self, *lists: str, outer: bool = False, ordinality: str = "") -> Stream:
        """A row for each element; ``ordinality`` names a column of its number, from 1."""
        return self._next(building.unnested(self.step, lists, self._bounds, outer=outer, ordinality=ordinality))

    def union(self, *others: Stream) -> Stream:
        """The rows of all, equal ones too; columns meet by their place."""
        return self._next(building.united([self.step, *(other.step for other in others)], self._bounds))

    def limit(self, count: int, offset: int = 0) -> Stream:
        """The first rows, counted over all epochs."""
        return self._next(building.limited(self.step, count, offset, self._bounds))

    def row_number(self, name: str = "row_number") -> Stream:
        """The rows with their number, from 1, counted over all epochs."""
        return self._next(building.numbered(self.step, name, self._bounds))

    def exchange(self, *keys: str, instances: int) -> Stream:
        """Spread over instances of what follows by the hash of these columns."""
        for key in keys:
            column_of(self.schema, key)
        if instances < 1 or not keys:
            raise PlanError(f"expected keys and at least one instance to exchange, were {len(keys)} and {instances}")
        # From one producer an instance's rows come in the producer's order; several are mixed.
        order = self.step.order if self.step.instances == 1 else ()
        label = f"exchange by {', '.join(keys)} over {instances}"
        inner = (_inner(self.step),)
        return self._next(Step("exchange", label, self.schema, inner, order=order, instances=instances, spread=keys))

    def gather(self) -> Stream:
        """All instances' rows in one, as they come."""
        if self.step.instances == 1:
            return self
        return self._next(Step("gather", f"gather {self.step.instances}", self.schema, (_inner(self.step),)))

    def _next(self, step: Step) -> Stream:
        return Stream(step, most_rows=self._bounds.most_rows, most_held=self._bounds.most_held)


def _inner(step: Step) -> Step:
    """What an exchange or gather goes on from: one right behind another one replaces it."""
    while step.kind in ("exchange", "gather"):
        (step,) = step.inputs
    return step
