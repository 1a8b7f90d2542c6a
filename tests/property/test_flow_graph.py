"""Whatever the flow and the stream, the changes of its graph add up to its rows from scratch, across restarts too."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.native import structures
from runtime.plan import GroupNode
from runtime.views.nodes import flow
from tests.generators.flow_graphs import DrawnFlow, GraphLab, draw_deltas
from tests.generators.flows import Row, from_scratch
from tests.harness.examples import examples

TIGHT = ((structures, "_SMALL", 1), (flow, "_ROWS", 0))


@given(st.data())
@settings(max_examples=examples(100), deadline=None)
def test_changes_add_up_to_the_rows(data: st.DataObject) -> None:
    run(data)


@given(st.data())
@settings(max_examples=examples(100), deadline=None)
def test_changes_add_up_where_room_is_short(data: st.DataObject) -> None:
    """Every stop of a kernel for want of room is taken."""
    with ExitStack() as stack:
        for module, name, value in TIGHT:
            stack.enter_context(patch.object(module, name, value))
        run(data)


def run(data: st.DataObject) -> None:
    graph = DrawnFlow(data)
    mode = data.draw(st.sampled_from(["sql", "sql", "dbtoaster"]), "mode")
    lab = GraphLab(graph.maps, graph.nodes, mode, from_payloads=data.draw(st.booleans(), "payloads"))
    held: dict[int, Counter[Row]] = {0: Counter(), 1: Counter()}
    for _ in range(data.draw(st.integers(1, 5), "steps")):
        step(lab, held, draw_deltas(data, graph, held))
        check(lab, held)
        if data.draw(st.booleans(), "restart"):
            lab.restart()
            lab.check()
    step(lab, held, {n: [(row, -weight) for row, weight in rows.items()] for n, rows in held.items()})
    check(lab, held)
    if not any(isinstance(node, GroupNode) and not node.keys for node in lab.nodes):
        assert {name: found for name, found in lab.records().items() if found} == {}, "state without rows"


def step(lab: GraphLab, held: dict[int, Counter[Row]], deltas: dict[int, list[tuple[Row, int]]]) -> None:
    lab.step(deltas)
    for number, rows in deltas.items():
        for row, weight in rows:
            held[number][row] += weight
            if not held[number][row]:
                del held[number][row]


def check(lab: GraphLab, held: dict[int, Counter[Row]]) -> None:
    """Compare with the rows from scratch, unless a deletion still waits for its insertion."""
    lab.check()
    if all(weight > 0 for rows in held.values() for weight in rows.values()):
        assert lab.result == from_scratch(lab, held)
