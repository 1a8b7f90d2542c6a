"""Flows in a kernel graph that are fed with deltas, compared with rows from scratch, saved and restored."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from runtime.engine.operators.evaluate import wide_array
from runtime.native.cache import KernelCache
from runtime.plan import (
    Aggregate,
    BoundNode,
    Col,
    Column,
    ColumnType,
    DistinctNode,
    Expr,
    Flow,
    GroupNode,
    JoinNode,
    Key,
    Lit,
    Map,
    Node,
    Program,
    Quantile,
    Relation,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
    View,
    WindowFunction,
    WindowNode,
)
from runtime.plan.flow import RankingKind
from runtime.views.feeds import ColumnFeed
from runtime.views.graph import GraphBuilder
from runtime.views.nodes import flow_body
from runtime.views.routing import Part
from runtime.views.rows import change_schema, changes_of
from tests.generators.batch_rows import tuples_of
from tests.generators.flows import NAN, Fields, Row, call, fields_of, plain
from tests.generators.view_lab import ViewGraph

__all__ = ["KINDS", "VALUES", "DrawnFlow", "GraphLab", "draw_deltas", "random_window"]


VALUES: dict[ColumnType, list[Any]] = {
    "int64": [None, 0, 1, 2, -1, 2**62, -(2**63), 2**63 - 1],
    "int128": [None, 0, 1, -1, 2**70, -(2**70), 2**64 + 1],
    "float64": [None, 0.0, -1.5, 2.0, float("inf"), -float("inf"), NAN],
    "string": [None, "", "a", "ab", "b", "é", "z", "\U00010348", "￿"],
    "bool": [None, True, False],
    "date": [None, datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)],
    "timestamp": [None, datetime.datetime(1969, 12, 31, 23), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)],  # noqa: DTZ001
}
TYPES = st.sampled_from(list(VALUES))
QUANTILES = st.builds(Quantile, st.sampled_from(["disc", "floor", "ceil"]), st.integers(0, 10), st.just(10))
KINDS = ("select", "join", "semi", "bound", "group", "whole", "top", "window")
"""Methods of `DrawnFlow` that add a node."""


class GraphLab(ViewGraph):
    """One flow in a graph of its own, and the sum of its changes."""

    def __init__(
        self,
        maps: Sequence[Fields],
        nodes: Sequence[Node],
        mode: str = "sql",
        *,
        kernels: KernelCache | None = None,
        from_payloads: bool = False,
    ) -> None:
        """Create a lab; ``kernels`` is the cache of compiled kernels, None to interpret them.

        With ``from_payloads``, deltas are fed as payloads of maps, not as rows of relations.
        """
        self.maps = [tuple(fields) for fields in maps]
        relations = tuple(
            Relation(f"r{n}", tuple(Column(name, type_, nullable=True) for name, type_ in fields))
            for n, fields in enumerate(self.maps)
        )
        base = tuple(
            Map(n, f"r{n}", None, tuple(Key(name, type_, Col(name)) for name, type_ in fields), ())
            for n, fields in enumerate(self.maps)
        )
        self.nodes = tuple(nodes)
        self.fields = fields_of(self.maps, nodes)[-1]
        columns = tuple(Column(f"c{n}", type_, nullable=True) for n, (_, type_) in enumerate(self.fields))
        view = View("v", columns, Flow(self.nodes), "ordered", "a test", "SELECT")
        program = Program(relations, base, (view,), "dbtoaster" if mode == "dbtoaster" else "sql")
        super().__init__(program, kernels, from_payloads=from_payloads)
        self._begin({})

    def lower(self, builder: GraphBuilder) -> None:
        """See `ViewGraph.lower`."""
        assert isinstance(self.view.body, Flow)
        flow_body.lower(self.view, self.view.body, builder)

    def restart(self) -> None:
        """Restart with the records of every structure."""
        records = {identity: held.dump().copy() for identity, held in self.structures.items()}
        self._begin(records, self.strings.texts())

    def step(self, deltas: Mapping[int, Sequence[tuple[Row, int]]]) -> None:
        """Feed deltas (row, weight), and add the change to the result."""
        for number, rows in deltas.items():
            part = Part(number, True)
            if rows and part in self.graph.feeds:
                table, feed = self._table(number, rows), self.graph.feeds[part]
                if isinstance(feed, ColumnFeed):
                    feed.fill([table], self.strings)
                else:
                    feed.batch.fill_arrow(table, self.strings)
        self.strings.refresh()
        assert self.graph.run() == {}
        self._has_begun = True
        output = self.graph.outputs["v"]
        changes = tuples_of(output.batches, self.strings, is_distinct=output.is_distinct)
        rows_changed = [row for row, _ in changes]
        if not any(type_ == "float64" for _, type_ in self.fields):  # NaN is not equal to itself
            assert len(set(rows_changed)) == len(rows_changed), "a row stands twice in one change"
        assert all(weight for _, weight in changes)
        table = changes_of(
            output.batches, change_schema(self.view.columns), self.strings, is_distinct=output.is_distinct
        )
        assert (0 if table is None else table.num_rows) == len(changes)
        for row, weight in changes:
            key = tuple(plain(value, type_) for value, (_, type_) in zip(row, self.fields, strict=True))
            self.result[key] += weight
            if not self.result[key]:
                del self.result[key]
        self.graph.finish()

    def _table(self, number: int, rows: Sequence[tuple[Row, int]]) -> pa.Table:
        fields = self.maps[number]
        arrays = []
        for place, (_, type_) in enumerate(fields):
            values: list[Any] = [row[place] for row, _ in rows]
            if type_ == "int128":
                arrays.append(wide_array(values))
            elif type_ == "float64":
                arrays.append(pa.array([float("nan") if value == NAN else value for value in values], pa.float64()))
            else:
                arrays.append(pa.array(values, change_schema([Column("c", type_)]).field(0).type))
        arrays.append(pa.array([weight for _, weight in rows], pa.int64()))
        return pa.Table.from_arrays(arrays, names=[*(name for name, _ in fields), "weight"])


class DrawnFlow:
    """Flow that is drawn node by node."""

    def __init__(self, data: st.DataObject, kinds: Sequence[str] = KINDS) -> None:
        self.data = data
        shared = data.draw(st.lists(TYPES, min_size=1, max_size=3), "types")
        self.maps: list[Fields] = [tuple((f"m{n}{i}", type_) for i, type_ in enumerate(shared)) for n in range(2)]
        self.nodes: list[Node] = [ScanNode(0), ScanNode(1)]
        self.names = 0
        for _ in range(data.draw(st.integers(1, 5), "nodes")):
            data.draw(st.sampled_from([getattr(self, kind) for kind in kinds]))()

    def fields(self, number: int) -> Fields:
        return fields_of(self.maps, self.nodes)[number]

    def pick(self) -> int:
        """Return a node; mostly the last one, so that graphs are deep."""
        number: int = self.data.draw(st.sampled_from([len(self.nodes) - 1, *range(len(self.nodes))]), "input")
        return number

    def toss(self, label: str) -> bool:
        tossed: bool = self.data.draw(st.booleans(), label)
        return tossed

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def project(self, source: int, places: list[int], where: Expr | None = None) -> int:
        """Add a projection to some columns under new names; return the node."""
        fields = self.fields(source)
        columns = tuple(Column(self.name(), fields[p][1], nullable=True) for p in places)
        self.nodes.append(SelectNode(source, where, columns, tuple(Col(fields[p][0]) for p in places)))
        return len(self.nodes) - 1

    def select(self) -> None:
        source = self.pick()
        fields = self.fields(source)
        integers = [name for name, type_ in fields if type_ in ("int64", "int128")]
        places = self.data.draw(st.lists(st.integers(0, len(fields) - 1), min_size=1, max_size=3), "places")
        where = None
        if integers and self.toss("filtered"):
            where = call("ge", Col(self.data.draw(st.sampled_from(integers))), Lit(0))
        node = self.nodes[self.project(source, places, where)]
        assert isinstance(node, SelectNode)
        if integers and self.toss("computed"):
            added = call("add", Col(self.data.draw(st.sampled_from(integers))), Lit(1))
            column = Column(self.name(), "int128", nullable=True)
            self.nodes[-1] = SelectNode(source, where, (*node.columns, column), (*node.outputs, added))

    def pair(self) -> tuple[int, int, tuple[tuple[str, str], ...]]:
        left, right = self.pick(), self.pick()
        left = self.project(left, list(range(len(self.fields(left)))))
        right = self.project(right, list(range(len(self.fields(right)))))
        equal = [
            (mine[0], theirs[0])
            for mine in self.fields(left)
            for theirs in self.fields(right)
            if mine[1] == theirs[1] or {mine[1], theirs[1]} == {"int64", "int128"}
        ]
        on = self.data.draw(st.lists(st.sampled_from(equal), max_size=2, unique=True), "on") if equal else []
        return left, right, tuple(on)

    def join(self) -> None:
        if sum(isinstance(node, JoinNode) for node in self.nodes) < 2:
            left, right, on = self.pair()
            self.nodes.append(JoinNode(left, right, on))

    def semi(self) -> None:
        left, right, on = self.pair()
        self.nodes.append(SemiNode(left, right, on, self.toss("anti")))

    def bound(self) -> None:
        """Add a node for the rows on one side of the greatest value that a column of another node has."""
        left, right = self.pick(), self.pick()
        fitting = [
            (mine[0], theirs)
            for mine in self.fields(left)
            for theirs in self.fields(right)
            if mine[1] in ("int64", "date", "timestamp") and theirs[1] in {mine[1], mine[1].replace("int64", "int128")}
        ]
        if fitting:
            value, (name, type_) = self.data.draw(st.sampled_from(fitting), "bound")
            self.nodes.append(GroupNode(right, (), (Aggregate(self.name(), "max", name, type_),)))
            (limit, _), *_ = self.fields(len(self.nodes) - 1)
            op = self.data.draw(st.sampled_from(["lt", "le", "gt", "ge"]), "op")
            self.nodes.append(BoundNode(left, len(self.nodes) - 1, value, op, limit))  # type: ignore[arg-type]

    def group(self) -> None:
        source = self.pick()
        fields = self.fields(source)
        keys = self.data.draw(st.lists(st.sampled_from([f[0] for f in fields]), max_size=2, unique=True), "keys")
        aggregates = []
        for name, type_ in self.data.draw(st.lists(st.sampled_from(fields), max_size=2), "aggregated"):
            kinds = ["count_rows", "count", "min", "max", "count_distinct", "quantile"]
            if type_ in ("int64", "int128"):
                kinds += ["sum", "sum_distinct"]
            for kind in self.data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3), "kinds"):
                result: ColumnType = "int64"
                if kind in ("sum", "sum_distinct"):
                    result = "int128"
                elif kind in ("min", "max", "quantile"):
                    result = type_
                column = None if kind == "count_rows" else name
                quantile = self.data.draw(QUANTILES, "quantile") if kind == "quantile" else None
                aggregates.append(Aggregate(self.name(), kind, column, result, quantile))  # type: ignore[arg-type]
        if keys or aggregates:
            self.nodes.append(GroupNode(source, tuple(keys), tuple(aggregates)))

    def whole(self) -> None:
        source = self.pick()
        if self.toss("distinct"):
            self.nodes.append(DistinctNode(source))
            return
        types = [type_ for _, type_ in self.fields(source)]
        others = [n for n in range(len(self.nodes)) if [type_ for _, type_ in self.fields(n)] == types]
        other = self.data.draw(st.sampled_from(others), "other")
        kind = self.data.draw(st.sampled_from(["except", "except_all", "intersect", "intersect_all", "union"]))
        self.nodes.append(UnionNode((source, other)) if kind == "union" else SetNode(source, other, kind))  # type: ignore[arg-type]

    def top(self) -> None:
        source = self.pick()
        names = [name for name, _ in self.fields(source)]
        order = self.data.draw(st.lists(st.tuples(st.sampled_from(names), st.booleans(), st.booleans()), max_size=2))
        limit = self.data.draw(st.none() | st.integers(0, 5), "limit")
        self.nodes.append(TopNode(source, tuple(order), limit, self.data.draw(st.integers(0, 3), "offset")))

    def window(self) -> None:
        if sum(isinstance(node, WindowNode) for node in self.nodes) < 2:
            source = self.pick()
            rng = self.data.draw(st.randoms(use_true_random=False), "window")
            self.nodes.append(random_window(rng, source, self.fields(source), self.name))


def random_window(rng: random.Random, source: int, fields: Fields, name: Callable[[], str]) -> WindowNode:
    """Return window functions over these columns; ``name`` makes new names."""
    names = [each for each, _ in fields]
    partition = tuple(rng.sample(names, rng.randint(0, min(2, len(names)))))
    order = tuple(
        (each, rng.random() < 0.5, rng.random() < 0.5) for each in rng.sample(names, rng.randint(0, len(names)))
    )
    peers = rng.randint(0, len(order))
    limit: tuple[RankingKind, int] | None = None
    if rng.random() < 0.4:
        ranking: RankingKind = rng.choice(("row_number", "rank", "dense_rank"))
        limit = (ranking, rng.randint(1, 4))
    functions = tuple(
        _random_function(rng, fields, name(), is_limited=limit is not None)
        for _ in range(rng.randint(limit is None, 3))
    )
    return WindowNode(source, partition, order, peers, functions, limit)


def _random_function(rng: random.Random, fields: Fields, name: str, *, is_limited: bool) -> WindowFunction:
    column, type_ = rng.choice(fields)
    kinds = ["row_number", "rank", "dense_rank", "lag", "first_value", "count_rows", "count", "min", "max"]
    kinds += ["sum"] * 2 * (type_ in ("int64", "int128")) + ["lead"] * (not is_limited)
    kind: Any = rng.choice(kinds)
    if kind in ("row_number", "rank", "dense_rank"):
        return WindowFunction(name, kind, None, "int64")
    if kind in ("lag", "lead", "first_value"):
        return WindowFunction(name, kind, column, type_, 0 if kind == "first_value" else rng.randint(1, 3))
    frame: tuple[int | None, int] | None = (None, 0)
    if rng.random() < 0.7:
        first, last = sorted(rng.choices(range(-3, 1 if is_limited else 4), k=2))
        frame = (rng.choice((-first, -first, None)), last)
    if not is_limited and rng.random() < 0.3:
        frame = None
    result: ColumnType = {"sum": "int128", "min": type_, "max": type_}.get(kind, "int64")
    return WindowFunction(name, kind, None if kind == "count_rows" else column, result, frame=frame)


def draw_deltas(
    data: st.DataObject, graph: DrawnFlow, held: dict[int, Counter[Row]]
) -> dict[int, list[tuple[Row, int]]]:
    """Draw added rows, removals of existing rows, and sometimes a removal before its row."""
    deltas = {}
    for number, fields in enumerate(graph.maps):
        row = st.tuples(*(st.sampled_from(VALUES[type_]) for _, type_ in fields))
        rows = data.draw(st.lists(st.tuples(row, st.sampled_from([1, 1, 2])), max_size=8), "added")
        there = [each for each, weight in held[number].items() for _ in range(weight)]
        if there:
            rows += [(each, -1) for each in data.draw(st.lists(st.sampled_from(there), max_size=5), "taken")]
        if data.draw(st.integers(0, 19), "early") == 0:
            rows.append((data.draw(row), -1))
        waiting = [(each, -weight) for each, weight in held[number].items() if weight < 0]
        deltas[number] = rows + (waiting if data.draw(st.booleans(), "late") else [])
    return deltas
