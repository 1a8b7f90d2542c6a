"""An arrangement finds all rows of a key, however rows and keys came and went."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.state.columnar import arrangement
from runtime.state.columnar.arrangement import Arrangement, CountedTable, groups_of, ranges

ROWS = st.tuples(st.integers(-2, 3), st.integers(0, 6))
BATCHES = st.lists(st.dictionaries(ROWS, st.sampled_from([-1, 1, 2]), max_size=20), max_size=8)


@given(BATCHES, st.sampled_from([[(0, False)], [(0, False), (0, True)], []]), st.data())
@settings(max_examples=150, deadline=None)
def test_every_row_is_found_under_its_key(
    batches: list[dict[tuple[int, int], int]], key: list[tuple[int, bool]], data: st.DataObject
) -> None:
    check_batches(batches, key, data)


@given(BATCHES, st.sampled_from([[(0, False)], []]), st.data())
@settings(max_examples=100, deadline=None)
def test_it_is_where_extents_are_laid_out_anew_all_the_time(
    batches: list[dict[tuple[int, int], int]], key: list[tuple[int, bool]], data: st.DataObject
) -> None:
    with patch.object(arrangement, "_SMALLEST", 1), patch.object(arrangement, "_SLACK", 0):
        check_batches(batches, key, data)


def check_batches(batches: list[dict[tuple[int, int], int]], key: list[tuple[int, bool]], data: st.DataObject) -> None:
    """After each batch, on the same or a restored table, all rows of some keys are found."""
    held: Counter[tuple[int, ...]] = Counter()
    table = Arrangement(2, key)
    for batch in batches:
        rows = np.array(list(batch), np.int64).reshape(-1, 2)
        table.change(rows, np.array(list(batch.values()), np.int64))
        for row, weight in batch.items():
            held[row] += weight
        if data.draw(st.booleans()):
            restored = Arrangement(2, key)
            restored.apply_run(table.save_all())
            table = restored
        table._check()
        wanted = np.array([[n, 0] for n in (3, -2, 3, 9)], np.int64)
        numbers, slots = table.probe(table.key_words(wanted))
        found = sorted(zip(numbers.tolist(), map(tuple, table.keys_of(slots).tolist()), strict=True))
        present = [row for row, weight in held.items() if weight]
        assert found == sorted((n, row) for n in range(4) for row in present if not key or row[0] == wanted[n, 0])
        assert table.weights(slots).tolist() == [held[tuple(row)] for row in table.keys_of(slots).tolist()]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1)), max_size=30), st.integers(0, 2))
def test_equal_rows_make_a_group(rows: list[tuple[int, int]], width: int) -> None:
    words = np.array(rows, np.int64).reshape(-1, 2)[:, :width]
    order, first = groups_of(words)
    assert sorted(order.tolist()) == list(range(len(rows)))
    groups = [{tuple(words[place]) for place in part} for part in np.split(order, first[1:])] if rows else []
    assert all(len(group) == 1 for group in groups)
    assert len(set.union(set(), *groups)) == len(groups)


def test_rows_with_one_hash_are_told_apart() -> None:
    multiplier = 0x9E3779B97F4A7C15
    mixed = [(n * multiplier) & (2**64 - 1) for n in (1, 2)]
    mixed = [m ^ (m >> 32) for m in mixed]
    # The second words undo what the first ones made, so that all rows have the hash 0.
    rows = [[n + 1, m - 2**64 if m >= 2**63 else m] for n, m in enumerate(mixed)]
    words = np.array([rows[0], rows[1], rows[0]], np.int64)
    order, first = groups_of(words)
    assert first.tolist() == [0, 2] or first.tolist() == [0, 1]
    assert {tuple(sorted(part.tolist())) for part in np.split(order, first[1:])} == {(0, 2), (1,)}


def test_ranges_follow_one_another() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []


def test_a_key_whose_values_are_all_zero_goes() -> None:
    table = CountedTable(1, ["a", "b"])
    keys = np.array([[1], [2]])
    table.add(keys, np.array([[1, 2], [0, 5]]))
    _, old, new = table.add(keys, np.array([[-1, 0], [0, 0]]))
    assert (old.tolist(), new.tolist()) == ([[1, 2], [0, 5]], [[0, 2], [0, 5]])
    assert len(table) == 1
    slots, old = table.enter(np.array([[1]]))
    assert old.tolist() == [[0], [0]]
    table.write(np.array([[1]]), slots, old)
    assert len(table) == 1
