"""An inner join holds both inputs and emits what a change of either one adds or removes."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from runtime.plan import JoinNode, ScanNode
from runtime.views.errors import ViewOverflowError
from runtime.views.nodes import flow
from tests.generators.flow_graphs import GraphLab

MAPS = ((("a", "int64"), ("s", "string")), (("b", "int128"), ("t", "string")))
NODES = (ScanNode(0), ScanNode(1), JoinNode(0, 1, (("a", "b"),)))


def lab_of(*on: tuple[str, str]) -> GraphLab:
    return GraphLab(MAPS, (ScanNode(0), ScanNode(1), JoinNode(0, 1, on)))  # type: ignore[arg-type]


def test_both_sides_may_change_in_one_step() -> None:
    lab = lab_of(("a", "b"))
    lab.step({0: [((1, "x"), 2)], 1: [((1, "p"), 3), ((2**64 + 1, "q"), 1)]})
    assert lab.result == Counter({(1, "x", 1, "p"): 6})


def test_null_equals_nothing_and_is_not_held() -> None:
    lab = lab_of(("a", "b"))
    lab.step({0: [((None, "x"), 1)], 1: [((None, "p"), 1)]})
    assert lab.result == Counter()
    assert set(lab.records().values()) == {0}


def test_a_deletion_may_come_before_its_insertion() -> None:
    lab = lab_of(("s", "t"), ("a", "b"))
    lab.step({0: [((1, "x"), -1)], 1: [((1, "x"), 1)]})
    lab.step({0: [((1, "x"), 1)]})
    assert lab.result == Counter()
    lab.step({1: [((1, "x"), -1)]})
    assert set(lab.records().values()) == {0}


def test_without_keys_every_pair_joins() -> None:
    lab = lab_of()
    lab.step({0: [((1, "x"), 1), ((None, "y"), 1)], 1: [((None, None), 2)]})
    assert lab.result == Counter({(1, "x", None, None): 2, (None, "y", None, None): 2})


def test_rows_without_columns_are_counted() -> None:
    lab = GraphLab(((), (("b", "int64"),)), (ScanNode(0), ScanNode(1), JoinNode(0, 1, ())))
    lab.step({0: [((), 3)], 1: [((5,), 1)]})
    lab.step({0: [((), -1)]})
    assert lab.result == Counter({(5,): 2})


def test_the_kernel_stops_within_the_matches_of_a_row() -> None:
    """Each time that the batch is full it makes room and resumes at the next match."""
    with patch.object(flow, "_ROWS", 0):
        lab = lab_of(("a", "b"))
    lab.step({1: [((1, str(number)), 1) for number in range(50)]})
    lab.step({0: [((1, "x"), 1), ((1, "y"), 1)]})
    assert lab.result == Counter({(1, s, 1, str(number)): 1 for number in range(50) for s in "xy"})


def test_weights_beyond_64_bits_fail_the_view() -> None:
    lab = lab_of(("a", "b"))
    lab.step({0: [((1, "x"), 2**40)]})
    lab.graph.relations["r1"].append((1, "p"), 2**40, lab.strings)
    lab.strings.refresh()
    assert isinstance(lab.graph.run()["v"], ViewOverflowError)
