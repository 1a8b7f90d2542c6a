"""Sums over intervals of keys are those of the entries in them, in both layouts of an ordered index."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from runtime.native.library import entries, selection
from runtime.native.ordered import OrderedIndex
from runtime.native.plain import load_wide


def index_of(keys: list[int], groups: int, chance: random.Random, *, largest: int, dense_cells: int) -> OrderedIndex:
    """An index with two sums, each up to a size, on all of these keys in every group."""
    index = OrderedIndex(1, 2, dense_cells=dense_cells)
    records = []
    for group in range(groups):
        for key in keys:
            first, second = chance.randrange(-largest, largest), chance.randrange(-largest, largest)
            sums = [word for value in (first, second) for word in (_low(value), value >> 64)]
            records.append([group, key, chance.randrange(1, 9), *sums])
    index.load(np.array(records, np.int64))
    index._check()
    return index


def _low(value: int) -> int:
    return ((value + 2**63) & (2**64 - 1)) - 2**63


@pytest.mark.parametrize("largest", [100, 2**90], ids=["small", "large"])
@pytest.mark.parametrize("dense_cells", [0, 1 << 20], ids=["tree", "dense"])
@pytest.mark.parametrize("spread", [40, 4000, 9000], ids=["a_block", "a_top", "several_tops"])
def test_sums_of_intervals_are_those_of_their_entries(spread: int, dense_cells: int, largest: int) -> None:
    chance = random.Random(spread)
    keys = sorted({0, spread - 1, *(chance.randrange(spread) for _ in range(300))})
    index = index_of(keys, 3, chance, largest=largest, dense_cells=dense_cells)
    assert index.is_tree == (dense_cells == 0)
    records = index.dump().tolist()
    words_of: Any = np.zeros(3 * 5, np.int64)
    target = memoryview(words_of)
    for _ in range(150):
        low, high = sorted(chance.randrange(-100, spread + 100) for _ in range(2))
        if chance.random() < 0.1:
            low, high = chance.choice([(-(2**62), 2**62), (low, low)])
        selection.put_sums(index.views, True, low, high, target, 2)
        found = [(int(target[at]), *(load_wide(target, at + word) for word in (1, 3))) for at in range(0, 15, 5)]
        expected = [(0, 0, 0)] * 3
        for group, key, weight, *words in records:
            if low <= key <= high:
                values = [(words[word + 1] << 64) + (words[word] & (2**64 - 1)) for word in (0, 2)]
                expected[group] = tuple(a + b for a, b in zip(expected[group], (weight, *values), strict=True))
        assert found == expected
    assert not index.array(entries.META)[entries.BAD]
