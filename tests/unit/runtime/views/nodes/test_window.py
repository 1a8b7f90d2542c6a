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


def drawn(rng: random.Random, fields: Fields) -> WindowNode:
    names = count()
    return random_window(rng, 0, fields, lambda: f"w{next(names)}")


def nothing_is_held(lab: GraphLab) -> bool:
    return lab.result == Counter() and set(lab.records().values()) == {0}


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("type_", VALUES)
def test_windows_equal_sorted_partitions(type_: ColumnType, is_short: bool) -> None:
    fields: Fields = (("a", type_), ("s", "string"), ("i", "int64"), ("b", type_))
    few = {**VALUES, "int64": [None, 0, 1, 2, -5]}
    for number in range(12):
        rng = random.Random(f"{type_} {number}")
        with short_room() if is_short else nullcontext():
            lab = lab_of(fields, drawn(rng, fields))
            compare_with_scratch(lab, rng, 15, values=few)
        assert nothing_is_held(lab)


@pytest.mark.parametrize("number", range(12))
def test_windows_over_few_rows_that_change_often(number: int) -> None:
    """Many equal rows, peers and short partitions, in which most rows depend on each other."""
    rng = random.Random(number)
    values = {"string": ["x", "y"], "int64": [0, 1, 2]}
    lab = lab_of(FIELDS, drawn(rng, FIELDS))
    compare_with_scratch(lab, rng, 40, values=values, size=10)
    assert nothing_is_held(lab)


@pytest.mark.parametrize("number", range(6))
def test_windows_over_many_rows(number: int) -> None:
    rng = random.Random(number)
    values = {"string": ["x", "y"], "int64": range(300)}
    with short_room():
        lab = lab_of(FIELDS, drawn(rng, FIELDS))
        compare_with_scratch(lab, rng, 8, values=values, size=200)
    assert nothing_is_held(lab)


def test_a_step_evaluates_only_rows_that_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a step does not grow with the rows behind a limit, nor LAG's with the rows of the partition."""
    evaluated: list[int] = []
    replace = partitions.replace

    def counted(table: Any, slot: int, shown: int) -> int:
        evaluated.append(slot)
        return replace(table, slot, shown)

    monkeypatch.setattr(partitions, "replace", counted)
    for lab in (window(limit=("row_number", 5)), window(WindowFunction("x1", "lag", "x", "int64", 1))):
        lab.step({0: [(("a", number, 0), 1) for number in range(0, 2000, 2)]})
        evaluated.clear()
        lab.step({0: [(("a", 1, 0), 1), (("a", 901, 0), 1), (("a", 1500, 0), -1)]})
        lab.step({0: [(("a", 0, 0), -1), (("a", 902, 0), -1)]})
        assert 3 <= len(evaluated) <= 20
        lab.check()


def test_equal_rows_have_results_of_their_own() -> None:
    lab = window(WindowFunction("n", "row_number", None, "int64"), WindowFunction("p", "lag", "x", "int64", 2))
    lab.step({0: [(("a", 1, 7), 3), (("a", 2, 8), 1)]})
    assert lab.result == Counter([("a", 1, 7, 1, None), ("a", 1, 7, 2, None), ("a", 1, 7, 3, 7), ("a", 2, 8, 4, 7)])
    lab.step({0: [(("a", 1, 7), -2)]})
    assert lab.result == Counter([("a", 1, 7, 1, None), ("a", 2, 8, 2, None)])


def test_equal_rows_beyond_a_limit_have_no_records() -> None:
    lab = window(limit=("row_number", 2))
    lab.step({0: [(("a", 1, 7), 10**15)]})
    assert lab.result == Counter({("a", 1, 7): 2})
    assert set(lab.records().values()) == {2}
    lab.step({0: [(("a", 1, 7), 1 - 10**15)]})
    assert lab.result == Counter({("a", 1, 7): 1})


def test_a_sum_past_126_bits_fails() -> None:
    fields: Fields = (("k", "string"), ("t", "int64"), ("x", "int128"))
    node = WindowNode(0, ("k",), BY_TIME, 1, (WindowFunction("s", "sum", "x", "int128", frame=(None, 0)),))
    lab = lab_of(fields, node)
    lab.step({0: [(("a", 1, 2**126 - 1), 1)]})
    batch = lab.graph.relations["r0"]
    batch.append(("a", 2, 2**126 - 1), 1, lab.strings)
    (error,) = lab.graph.run().values()
    assert "126 bits" in str(error)


@pytest.mark.slow
def test_compiled_windows_equal_sorted_partitions(tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    fields: Fields = (("a", "int64"), ("s", "string"), ("f", "float64"), ("i", "int128"))
    for number in range(10):
        rng = random.Random(number)
        lab = lab_of(fields, drawn(rng, fields), kernels=kernels)
        compare_with_scratch(lab, rng, 30, size=60)
        assert nothing_is_held(lab)
    kernels.close()
