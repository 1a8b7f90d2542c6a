"""A semi join emits left rows whose key appears or disappears on the right; an anti join those of the other keys."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from runtime.plan import ScanNode, SemiNode
from runtime.views.nodes import flow
from tests.generators.flow_graphs import GraphLab

MAPS = ((("a", "int64"), ("s", "string")), (("b", "int64"),))
LEFT = [((1, "x"), 2), ((1, "y"), 1), ((2, "x"), 1), ((None, "z"), 1)]


def lab_of(*, is_anti: bool, on: tuple[tuple[str, str], ...] = (("a", "b"),)) -> GraphLab:
    return GraphLab(MAPS, (ScanNode(0), ScanNode(1), SemiNode(0, 1, on, is_anti)))  # type: ignore[arg-type]


def test_left_rows_come_with_their_key() -> None:
    semi, anti = lab_of(is_anti=False), lab_of(is_anti=True)
    for lab in (semi, anti):
        lab.step({0: LEFT})
        lab.step({1: [((1,), 5), ((None,), 1)]})
    assert semi.result == Counter({(1, "x"): 2, (1, "y"): 1})
    assert anti.result == Counter({(2, "x"): 1, (None, "z"): 1})


@pytest.mark.parametrize("is_anti", [False, True])
def test_a_key_that_comes_and_goes_in_a_step_emits_nothing(is_anti: bool) -> None:
    lab = lab_of(is_anti=is_anti)
    lab.step({0: LEFT})
    before = Counter(lab.result)
    lab.graph.relations["r1"].append((1,), 1, lab.strings)
    lab.graph.relations["r1"].append((1,), -1, lab.strings)
    assert lab.graph.run() == {}
    assert [batch.rows for batch in lab.graph.outputs["v"].batches] == [0]
    lab.graph.finish()
    assert lab.result == before


def test_a_weight_that_is_not_positive_matches_nothing() -> None:
    lab = lab_of(is_anti=False)
    lab.step({0: LEFT, 1: [((1,), -1)]})
    assert lab.result == Counter()
    lab.step({1: [((1,), 2)]})
    assert lab.result == Counter({(1, "x"): 2, (1, "y"): 1})


def test_without_keys_any_row_on_the_right_matches() -> None:
    lab = lab_of(is_anti=True, on=())
    lab.step({0: LEFT})
    assert lab.result == Counter(dict(LEFT))
    lab.step({1: [((None,), 1)]})
    assert lab.result == Counter()


def test_the_kernel_stops_within_the_rows_of_a_key() -> None:
    """Each time that the batch is full it makes room and resumes at the next row."""
    with patch.object(flow, "_ROWS", 0):
        lab = lab_of(is_anti=False)
    lab.step({0: [((number % 2, str(number)), 1) for number in range(50)]})
    lab.step({1: [((0,), 1), ((1,), 1)]})
    assert lab.result == Counter({(number % 2, str(number)): 1 for number in range(50)})
    lab.step({1: [((0,), -1)]})
    assert lab.result == Counter({(1, str(number)): 1 for number in range(1, 50, 2)})


def test_state_goes_with_its_rows() -> None:
    lab = lab_of(is_anti=True)
    lab.step({0: LEFT, 1: [((1,), 1)]})
    lab.step({0: [(row, -weight) for row, weight in LEFT], 1: [((1,), -1)]})
    assert lab.result == Counter()
    assert set(lab.records().values()) == {0}
