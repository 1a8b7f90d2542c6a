"""Whatever the graph and the stream, a flow's changes add up to its rows from scratch, across restarts too."""

from __future__ import annotations

import datetime
from collections import Counter
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compiler.program import (
    Aggregate,
    Col,
    Column,
    ColumnType,
    DistinctNode,
    Expr,
    GroupNode,
    JoinNode,
    Lit,
    Node,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
)
from runtime.state.columnar import arrangement
from runtime.views.flow import order, runs, top
from tests.generators.flows import NAN, Fields, Lab, Row, call, fields_of, from_scratch

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
TIGHT = (
    (top, "_SMALLEST", 1),
    (top, "_PER_NEEDED", 1),
    (top, "_PER_ROOT", 0),
    (order, "_STEP", 2),
    (runs, "_SLACK", 0),
    (arrangement, "_SMALLEST", 1),
    (arrangement, "_SLACK", 2),
)


class Graph:
    """A flow that is drawn node by node."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        shared = data.draw(st.lists(TYPES, min_size=1, max_size=3), "types")
        self.maps: list[Fields] = [tuple((f"m{n}{i}", type_) for i, type_ in enumerate(shared)) for n in range(2)]
        self.nodes: list[Node] = [ScanNode(0), ScanNode(1)]
        self.names = 0
        for _ in range(data.draw(st.integers(1, 5), "nodes")):
            draw = data.draw(st.sampled_from([self.select, self.join, self.semi, self.group, self.whole, self.top]))
            draw()

    def fields(self, number: int) -> Fields:
        return fields_of(self.maps, self.nodes)[number]

    def pick(self) -> int:
        """A node; mostly the last one, so that graphs are deep."""
        number: int = self.data.draw(st.sampled_from([len(self.nodes) - 1, *range(len(self.nodes))]), "input")
        return number

    def toss(self, label: str) -> bool:
        tossed: bool = self.data.draw(st.booleans(), label)
        return tossed

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def project(self, source: int, places: list[int], where: Expr | None = None) -> int:
        """Some columns under new names."""
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

    def group(self) -> None:
        source = self.pick()
        fields = self.fields(source)
        keys = self.data.draw(st.lists(st.sampled_from([f[0] for f in fields]), max_size=2, unique=True), "keys")
        aggregates = []
        for name, type_ in self.data.draw(st.lists(st.sampled_from(fields), max_size=2), "aggregated"):
            kinds = ["count_rows", "count", "min", "max", "count_distinct"]
            if type_ in ("int64", "int128"):
                kinds += ["sum", "sum_distinct"]
            for kind in self.data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3), "kinds"):
                result: ColumnType = "int64"
                if kind in ("sum", "sum_distinct"):
                    result = "int128"
                elif kind in ("min", "max"):
                    result = type_
                column = None if kind == "count_rows" else name
                aggregates.append(Aggregate(self.name(), kind, column, result))  # type: ignore[arg-type]
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


def draw_deltas(data: st.DataObject, graph: Graph, held: dict[int, Counter[Row]]) -> dict[int, list[tuple[Row, int]]]:
    """Rows added, rows there taken away, and now and then one taken away before it is added."""
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


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_changes_add_up_to_the_rows_from_scratch(data: st.DataObject) -> None:
    run(data)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_so_they_do_where_buffers_are_short_and_labels_close(data: st.DataObject) -> None:
    """What is laid out, refilled or labelled anew only in large states happens here in small ones."""
    with ExitStack() as stack:
        for module, name, value in TIGHT:
            stack.enter_context(patch.object(module, name, value))
        run(data)


def run(data: st.DataObject) -> None:
    graph = Graph(data)
    lab = Lab(graph.maps, graph.nodes, data.draw(st.sampled_from(["sql", "sql", "dbtoaster"]), "mode"))
    held: dict[int, Counter[Row]] = {0: Counter(), 1: Counter()}
    for _ in range(data.draw(st.integers(1, 5), "versions")):
        step(lab, held, draw_deltas(data, graph, held))
        check(lab, held)
        restart = data.draw(st.sampled_from(["", "", "save", "runs", "base"]), "restart")
        if restart == "save":
            lab.save()
        elif restart:
            lab.restart(from_base=restart == "base")
    step(lab, held, {n: [(row, -weight) for row, weight in rows.items()] for n, rows in held.items()})
    check(lab, held)
    lab.restart(from_base=True)
    if data.draw(st.booleans(), "again"):
        step(lab, held, draw_deltas(data, graph, held))
        check(lab, held)
    else:
        assert_empty(lab)


def step(lab: Lab, held: dict[int, Counter[Row]], deltas: dict[int, list[tuple[Row, int]]]) -> None:
    lab.step(deltas)
    for number, rows in deltas.items():
        for row, weight in rows:
            held[number][row] += weight
            if not held[number][row]:
                del held[number][row]


def check(lab: Lab, held: dict[int, Counter[Row]]) -> None:
    """Where a deletion still waits for its insertion, nothing is said of the rows."""
    lab.check()
    if all(weight > 0 for rows in held.values() for weight in rows.values()):
        assert lab.result == from_scratch(lab, held)


def assert_empty(lab: Lab) -> None:
    """Only rows of groups without keys are left anywhere."""
    if not any(isinstance(node, GroupNode) and not node.keys for node in lab.nodes):
        assert {name: len(table) for name, table in lab.state.tables().items() if len(table)} == {}
