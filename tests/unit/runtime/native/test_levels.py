"""Totals by group and key are those of a dictionary, and each group's least key is known, in either tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.native import structures
from runtime.native.cache import KernelCache
from runtime.native.indexes import Levels
from runtime.native.library import levels as kernel
from runtime.native.structures import Structure
from runtime.native.tiers import plain_kernel
from tests.harness.examples import examples

SOURCE = '''"""Adds amounts, and writes the least node of the group behind each."""

from runtime.native.library.levels import add, least
from runtime.native.plain import array, jit, root, table


@jit
def step(address):
    p = root(address)
    count, rows, seen = array(p, 0), array(p, 1), array(p, 2)
    for row in range(count[0]):
        group = rows[3 * row]
        add(table(p, 3), group, rows[3 * row + 1], rows[3 * row + 2])
        seen[row] = least(table(p, 3), group)
    return 0
'''
ENDS = [-(2**63), 2**63 - 1]
Row = tuple[int, int, int]
"""Group, key, amount that is added; one that is negative takes back as much as is there at most."""
ROW = st.tuples(
    st.integers(0, 2),
    st.one_of(st.integers(0, 30), st.sampled_from(ENDS)),
    st.sampled_from([1, 2, 2**62, -1, -1, -(2**62)]),
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCache]:
    made = KernelCache(tmp_path_factory.mktemp("kernels"))
    assert not made.compile_now([SOURCE]).failures
    yield made
    made.close()


class Rig:
    """Levels that a kernel adds to."""

    def __init__(self, kernels: KernelCache | None) -> None:
        self.levels = Levels()
        self._table = Structure(4)
        self._table.link(3, self.levels)
        self._step: Any = plain_kernel(SOURCE) if kernels is None else kernels.get(SOURCE)
        self._argument: Any = self._table.views if kernels is None else self._table.address

    def add(self, rows: list[Row]) -> list[int]:
        """The least node of its group behind each addition."""
        seen = np.zeros(len(rows), np.int64)
        self._table.put(0, np.array([len(rows)], np.int64))
        self._table.put(1, np.array(rows, np.int64).reshape(-1))
        self._table.put(2, seen)
        self.levels.reserve(3, len(rows))
        assert self._step(self._argument) == 0
        return list(seen.tolist())

    def cells(self) -> tuple[Any, ...]:
        """Everything that the kernel has written."""
        return self.levels.array(kernel.ROOTS).tolist(), self.levels.records.records().tolist()


def applied(held: Counter[tuple[int, int]], rows: list[Row]) -> list[Row]:
    """The rows that leave no total below 0; they are added to what is held."""
    taken: list[Row] = []
    for group, key, amount in rows:
        change = max(amount, -held[group, key])
        if change:
            change = max(change, -(2**62))
            held[group, key] += change
            taken.append((group, key, change))
    return taken


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.lists(ROW, min_size=1, max_size=60), max_size=6), st.sets(st.integers(0, 5)))
@example([[(0, 5, 1), (0, 9, 1), (0, 2, 1), (0, 5, -1)]], set())  # a node that leaves has a child and is not the root
def test_least_keys_are_those_of_a_dictionary(kernels: KernelCache, batches: list[list[Row]], loaded: set[int]) -> None:
    held: Counter[tuple[int, int]] = Counter()
    with patch.object(structures, "_SMALL", 1):
        plain, compiled = Rig(None), Rig(kernels)
        for number, rows in enumerate(batches):
            taken = applied(held, rows)
            held = Counter({each: total for each, total in held.items() if total})
            assert plain.add(taken) == compiled.add(taken)
            assert plain.cells() == compiled.cells()
            plain.levels._check()
            assert plain.levels.totals() == held
            assert len(plain.levels) == len(held)
            for group in range(3):
                keys = [key for each, key in held if each == group]
                expected = (min(keys), held[group, min(keys)]) if keys else None
                assert plain.levels.least(group) == expected
            if number in loaded:
                reload(plain, held)
                reload(compiled, held)


def reload(rig: Rig, held: Counter[tuple[int, int]]) -> None:
    """Load what is held, in parts of at most 2^62, and a key with nothing."""
    parts = [(5, 0, 0)]
    for (group, key), total in held.items():
        parts += [(group, key, min(total - start, 2**62)) for start in range(0, total, 2**62)]
    groups, keys, amounts = np.array(parts[::-1], np.int64).T
    rig.levels.load(groups, keys, amounts)
    rig.levels._check()
    assert rig.levels.totals() == held
