"""Rows pass on one side of a bound, and come and go as the bound moves."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal
from unittest.mock import patch

import pytest

from runtime.plan import Aggregate, BoundNode, GroupNode, ScanNode
from runtime.views.nodes import flow
from tests.generators.flow_graphs import GraphLab

MAPS = ((("t", "int64"), ("s", "string")), (("now", "int64"),))
ROWS = [((t, "x"), 1) for t in range(5)] + [((2, "y"), 3), ((None, "z"), 1)]
LEAST, GREATEST = -(2**63), 2**63 - 1


def lab_of(op: Literal["lt", "le", "gt", "ge"]) -> GraphLab:
    latest = Aggregate("latest", "max", "now", "int64")
    nodes = (ScanNode(0), ScanNode(1), GroupNode(1, (), (latest,)), BoundNode(0, 2, "t", op, "latest"))
    return GraphLab(MAPS, nodes)  # type: ignore[arg-type]


def passing(test: Any) -> Counter[Any]:
    return Counter({row: weight for row, weight in ROWS if row[0] is not None and test(row[0])})


@pytest.mark.parametrize(
    ("op", "test"),
    [
        ("lt", lambda t, now: t < now),
        ("le", lambda t, now: t <= now),
        ("gt", lambda t, now: t > now),
        ("ge", lambda t, now: t >= now),
    ],
)
def test_a_bound_that_moves_lets_rows_come_and_go(op: Literal["lt", "le", "gt", "ge"], test: Any) -> None:
    lab = lab_of(op)
    lab.step({0: ROWS})
    assert lab.result == Counter()  # without a bound
    before = None
    for now in (2, 3, 3, 1, 9, 0, -5, GREATEST, LEAST):
        lab.step({1: [] if before == now else [((now,), 1), *([((before,), -1)] if before is not None else [])]})
        assert lab.result == passing(lambda t, now=now: test(t, now)), now
        lab.check()
        before = now
    lab.step({1: [((before,), -1)]})
    assert lab.result == Counter()


def test_a_row_that_has_expired_goes_without_a_word() -> None:
    lab = lab_of("gt")
    lab.step({0: ROWS, 1: [((10,), 1)]})
    assert lab.result == Counter()
    lab.step({0: [(row, -weight) for row, weight in ROWS]})
    assert lab.result == Counter()
    assert sum(count for name, count in lab.records().items() if name.endswith("/rows")) == 0


def test_rows_and_the_bound_may_change_in_one_step() -> None:
    lab = lab_of("ge")
    lab.step({0: ROWS, 1: [((2,), 1)]})
    lab.step({0: [((2, "x"), -1), ((7, "x"), 1), ((3, "new"), 1)], 1: [((2,), -1), ((4,), 1)]})
    assert lab.result == Counter({(4, "x"): 1, (7, "x"): 1})


def test_the_kernel_stops_between_the_bounds() -> None:
    """Each time that the batch is full it makes room and resumes at the next row, across leaves of the order."""
    with patch.object(flow, "_ROWS", 0):
        lab = lab_of("lt")
    lab.step({0: [((t, "x"), 1) for t in range(300)]})
    lab.step({1: [((250,), 1)]})
    assert lab.result == Counter({(t, "x"): 1 for t in range(250)})
    lab.step({1: [((250,), -1), ((3,), 1)]})
    assert lab.result == Counter({(t, "x"): 1 for t in range(3)})


@pytest.mark.parametrize("edge", [LEAST, GREATEST])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
def test_values_at_the_edges_of_64_bits_compare_as_they_are(op: Literal["lt", "le", "gt", "ge"], edge: int) -> None:
    lab = lab_of(op)
    values = (LEAST, LEAST + 1, 0, GREATEST - 1, GREATEST)
    lab.step({0: [((value, "x"), 1) for value in values], 1: [((edge,), 1)]})
    compare = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__}[op]
    assert lab.result == Counter({(value, "x"): 1 for value in values if compare(value, edge)})
