"""Window functions follow rows that come and go, as if every partition were sorted at each step."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from itertools import count
from typing import Any

import pytest

from runtime.native.cache import KernelCache
from runtime.native.library import partitions
from runtime.plan import ColumnType, ScanNode, WindowFunction, WindowNode
from tests.generators.flow_graphs import VALUES, GraphLab, random_window
from tests.generators.flow_streams import compare_with_scratch, short_room
from tests.generators.flows import Fields

FIELDS: Fields = (("k", "string"), ("t", "int64"), ("x", "int64"))
BY_TIME = (("t", False, False),)


def lab_of(fields: Fields, node: WindowNode, **options: Any) -> GraphLab:
    return GraphLab([fields], [ScanNode(0), node], **options)


def window(*functions: WindowFunction, limit: tuple[Any, int] | None = None) -> GraphLab:
    return lab_of(FIELDS, WindowNode(0, ("k",), BY_TIME, 1, functions, limit))


def nothing_is_held(lab: GraphLab) -> bool:
    return lab.result == Counter() and set(lab.records().values()) == {0}


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("type_", VALUES)
def test_windows_equal_sorted_partitions(type_: ColumnType, is_short: bool) -> None:
    fields: Fields = (("a", type_), ("s", "string"), ("i", "int64"), ("b", type_))
    few = {**VALUES, "int64": [None, 0, 1, 2, -5]}
    for number in range(12):
        rng = random.Random(f"{type_} {number}")
        names = count()
        with short_room() if is_short else nullcontext():
            lab = lab_of(fields, random_window(rng, 0, fields, lambda names=names: f"w{next(names)}"))
            compare_with_scratch(lab, rng, 15, values=few)
        assert nothing_is_held(lab)


@pytest.mark.parametrize("number", range(12))
def test_windows_over_few_rows_that_change_often(number: int) -> None:
    """Many equal rows, peers and short partitions, in which most rows depend on each other."""
    rng = random.Random(number)
    names = count()
    values = {"string": ["x", "y"], "int64": [0, 1, 2]}
    lab = lab_of(FIELDS, random_window(rng, 0, FIELDS, lambda: f"w{next(names)}"))
    compare_with_scratch(lab, rng, 40, values=values, size=10)
    assert nothing_is_held(lab)


@pytest.mark.parametrize("number", range(6))
def test_windows_over_many_rows(number: int) -> None:
    rng = random.Random(number)
    names = count()
    values = {"string": ["x", "y"], "int64": range(300)}
    with short_room():
        lab = lab_of(FIELDS, random_window(rng, 0, FIELDS, lambda: f"w{next(names)}"))
        compare_with_scratch(lab, rng, 8, values=values, size=200)
    assert nothing_is_held(lab)
