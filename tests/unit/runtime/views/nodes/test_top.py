"""A window of sorted rows follows rows that come and go, as if all rows were sorted at each step."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest

from runtime.native.cache import KernelCache
from runtime.native.library import window
from runtime.plan import ColumnType, ScanNode, TopNode
from tests.generators.flow_graphs import VALUES, GraphLab
from tests.generators.flow_streams import compare_with_scratch, short_room
from tests.generators.flows import Fields, Row

WINDOWS = [(1, 0), (3, 0), (3, 2), (0, 1), (None, 3), (10, 7), (1, 40)]
FIELDS: Fields = (("a", "int64"), ("s", "string"))


def lab_of(fields: Fields, node: TopNode, **options: Any) -> GraphLab:
    return GraphLab([fields], [ScanNode(0), node], **options)


def order_of(rng: random.Random, fields: Fields) -> tuple[tuple[str, bool, bool], ...]:
    """Some columns, each ascending or descending, NULLs first or last."""
    names = rng.sample([name for name, _ in fields], rng.randint(1, len(fields)))
    return tuple((name, rng.random() < 0.5, rng.random() < 0.5) for name in names)


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("type_", VALUES)
def test_windows_equal_sorted_rows(type_: ColumnType, is_short: bool) -> None:
    fields: Fields = (("a", type_), ("s", "string"), ("b", type_))
    for limit, offset in WINDOWS:
        rng = random.Random(f"{type_} {limit} {offset}")
        with short_room() if is_short else nullcontext():
            lab = lab_of(fields, TopNode(0, order_of(rng, fields), limit, offset))
            compare_with_scratch(lab, rng, 25)
        assert lab.result == Counter()
        assert set(lab.records().values()) == {0}


@pytest.mark.parametrize(("limit", "offset"), WINDOWS)
def test_many_rows_pass_the_ends_of_a_window(limit: int | None, offset: int) -> None:
    rng = random.Random(f"{limit} {offset}")
    lab = lab_of(FIELDS, TopNode(0, (("a", True, False),), limit, offset))
    compare_with_scratch(lab, rng, 12, values={"int64": range(400), "string": ["x", "y"]}, size=300)


def test_a_row_may_be_partly_in_the_window() -> None:
    lab = lab_of(FIELDS, TopNode(0, (("a", False, False),), 4, 3))
    lab.step({0: [((1, "x"), 5), ((2, "x"), 10)]})
    assert lab.result == Counter({(1, "x"): 2, (2, "x"): 2})
    lab.step({0: [((0, "x"), 20)]})
    assert lab.result == Counter({(0, "x"): 4})
    lab.step({0: [((0, "x"), -19)]})
    assert lab.result == Counter({(1, "x"): 3, (2, "x"): 1})
    lab.step({0: [((1, "x"), -5)]})
    assert lab.result == Counter({(2, "x"): 4})
    lab.step({0: [((2, "x"), -7)]})
    assert lab.result == Counter({(2, "x"): 1})
    lab.check()


def test_ties_are_broken_by_all_columns() -> None:
    lab = lab_of(FIELDS, TopNode(0, (("a", True, True),), 2, 1))
    lab.step({0: [((None, "z"), 1), ((5, None), 1), ((5, "b"), 1), ((5, "a"), 1)]})
    assert lab.result == Counter({(5, "a"): 1, (5, "b"): 1})
    lab.step({0: [((None, None), 1), ((None, "é"), 1)]})
    assert lab.result == Counter({(None, "é"): 1, (None, None): 1})


def test_rows_far_from_the_window_emit_nothing() -> None:
    lab = lab_of(FIELDS, TopNode(0, (("a", True, False),), 2))
    lab.step({0: [((number, "x"), 1) for number in range(100)]})
    batch, out = lab.graph.relations["r0"], lab.graph.outputs["v"].batches[0]
    for row, weight in (((50, "x"), -1), ((7, "y"), 3), ((98, "x"), 1), ((98, "x"), -1), ((3, "x"), -1)):
        batch.append(row, weight, lab.strings)
    lab.strings.refresh()
    assert lab.graph.run() == {}
    assert out.rows == 0


def test_a_step_touches_only_rows_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a step does not grow with the rows of the window or behind it."""
    lab = lab_of(FIELDS, TopNode(0, (("a", False, False),), 500, 300))
    lab.step({0: [((2 * number, "x"), 1) for number in range(2000)]})
    moved: list[int] = []
    move_rows = window.move_rows

    def counted(table: Any, slot: int, part: int, by: int) -> None:
        moved.append(slot)
        move_rows(table, slot, part, by)

    monkeypatch.setattr(window, "move_rows", counted)
    lab.step({0: [((1, "x"), 1), ((901, "x"), -1), ((901, "x"), 1), ((3999, "y"), 1)]})
    lab.step({0: [((1, "x"), -1), ((602, "x"), -1)]})
    assert 8 <= len(moved) <= 16
    lab.check()


def test_strings_keep_their_order_when_ranks_are_replaced() -> None:
    lab = lab_of((("s", "string"),), TopNode(0, (("s", True, False),), 3, 1))
    texts = []
    for number in range(80):
        texts.append("a" * number + "b")
        lab.step({0: [((texts[-1],), 1)]})
        lab.check()
        assert lab.result == Counter(Row((text,)) for text in sorted(texts, reverse=True)[1:4])
    assert lab.strings.ranks().views[1][0] > 1


def test_a_whole_window_keeps_no_rows() -> None:
    lab = lab_of(FIELDS, TopNode(0, (("a", False, False),), None, 0))
    lab.step({0: [((1, "x"), 2), ((2, "x"), 1)]})
    lab.step({0: [((1, "x"), -1)]})
    assert lab.result == Counter({(1, "x"): 1, (2, "x"): 1})
    assert lab.records() == {}


@pytest.mark.slow
def test_compiled_windows_equal_sorted_rows(tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    fields: Fields = (("a", "int64"), ("s", "string"), ("f", "float64"), ("i", "int128"))
    order = (("f", True, False), ("s", False, True), ("i", True, True))
    for limit, offset in WINDOWS:
        rng = random.Random(f"{limit} {offset}")
        lab = lab_of(fields, TopNode(0, order, limit, offset), kernels=kernels)
        compare_with_scratch(lab, rng, 40, size=60)
    kernels.close()
