"""Random streams of one map's rows, with repeated rows and early deletions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from runtime.native import structures
from runtime.plan import ColumnType
from runtime.views.nodes import flow
from tests.generators.flow_graphs import VALUES, GraphLab
from tests.generators.flows import Fields, Row, from_scratch
from tests.generators.sorted_rows_rig import small_nodes

__all__ = ["compare_with_scratch", "short_room", "stream"]

Deltas = list[tuple[Row, int]]


@contextmanager
def short_room() -> Iterator[None]:
    """Make structures so small that a kernel stops wherever it can, and let nodes of trees have few entries."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(structures, "_SMALL", 1))
        stack.enter_context(patch.object(flow, "_ROWS", 0))
        stack.enter_context(small_nodes())
        yield


def stream(
    rng: random.Random,
    fields: Fields,
    steps: int,
    *,
    values: Mapping[ColumnType, Sequence[Any]] = VALUES,
    size: int = 12,
) -> Iterator[tuple[Deltas, Counter[Row]]]:
    """Yield the deltas of each step with the rows after it; at the end all rows are gone.

    ``values`` are given by type. A count is sometimes negative until the next step.
    """
    held: Counter[Row] = Counter()
    for number in range(steps + 1):
        deltas = [(row, -count) for row, count in held.items() if count < 0 or number == steps]
        there = [row for row, count in held.items() for _ in range(count)]
        for _ in range(rng.randrange(size) if number < steps else 0):
            if there and rng.random() < (0.3 if number % 7 < 4 else 0.8):
                deltas.append((there.pop(rng.randrange(len(there))), -1))
            else:
                row = tuple(rng.choice(values[type_]) for _, type_ in fields)
                deltas.append((row, rng.choice([1, 1, 1, 2, 3, -1 if number < steps - 1 else 1])))
        rng.shuffle(deltas)
        for row, weight in deltas:
            held[row] += weight
            if not held[row]:
                del held[row]
        yield deltas, held


def compare_with_scratch(lab: GraphLab, rng: random.Random, steps: int, **options: Any) -> None:
    """Feed a stream to a flow over one map, with restarts, and compare the flow's result after each step."""
    for deltas, held in stream(rng, lab.maps[0], steps, **options):
        lab.step({0: deltas})
        lab.check()
        if all(count > 0 for count in held.values()):
            assert lab.result == from_scratch(lab, {0: held})
        if rng.random() < 0.1:
            lab.restart()
