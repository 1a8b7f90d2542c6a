"""A row's weight in DISTINCT, EXCEPT and INTERSECT is a function of its weights in the inputs."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from runtime.plan import DistinctNode, Node, ScanNode, SetNode
from tests.generators.flow_graphs import GraphLab

FIELDS = (("a", "int64"), ("s", "string"))
ROW = (None, "x")


def lab_of(node: Node) -> GraphLab:
    return GraphLab((FIELDS, FIELDS), (ScanNode(0), ScanNode(1), node))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "multiplicity"),
    [
        (DistinctNode(0), lambda left, right: int(left > 0)),
        (SetNode(0, 1, "except"), lambda left, right: int(left > 0 and right <= 0)),
        (SetNode(0, 1, "except_all"), lambda left, right: max(max(left, 0) - max(right, 0), 0)),
        (SetNode(0, 1, "intersect"), lambda left, right: int(left > 0 and right > 0)),
        (SetNode(0, 1, "intersect_all"), lambda left, right: max(min(left, right), 0)),
    ],
)
def test_weights_give_the_weight_of_the_result(node: Node, multiplicity) -> None:  # type: ignore[no-untyped-def]
    """Every step from one pair of weights to another one; a weight that is not positive counts as none."""
    weights = list(product(range(-1, 4), repeat=2))
    lab = lab_of(node)
    held: tuple[int, ...] = (0, 0)
    for target in [*weights, *reversed(weights), *weights[::3], (0, 0)]:
        deltas = {side: [(ROW, target[side] - held[side])] for side in range(2) if target[side] != held[side]}
        lab.step(deltas)
        lab.check()
        held = target
        expected = multiplicity(*held)
        assert lab.result == (Counter({ROW: expected}) if expected else Counter())
    assert set(lab.records().values()) == {0}


def test_a_row_is_emitted_once_a_step() -> None:
    lab = lab_of(DistinctNode(0))
    batch = lab.graph.relations["r0"]
    for weight in (1, -1, 1, 2, -1):
        batch.append((5, "y"), weight, lab.strings)
    lab.strings.refresh()
    assert lab.graph.run() == {}
    assert [out.rows for out in lab.graph.outputs["v"].batches] == [1]
    assert lab.graph.outputs["v"].is_distinct
