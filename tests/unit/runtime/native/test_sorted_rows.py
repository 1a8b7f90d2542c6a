"""Sorted rows keep the order of a sorted list, in both tiers, and give their nodes back."""

from __future__ import annotations

import random

import numpy as np
import pytest

from runtime.native.cache import KernelCache
from runtime.native.indexes import SortedRows
from runtime.native.library import sorted_rows as kernel
from tests.generators.sorted_rows_rig import Change, SortedRowsRig, small_nodes

LEAST, GREATEST = -(2**63), 2**63 - 1


def drawn(rng: random.Random, rig: SortedRowsRig, count: int, span: int, growth: float) -> list[Change]:
    """Changes of which a part inserts; words below ``span``, so that a small span makes many equal ones."""
    changes: list[Change] = []
    held = [record[-1] for record in rig.model]
    free = list(set(range(2 * (len(held) + count))) - set(held))
    for _ in range(count):
        if held and rng.random() >= growth:
            changes.append((held.pop(rng.choice([0, -1, rng.randrange(len(held))])), None))
            free.append(changes[-1][0])
        else:
            slot = free.pop(rng.randrange(len(free)))
            extreme = rng.random() < 0.02
            words = [rng.choice([LEAST, GREATEST]) if extreme else rng.randrange(span) for _ in range(rig.rows.words)]
            changes.append((slot, tuple(words)))
            held.append(slot)
    return changes


@pytest.mark.parametrize("words", [1, 2, 3, 5])
@pytest.mark.parametrize("span", [2, 20, 10**12])
def test_rows_stand_as_in_a_sorted_list(words: int, span: int) -> None:
    rng = random.Random(words * span)
    with small_nodes():
        rig = SortedRowsRig(words)
        for growth in (0.9, 0.5, 0.1, 0.7, 0.3):
            rig.apply(drawn(rng, rig, 120, span, growth))
            rig.check()


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_whole_nodes_split_and_merge(is_compiled: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels")) if is_compiled else None
    scale = 20 if is_compiled else 1
    for words, span in ((2, 10**9), (3, 5), (1, 2000)):
        rng = random.Random(span)
        rig = SortedRowsRig(words, kernels)
        for growth in (1.0, 0.5, 0.05, 0.8):
            rig.apply(drawn(rng, rig, 300 * scale, span, growth))
            rig.check()
    if kernels is not None:
        kernels.close()


@pytest.mark.parametrize("step", [1, -1])
def test_ascending_rows_fill_their_leaves(step: int) -> None:
    rig = SortedRowsRig(1)
    rig.apply([(slot, (step * slot,)) for slot in range(1000)])
    rig.check()
    leaves = len(rig.rows.array(kernel.LEAVES)) // kernel.LEAF - rig.rows.views[kernel.META][kernel.SPARE]
    assert leaves <= (17 if step > 0 else 32)


def test_emptied_rows_free_their_nodes() -> None:
    rng = random.Random(1)
    with small_nodes():
        rig = SortedRowsRig(2)
        rig.apply([(slot, (slot % 7, slot)) for slot in range(200)])
        slots = list(range(200))
        rng.shuffle(slots)
        rig.apply([(slot, None) for slot in slots])
        rig.check()
        meta = rig.rows.views[kernel.META]
        assert meta[kernel.HEIGHT] == 0
        assert meta[kernel.SPARE] == len(rig.rows.array(kernel.LEAVES)) // kernel.LEAF - 1
        assert meta[kernel.SPARE + 1] == len(rig.rows.array(kernel.INNERS)) // kernel.INNER


def test_sparse_leaves_are_merged() -> None:
    """Where most rows of every leaf go, so do most leaves."""
    rig = SortedRowsRig(1)
    rig.apply([(slot, (slot,)) for slot in range(4000)])
    rig.apply([(slot, None) for slot in range(4000) if slot % 40])
    rig.check()
    leaves = len(rig.rows.array(kernel.LEAVES)) // kernel.LEAF - rig.rows.views[kernel.META][kernel.SPARE]
    assert len(rig.rows) == 100
    assert leaves < 8


@pytest.mark.parametrize("count", [0, 1, 2, 3, 47, 48, 49, 97, 5000])
def test_built_rows_equal_inserted_ones(count: int) -> None:
    rng = np.random.default_rng(count)
    slots, words = rng.permutation(2 * count)[:count], rng.integers(0, 50, (count, 3))
    rows = SortedRows(3)
    rows.build(slots, words)
    rows._check()
    order = sorted(zip(words.tolist(), slots.tolist(), strict=True))
    assert rows.slots().tolist() == [slot for _, slot in order]
    again = SortedRows(3)
    again.build(rows.slots(), rows.order_words()[rows.slots()] * 2, rows=3 * count, is_sorted=True)
    again._check()
    assert again.slots().tolist() == rows.slots().tolist()
    again.make_room(3 * count + 1)
    assert kernel.has_row_room(again.views, 3 * count)
    assert not kernel.has_row_room(again.views, 3 * count + 1)


def test_rows_change_after_they_were_built() -> None:
    rng = random.Random(2)
    with small_nodes():
        rig = SortedRowsRig(2)
        rig.model = sorted((rng.randrange(9), rng.randrange(99), slot) for slot in range(100))
        records = np.array(rig.model)
        rig.rows.build(records[::-1, 2].copy(), records[::-1, :2].copy())
        rig.check()
        for growth in (0.2, 0.9):
            rig.apply(drawn(rng, rig, 80, 20, growth))
            rig.check()
