"""Selections and unions are computed by the kernels of their consumers."""

from __future__ import annotations

from collections import Counter

import pytest

from runtime.plan import Col, Column, DistinctNode, Expr, Lit, Node, ScanNode, SelectNode, UnionNode
from runtime.views.nodes.show import output_fields
from tests.generators.flow_graphs import GraphLab
from tests.generators.flows import call

MAPS = ((("a", "int64"), ("s", "string")), (("w", "int128"), ("t", "string")))


def select(source: int, where: Expr | None, *outputs: tuple[str, str, Expr]) -> SelectNode:
    columns = tuple(Column(name, type_, nullable=True) for name, type_, _ in outputs)  # type: ignore[arg-type]
    return SelectNode(source, where, columns, tuple(expr for _, _, expr in outputs))


NODES: tuple[Node, ...] = (
    ScanNode(0),
    select(0, call("gt", Col("a"), Lit(1)), ("b", "int128", call("mul", Col("a"), Lit(2))), ("u", "string", Col("s"))),
    ScanNode(1),
    select(2, call("is_null", Col("t")), ("w2", "int128", Col("w")), ("t2", "string", Lit("none"))),
    UnionNode((1, 3)),
    select(4, call("lt", Col("b"), Lit(100)), ("u", "string", Col("u")), ("b", "int128", Col("b"))),
)


@pytest.fixture
def lab() -> GraphLab:
    return GraphLab(MAPS, NODES)  # type: ignore[arg-type]


def test_selections_filter_and_compute(lab: GraphLab) -> None:
    lab.step({0: [((1, "x"), 1), ((2, "x"), 3), ((60, "y"), 1), ((None, "z"), 1), ((3, None), 1)]})
    assert lab.result == Counter({("x", 4): 3, (None, 6): 1})


def test_a_union_reads_one_input_after_the_other(lab: GraphLab) -> None:
    lab.step({0: [((2, "x"), 1)], 1: [((-(2**70), None), 1), ((5, "t"), 1), ((None, None), 1)]})
    assert lab.result == Counter({("x", 4): 1, ("none", -(2**70)): 1})


def test_weights_of_any_sign_pass(lab: GraphLab) -> None:
    lab.step({0: [((2, "x"), -1)]})
    assert lab.result == Counter({("x", 4): -1})


def test_a_chain_of_selections_is_one_kernel(lab: GraphLab) -> None:
    assert len(lab.graph.nodes) == 1


def test_a_selection_that_renames_columns_copies_nothing() -> None:
    nodes = (ScanNode(0), DistinctNode(0), select(1, None, ("t", "string", Col("s")), ("b", "int64", Col("a"))))
    lab = GraphLab(MAPS, nodes)  # type: ignore[arg-type]
    lab.step({0: [((number, "x"), 2) for number in range(200)]})  # the batch grows
    assert len(lab.graph.nodes) == 1
    assert lab.result == Counter({("x", number): 1 for number in range(200)})
    (batch,) = lab.graph.outputs["v"].batches
    assert [field.type for field in batch.fields] == [field.type for field in output_fields(lab.view.columns)]
