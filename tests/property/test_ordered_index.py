"""An ordered index and a sum table against dictionaries, after every batch."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from runtime.state import OrderedIndex, SumTable

Entry = tuple[int, int]


def exact(values: list[int]) -> np.ndarray:
    """int64 where they fit."""
    if all(-(2**62) < value < 2**62 for value in values):
        return np.array(values, np.int64)
    result = np.empty(len(values), object)
    result[:] = values
    return result


def check(index: OrderedIndex, held: dict[Entry, list[int]], rng: np.random.Generator) -> None:
    index._check()
    groups = sorted({group for group, _ in held}) or [5]
    keys = [key for _, key in held] or [0]
    asked = rng.choice(groups, 40)
    bounds = rng.choice(keys, 40) + rng.integers(-2, 3, 40)
    numbers = index.groups(asked[:, None].astype(np.int64))
    for inclusive in (False, True):
        found = index.below(numbers, bounds, inclusive=inclusive)
        for place, (group, bound) in enumerate(zip(asked.tolist(), bounds.tolist(), strict=True)):
            part = [v for (g, k), v in held.items() if g == group and (k < bound or (inclusive and k == bound))]
            assert [int(sums[place]) for sums in found] == [sum(v[i] for v in part) for i in range(2)]
        known = numbers >= 0
        found = index.above(numbers[known], bounds[known], inclusive=inclusive)
        pairs = zip(asked[known].tolist(), bounds[known].tolist(), strict=True)
        for place, (group, bound) in enumerate(pairs):
            part = [v for (g, k), v in held.items() if g == group and (k > bound or (inclusive and k == bound))]
            assert [int(sums[place]) for sums in found] == [sum(v[i] for v in part) for i in range(2)]
    totals = index.totals(numbers)
    for place, group in enumerate(asked.tolist()):
        part = [v for (g, _), v in held.items() if g == group]
        assert [int(sums[place]) for sums in totals] == [sum(v[i] for v in part) for i in range(2)]
    words, ordered, values = index.entries()
    listed = zip(index.group_words(words)[:, 0].tolist(), ordered.tolist(), strict=True)
    assert {pair: [int(v[i]) for v in values] for i, pair in enumerate(listed)} == held


@pytest.mark.parametrize(
    ("seed", "groups", "span", "size"),
    [(1, 1, 20, 8), (2, 4, 100, 50), (3, 50, 10**6, 300), (4, 3, 2**40, 40), (5, 3, 2**63 - 9, 30), (6, 3000, 99, 500)],
)
@pytest.mark.parametrize("largest", [100, 2**61, 2**70])
def test_an_ordered_index_is_a_dictionary(seed: int, groups: int, span: int, size: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    index, held = OrderedIndex(1, 2), dict[Entry, list[int]]()
    runs = []
    for step in range(25):
        deltas: dict[Entry, list[int]] = {}
        known = list(held)
        for _ in range(size):
            if known and rng.random() < 0.5:
                entry = known[int(rng.integers(len(known)))]
                deltas[entry] = [-v for v in held[entry]]
            else:
                entry = (int(rng.integers(groups)) * 7, int(rng.integers(-span, span)))
                deltas[entry] = [int(rng.integers(-9, 10)) * (largest // 10), int(rng.integers(-3, 4))]
        if step == 20:
            deltas = {entry: [-v for v in values] for entry, values in held.items()}
        if not deltas:
            continue
        words = np.array([[group] for group, _ in deltas], np.int64)
        keys = np.array([key for _, key in deltas], np.int64)
        index.add(words, keys, [exact([v[i] for v in deltas.values()]) for i in range(2)])
        for entry, values in deltas.items():
            held[entry] = [a + b for a, b in zip(held.get(entry, [0, 0]), values, strict=True)]
            if not any(held[entry]):
                del held[entry]
        if step % 3 == 0:
            assert index.dirty
            runs.append(index.save())
            index.on_saved()
        if step % 7 == 3:
            runs.append(index.save())
            index.on_saved()
            index = OrderedIndex(1, 2)
            for run in runs:
                index.apply_run(run)
            runs = [index.save_all()]
            assert not index.dirty
        check(index, held, rng)


def test_groups_that_are_gone_are_forgotten() -> None:
    index = OrderedIndex(1, 1)
    one = [np.ones(500, np.int64)]
    for start in range(0, 500_000, 500):
        words, keys = np.arange(start, start + 500)[:, None], np.arange(500) * 1_000_000
        index.add(words, keys, one)
        index.add(words, keys, [-one[0]])
        index.save()
        index.on_saved()
    assert len(index.all_groups()) < 5_000
    assert len(index) == 0
    index._check()


def test_edits_that_are_never_saved_are_bounded() -> None:
    index, other = OrderedIndex(0, 1), OrderedIndex(0, 1)
    none = np.zeros((10_000, 0), np.int64)
    for step in range(60):
        index.add(none, np.arange(10_000) * 999 + step % 3, [np.full(10_000, 1 + step % 2)])
    assert sum(len(edit[0]) for edit in index._edits) < 300_000
    other.add(none[:1], np.array([77]), [np.array([1])])
    other.apply_run(index.save())
    assert np.array_equal(other.entries()[1], index.entries()[1])
    assert np.array_equal(other.entries()[2][0], index.entries()[2][0])


@pytest.mark.parametrize("largest", [100, 2**61, 2**70])
def test_a_sum_table_is_a_dictionary(largest: int) -> None:
    rng = np.random.default_rng(9)
    table, held, runs = SumTable(2, 2), defaultdict[Entry, list[int]](lambda: [0, 0]), []
    for step in range(30):
        entries = list({(int(a), int(b)) for a, b in rng.integers(0, 12, (40, 2))})
        deltas = [[int(rng.integers(-9, 10)) * (largest // 10), int(rng.integers(-1, 2))] for _ in entries]
        deltas = [[-v for v in held[e]] if rng.random() < 0.4 else d for e, d in zip(entries, deltas, strict=True)]
        before, after, _ = table.add(np.array(entries), [exact([d[i] for d in deltas]) for i in range(2)])
        for place, (entry, delta) in enumerate(zip(entries, deltas, strict=True)):
            assert [int(b[place]) for b in before] == held[entry]
            held[entry] = [a + b for a, b in zip(held[entry], delta, strict=True)]
            assert [int(a[place]) for a in after] == held[entry]
        if step % 4 == 1:
            runs.append(table.save())
            table.on_saved()
            table = SumTable(2, 2)
            for run in runs:
                table.apply_run(run)
            runs = [table.save_all()]
        table._check()
        live = table.live_slots()
        values = table.values(live)
        found = {tuple(w): [int(v[i]) for v in values] for i, w in enumerate(table.words(live).tolist())}
        assert found == {entry: sums for entry, sums in held.items() if any(sums)}


@pytest.mark.parametrize("span", [99, 2**50])
def test_entries_that_repeat_count_together_also_where_signs_are_watched(span: int) -> None:
    rng = np.random.default_rng(span % 97)
    index = OrderedIndex(0, 2, watches_signs=True)
    keys = np.unique(rng.integers(-span, span, 9))
    held = np.zeros((2, len(keys)), np.int64)
    for step in range(40):
        wanted = np.stack([rng.integers(-5 * (step % 2), 5, len(keys)), rng.integers(0, 9, len(keys))])
        part = rng.integers(-3, 4, wanted.shape)
        values = np.concatenate([part, wanted - held - part], axis=1)
        index.add(np.zeros((2 * len(keys), 0), np.int64), np.tile(keys, 2), list(values), repeats=True)
        held = wanted
        _, ordered, found = index.entries()
        kept = held.any(axis=0)
        assert ordered.tolist() == keys[kept].tolist()
        assert [value.tolist() for value in found] == held[:, kept].tolist()
        assert index.has_negative([0]) == (held[0] < 0).any()


@pytest.mark.parametrize("largest", [100, 2**70])
def test_the_difference_makes_a_sum_table_what_is_asked_for(largest: int) -> None:
    rng = np.random.default_rng(largest % 97)
    table = SumTable(1, 2)
    for step in range(30):
        wanted = {int(key): [int(rng.integers(1, 9)) * (largest // 10), step] for key in rng.integers(0, 20, step % 6)}
        words = np.array(list(wanted), np.int64)[:, None].reshape(-1, 1)
        values = [exact([v[i] for v in wanted.values()]) for i in range(2)]
        table.add(*table.difference(words, values))
        table._check()
        live = table.live_slots()
        found = zip(*(v.tolist() for v in table.values(live)), strict=True)
        assert dict(zip(table.words(live)[:, 0].tolist(), map(list, found), strict=True)) == wanted


@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_of_deltas_changes_nothing_however_loose_it_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    span = (4096, 2**40)[seed % 2]  # dense, runs
    said, alone = OrderedIndex(1, 2), OrderedIndex(1, 2)
    for _ in range(12):
        size = int(rng.integers(1, 60))
        keys = rng.choice(np.arange(0, span, span // 512), size, replace=False)
        words = rng.integers(0, 3, size)[:, None]
        values = [rng.integers(-5, 6, size), rng.integers(-(2**40), 2**40, size)]
        alone.add(words, keys, values)
        said.add(words, keys, values, [2 ** int(rng.integers(40, 63))] * 2, (0, span - 1))
        said._check()
        *places, sums = said.entries()
        *other_places, other_sums = alone.entries()
        for found, expected in zip([*places, *sums], [*other_places, *other_sums], strict=True):
            assert found.tolist() == expected.tolist()
        groups = said.groups(np.arange(3)[:, None])
        others = alone.groups(np.arange(3)[:, None])
        for bounds in (np.zeros(3, np.int64), rng.integers(-1, span + 1, 3)):
            found_sums = said.below(groups, bounds, inclusive=True)
            for found, expected in zip(found_sums, alone.below(others, bounds, inclusive=True), strict=True):
                assert found.tolist() == expected.tolist()
        part = said.between(groups[groups >= 0], 3, span // 2)
        for found, expected in zip(part, alone.between(others[others >= 0], 3, span // 2), strict=True):
            assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("ends", [(-(2**63),), (2**63 - 1,), (-(2**63), -(2**63) + 9), (-(2**63), 2**63 - 1)])
def test_keys_may_stand_at_the_ends_of_int64(ends: tuple[int, ...]) -> None:
    index = OrderedIndex(0, 1)
    for key in ends:
        index.add(np.zeros((1, 0), np.int64), np.array([key], np.int64), [np.ones(1, np.int64)])
    for key in ends:
        for inclusive in (False, True):
            below = sum(other < key or (inclusive and other == key) for other in ends)
            asked = index.below(np.zeros(1, np.int64), np.array([key], np.int64), inclusive=inclusive)
            assert asked[0].tolist() == [below]
            assert index.prefix([0], inclusive=inclusive, is_above=False)(key) == [below]
            assert index.prefix([0], inclusive=inclusive, is_above=True)(key) == [len(ends) - below]
