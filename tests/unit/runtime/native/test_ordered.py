"""An ordered index makes room in either layout and keeps sums exact up to their limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from runtime.native.library import btree, entries, ordered
from runtime.native.ordered import OrderedIndex
from tests.generators.ordered_index_rig import (
    BELOW,
    HAS_NEGATIVE,
    SCAN,
    TOTAL,
    UP_TO,
    IndexModel,
    IndexRig,
    Row,
    values_of,
)

BOTH = pytest.mark.parametrize("dense_cells", [1 << 16, 0], ids=["dense", "tree"])
A, B = (1,), (2,)


def number_of(rig: IndexRig, group: tuple[int, ...]) -> int:
    """The number of a group."""
    slots = rig.index.groups.slots()
    records = rig.index.groups.records()[slots, : len(group)].tolist()
    return int(slots[records.index(list(group))])


def compare(rig: IndexRig, model: IndexModel, keys: list[int]) -> None:
    """Assert that the index answers as the model does."""
    assert rig.entries() == model.entries
    groups = sorted({group for group, _ in model.entries}) or [A]
    asked = [
        (number, group, key, (0,) * (1 + model.sums))
        for group in groups
        for key in keys
        for number in (BELOW, UP_TO, TOTAL, SCAN, HAS_NEGATIVE)
    ]
    assert rig.run(asked).tolist() == model.expected(asked)


def of(groups: int, keys: list[int], weight: int = 1) -> list[Row]:
    """A row with a sum for every group and key."""
    return [((group,), key, (weight, weight * (key % 1000 + 1))) for group in range(groups) for key in keys]


def is_tree(rig: IndexRig) -> bool:
    return rig.index.is_tree


def filled(rows: Sequence[Row], dense_cells: int = 1 << 16) -> tuple[IndexRig, IndexModel]:
    """An index and a model with rows of one sum."""
    rig, model = IndexRig(OrderedIndex(1, 1, dense_cells=dense_cells)), IndexModel(1)
    rig.add(rows)
    model.add(rows)
    return rig, model


@BOTH
def test_entries_of_all_groups_are_summed(dense_cells: int) -> None:
    rig, model = filled(of(3, [5, 90, 7, 200, 6]), dense_cells)
    assert is_tree(rig) == (dense_cells == 0)
    compare(rig, model, [-(2**63), 4, 5, 6, 8, 200, 201, 2**63 - 1])


@BOTH
@pytest.mark.parametrize("sums", [0, 3])
def test_entries_have_any_number_of_sums(dense_cells: int, sums: int) -> None:
    rig, model = IndexRig(OrderedIndex(1, sums, dense_cells=dense_cells)), IndexModel(sums)
    rows: list[Row] = [(A, key, (1, *[key + number for number in range(sums)])) for key in range(0, 300, 2)]
    rig.add(rows)
    model.add(rows)
    compare(rig, model, [-1, 0, 100, 101, 299, 300])


@BOTH
def test_an_index_without_group_words_has_one_group(dense_cells: int) -> None:
    rig, model = IndexRig(OrderedIndex(0, 1, dense_cells=dense_cells)), IndexModel(1)
    for weight in (1, -1, 1):
        rows: list[Row] = [((), key, (weight, key)) for key in range(40)]
        rig.add(rows)
        model.add(rows)
        compare_keys = [0, 17, 40]
        assert rig.entries() == model.entries
        asked = [(BELOW, (), key, (0, 0)) for key in compare_keys]
        assert rig.run(asked).tolist() == model.expected(asked)


@BOTH
def test_a_group_without_entries_is_gone(dense_cells: int) -> None:
    """Its number is given to another group."""
    rig, _ = filled(of(2, [5, 9]), dense_cells)
    first = number_of(rig, (0,))
    rig.add([((0,), 5, (-1, -6)), ((0,), 9, (-1, -10))])
    assert rig.group_count() == 1
    rig.add([((7,), 1, (1, 1))])
    assert number_of(rig, (7,)) == first
    assert rig.entries() == {((1,), 5): [1, 6], ((1,), 9): [1, 10], ((7,), 1): [1, 1]}


@BOTH
def test_entries_that_cancel_leave_no_group(dense_cells: int) -> None:
    rig, _ = filled([(A, 5, (1, 3)), (A, 5, (-1, -3)), (B, 5, (0, 0))], dense_cells)
    assert rig.group_count() == 0


@BOTH
def test_opposite_entries_keep_their_group(dense_cells: int) -> None:
    """Their sum is 0, they are not."""
    rig, _ = filled([(A, 5, (1, 3)), (A, 6, (-1, -3))], dense_cells)
    assert rig.entries() == {(A, 5): [1, 3], (A, 6): [-1, -3]}


@BOTH
def test_negative_entries_are_counted(dense_cells: int) -> None:
    rig, model = filled([(A, 5, (1, -1)), (A, 6, (1, 1)), (B, 5, (-1, 4))], dense_cells)
    for rows in ([(A, 5, (0, 2))], [(B, 5, (2, 0))], [(A, 6, (0, -2))], [(A, 6, (-1, 1))]):
        compare(rig, model, [5])
        rig.add(rows)
        model.add(rows)
    compare(rig, model, [5])
    assert not rig.run([(HAS_NEGATIVE, A, 0, (0, 0))])[0, 0]


def test_a_window_follows_its_keys() -> None:
    rig, model = filled(of(2, [1000]))
    for keys in ([1100], [900], [5000], [-3000]):
        rig.add(of(2, keys))
        model.add(of(2, keys))
        compare(rig, model, [-3000, 900, 1000, 1099, 5000])
    assert not is_tree(rig)
    assert rig.stops < 20


@pytest.mark.parametrize("key", [-(2**63), 2**63 - 1])
def test_windows_end_at_the_ends_of_int64(key: int) -> None:
    rig, model = filled([(A, key, (1, 1))])
    compare(rig, model, [key, 0, -(2**63), 2**63 - 1])
    assert not is_tree(rig)
    rig.add([(A, -1 - key, (1, 1))])
    model.add([(A, -1 - key, (1, 1))])
    assert is_tree(rig)
    compare(rig, model, [key, 0, -1 - key])


def test_a_sparse_window_becomes_trees() -> None:
    """Groups keep their numbers: the batch goes on with those that it has."""
    rig, model = filled(of(20, list(range(30))))
    numbers = [number_of(rig, (group,)) for group in range(20)]
    rows = of(20, [10**9, 17, 10**12])
    rig.add(rows)
    model.add(rows)
    assert is_tree(rig)
    assert [number_of(rig, (group,)) for group in range(20)] == numbers
    compare(rig, model, [0, 17, 18, 10**9, 10**12])


def test_many_groups_become_trees() -> None:
    rows: list[Row] = [((group,), group % 3 * 1000, (1, group)) for group in range(200)]
    rig, model = filled(rows)
    assert is_tree(rig)
    compare(rig, model, [0, 1000, 2001])


def test_groups_emptied_before_a_change_of_layout_are_gone() -> None:
    rig, _ = filled([(A, 5, (1, 1))])
    rig.add([(A, 5, (-1, -1)), (B, 5, (1, 1)), (B, 2**60, (1, 1))])
    assert is_tree(rig)
    assert rig.group_count() == 1


def test_small_groups_have_small_leaves() -> None:
    rig, _ = filled([((group,), group, (1, 1)) for group in range(2000)], dense_cells=0)
    assert rig.index.nbytes() < 2000 * 500


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_trees_grow_and_shrink(order: str) -> None:
    keys = list(range(0, 30_000, 7))
    if order == "descending":
        keys.reverse()
    elif order == "shuffled":
        np.random.default_rng(1).shuffle(keys)
    rig, model = filled(of(1, keys), dense_cells=0)
    assert rig.index.array(entries.ROWS)[entries.DEPTH] == 3
    compare(rig, model, [-1, 0, 7, 13_000, 29_999, 30_001])
    for part in (keys[::2], keys[1::4], keys[3::4][:-2]):
        rig.add(of(1, part, -1))
        model.add(of(1, part, -1))
        compare(rig, model, [-1, 0, 7, 13_000, 29_999, 30_001])
    assert len(model.entries) == 2
    assert rig.index.array(entries.ROWS)[entries.DEPTH] == 1


def test_leaves_filled_in_order_are_full() -> None:
    rig, _ = filled(of(1, list(range(64 * 64))), dense_cells=0)
    node_words = rig.index._node_words(btree.LEAF)
    assert rig.index.views[entries.META][entries.NEXT] < 70 * node_words


def test_words_of_trees_are_used_again() -> None:
    """A window of times: what is removed makes room for what is added."""
    rig, _ = filled(of(2, list(range(600))), dense_cells=0)
    for _ in range(3):
        used = rig.index.views[entries.META][entries.NEXT]
        for first in range(0, 3000, 300):
            rows = [row for key in range(first, first + 300) for row in (*of(2, [key + 600]), *of(2, [key], -1))]
            rig.add(rows)
        rig.add([*of(2, list(range(3000, 3600)), -1), *of(2, list(range(600)))])
    assert rig.index.views[entries.META][entries.NEXT] == used


@BOTH
@pytest.mark.parametrize("sums", [0, 1, 3])
def test_a_dump_is_loaded_into_an_equal_index(dense_cells: int, sums: int) -> None:
    rng = np.random.default_rng(sums)
    for count in (0, 1, 5, 70, 5000):
        rows = [
            ((int(rng.integers(3)), int(rng.integers(2))), int(key), (1, *rng.integers(-(2**62), 2**62, sums).tolist()))
            for key in rng.integers(-1500, 1500, count)
        ]
        model, index = IndexModel(sums), OrderedIndex(2, sums, dense_cells=dense_cells)
        model.add(rows)
        rig = IndexRig(OrderedIndex(2, sums, dense_cells=dense_cells))
        rig.add(rows)
        dump = rig.index.dump()
        index.load(rng.permutation(dump))
        index._check()
        assert IndexRig(index).entries() == rig.entries() == model.entries
        assert index.is_tree == (dense_cells == 0)


def test_loading_goes_back_to_the_dense_layout() -> None:
    rig, _ = filled([(A, 5, (1, 1)), (A, 2**60, (1, 1))])
    assert is_tree(rig)
    rig.add([(A, 2**60, (-1, -1))])
    rig.index.load(rig.index.dump())
    assert not is_tree(rig)
    assert rig.entries() == {(A, 5): [1, 1]}


@BOTH
def test_sums_are_exact_up_to_their_limits(dense_cells: int) -> None:
    top = 2**126 - 1
    rig, model = filled([(A, 5, (1, top - 7)), (A, 6, (1, -(2**126))), (A, 7, (-1, 7))], dense_cells)
    compare(rig, model, [5, 6, 7, 8])
    assert not rig.is_bad
    rig.add([(A, 5, (1, 7))])
    model.add([(A, 5, (1, 7))])
    compare(rig, model, [5, 6, 7, 8])
    assert not rig.is_bad
    rig.add([(A, 5, (1, 1))])
    assert rig.is_bad


@BOTH
def test_a_sum_outside_the_limits_is_noted(dense_cells: int) -> None:
    """The entries themselves are inside."""
    rig, _ = filled([(A, 5, (1, 2**125)), (A, 6, (1, 2**125))], dense_cells)
    assert rig.is_bad


@BOTH
def test_a_prefix_outside_the_limits_is_noted(dense_cells: int) -> None:
    """The sum of the group, and of every kept part, is inside."""
    large = 2**125
    rig, _ = filled([(A, 1, (1, large)), (A, 3, (1, -large)), (A, 2, (1, large)), (A, 4, (1, -large))], dense_cells)
    if not rig.is_bad:
        rig.run([(BELOW, A, 3, (0, 0))])
    assert rig.is_bad
    rig, model = filled([(A, 1, (1, large)), (A, 2, (1, -large)), (A, 3, (1, large - 1))], dense_cells)
    compare(rig, model, [1, 2, 3, 4])
    assert not rig.is_bad


@BOTH
def test_a_weight_outside_the_limits_is_noted(dense_cells: int) -> None:
    rig, _ = filled([(A, 5, (2**62 - 1, 0))], dense_cells)
    assert not rig.is_bad
    rig.add([(A, 5, (1, 0))])
    assert rig.is_bad


@BOTH
@pytest.mark.parametrize("value", [1, 2**63, 2**95, 2**97, 2**120])
def test_batches_of_more_rows_than_keys(dense_cells: int, value: int) -> None:
    """What is left to the end of such a batch is made anew: sums of blocks, limits, negative entries."""
    rows = [(A, number % 64, (1 - number % 3, value * (number % 5 - 2))) for number in range(300)]
    rig, model = filled([(A, 0, (1, 1)), (A, 63, (1, 1))], dense_cells)
    for batch in (rows, [(group, key, (-weight, -sum_)) for group, key, (weight, sum_) in rows], rows[:1]):
        rig.add(batch)
        model.add(batch)
        compare(rig, model, [-1, 0, 5, 31, 32, 63, 64])
    assert not rig.is_bad
    rig.add([(A, 5, (1, 2**125)), (A, 5, (1, 2**125)), *(rows * 2)[:200]])
    assert rig.is_bad


@BOTH
def test_loading_looks_at_limits_again(dense_cells: int) -> None:
    rig, _ = filled([(A, 5, (1, 2**125)), (A, 6, (1, 2**125))], dense_cells)
    rig.index.load(rig.index.dump())
    assert rig.is_bad
    rig.index.load(rig.index.dump()[:1])
    assert not rig.is_bad


def test_values_of_words_are_exact() -> None:
    index = OrderedIndex(1, 1)
    index.load(np.array([[1, 5, 1, -1, -1]], np.int64))
    assert values_of(index.dump()[0, 2:].tolist()) == [1, -1]


def test_small_batches_keep_all_sums_current() -> None:
    rig, model = filled(of(4, list(range(300))))
    for key in (3, 299, 64, 63):
        rig.add(of(4, [key], -1)[:1])
        model.add(of(4, [key], -1)[:1])
        compare(rig, model, [0, 63, 64, 65, 128, 300])


def test_a_squeezed_leaf_gets_no_new_root() -> None:
    """A root with one child would stay for as long as the leaf is not split."""
    index = OrderedIndex(0, 0, dense_cells=0)
    values = index.views[entries.VALUES]
    for key, weight in [*((key, 1) for key in range(64)), (5, -1), (100, 1)]:
        values[0] = weight
        while ordered.add(index.views, 0, key, 0) < 0:
            index.make_room()
    ordered.finish(index.views)
    index._check()
    assert len(index.dump()) == 64
