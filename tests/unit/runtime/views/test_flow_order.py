"""Order words sort as SQL does, strings keep their order as more of them come, and runs find the extremes of groups."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compiler.program import ColumnType
from runtime.state import ARROW_TYPES, StringPool
from runtime.views.evaluate import wide_array
from runtime.views.flow import order, runs
from runtime.views.flow.batch import Vector
from runtime.views.flow.order import StringOrder, not_after, order_words, sort_order
from runtime.views.flow.runs import SortedRuns


@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        ("int64", [-(2**63), -1, 0, 1, 2**63 - 1, None]),
        ("int128", [-(2**100), -(2**64), -1, 0, 1, 2**63, 2**64, 2**100, None]),
        ("float64", [-float("inf"), -2.5, -1e-300, 0.0, 1e-300, 7.0, float("inf"), float("nan"), None]),
        ("string", ["", "Z", "a", "aa", "é", "￿", "\U00010348", None]),
        ("bool", [False, True, None]),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_order_words_are_ordered_as_the_values(
    type_: ColumnType, ascending: list[Any], descending: bool, nulls_first: bool
) -> None:
    expected = ascending[:-1][::-1] if descending else ascending[:-1]
    expected = [None, *expected] if nulls_first else [*expected, None]
    shuffled = expected[1::2] + expected[::2][::-1]
    pool = StringPool()
    array = wide_array(shuffled) if type_ == "int128" else pa.array(shuffled, ARROW_TYPES[type_])
    vector = Vector(type_, pool, array)
    words = order_words(
        type_, vector.nulls, vector.words, StringOrder(pool), descending=descending, nulls_first=nulls_first
    )
    found = [shuffled[place] for place in sort_order(words)]
    assert str(found) == str(expected)
    bound = [int(word[shuffled.index(expected[2])]) for word in words]
    assert sorted(str(shuffled[n]) for n in np.flatnonzero(not_after(words, bound))) == sorted(map(str, expected[:3]))


@given(st.lists(st.lists(st.text("ab￿\U00010348", max_size=6), max_size=8), max_size=6), st.sampled_from([2, 2**32]))
def test_labels_keep_the_order_of_strings(batches: list[list[str]], step: int) -> None:
    pool = StringPool()
    strings = StringOrder(pool)
    with patch.object(order, "_STEP", step):
        for batch in batches:
            strings.labels(pool.encode(pa.array([*batch, None], pa.string())))
    known = sorted({text for batch in batches for text in batch}, key=str.encode)
    labels = strings.labels(pool.encode(pa.array(known, pa.string()))).tolist()
    assert labels == sorted(set(labels))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2), min_size=3, max_size=3), max_size=40))
def test_rows_are_sorted_by_one_column_after_the_other(rows: list[list[int]]) -> None:
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    assert [rows[place] for place in sort_order(columns)] == sorted(rows)


ENTRIES = st.dictionaries(st.integers(0, 40), st.tuples(st.integers(0, 3), st.integers(-3, 3)), max_size=12)


@given(st.lists(st.tuples(ENTRIES, st.sets(st.integers(0, 40))), max_size=12), st.sampled_from([0, 1024]))
@settings(max_examples=200, deadline=None)
def test_runs_find_the_first_and_the_last_of_each_group(
    batches: list[tuple[dict[int, tuple[int, int]], set[int]]], slack: int
) -> None:
    entries = SortedRuns(1)
    held: dict[int, tuple[int, int]] = {}
    with patch.object(runs, "_SLACK", slack):
        for come, gone in batches:
            leaving = sorted(gone & held.keys())
            entries.discard(np.array(leaving, np.int64))
            for slot in leaving:
                del held[slot]
            fresh = {slot: entry for slot, entry in come.items() if slot not in held}
            held |= fresh
            columns = np.array([(slot, *entry) for slot, entry in fresh.items()], np.int64).reshape(-1, 3).T
            entries.add(columns[0], columns[1], [columns[2]])
            entries._check()
            groups = [3, 0, 2, 1]
            for last, found in ((False, entries.first(np.array(groups))), (True, entries.last(np.array(groups)))):
                for group, slot in zip(groups, found.tolist(), strict=True):
                    values = [value for number, value in held.values() if number == group]
                    assert (slot < 0) == (not values)
                    if values:
                        assert held[slot] == (group, (max if last else min)(values))
