"""The key index does what a dict does, whatever is put in and taken out, in whatever batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.state import KeyIndex
from tests.harness.examples import examples

WORDS = st.integers(-3, 12) | st.sampled_from([-(2**63), 2**63 - 1, 2**32])


class IndexMachine(RuleBasedStateMachine):
    """Batches against a dict of key → slot."""

    @initialize(width=st.sampled_from([0, 1, 3]))
    def start(self, width: int) -> None:
        self.width = width
        self.index = KeyIndex(width)
        self.model: dict[tuple[int, ...], int] = {}

    def keys(self, drawn: list[tuple[int, int, int]]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Distinct keys of the machine's width."""
        distinct = list(dict.fromkeys(key[: self.width] for key in drawn))
        return np.array(distinct, np.int64).reshape(len(distinct), self.width)

    @rule(drawn=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=60))
    def insert(self, drawn: list[tuple[int, int, int]]) -> None:
        keys = self.keys(drawn)
        slots = self.index.insert(keys)
        for key, slot in zip(map(tuple, keys.tolist()), slots.tolist(), strict=True):
            assert key in self.model or slot not in self.model.values()
            assert slot < self.index.capacity
            assert self.model.setdefault(key, slot) == slot

    @rule(first=st.integers(-1000, 1000), count=st.integers(1, 300))
    def insert_many(self, first: int, count: int) -> None:
        if self.width:
            self.insert([(first + n, n % 3, 0) for n in range(count)])

    @rule(drawn=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=60))
    def look_up(self, drawn: list[tuple[int, int, int]]) -> None:
        keys = np.array([key[: self.width] for key in drawn], np.int64).reshape(len(drawn), self.width)
        assert self.index.lookup(keys).tolist() == [self.model.get(key[: self.width], -1) for key in drawn]

    @rule(every=st.integers(1, 4), offset=st.integers(0, 3))
    def remove(self, every: int, offset: int) -> None:
        gone = list(self.model)[offset::every]
        self.index.remove(np.array([self.model.pop(key) for key in gone], np.int64))

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        self.index._check()
        assert len(self.index) == len(self.model)
        slots = self.index.live_slots()
        held = zip(map(tuple, self.index.keys_of(slots).tolist()), slots.tolist(), strict=True)
        assert dict(held) == self.model


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)


def test_a_slot_that_is_free_cannot_be_freed_again() -> None:
    index = KeyIndex(1)
    slots = index.insert(np.array([[1], [2]]))
    index.remove(slots[:1])
    with pytest.raises(KeyError, match=r"expected live slots, was \[0\]"):
        index.remove(slots)


def test_memory_follows_what_is_held_not_what_passed() -> None:
    """A window that moves over a million keys needs room for the window."""
    index = KeyIndex(1)
    for first in range(0, 1_000_000, 1000):
        keys = np.arange(first, first + 1000)[:, None]
        index.insert(keys)
        index.remove(index.lookup(keys - 2000)[index.lookup(keys - 2000) >= 0])
    index._check()
    assert len(index) == 2000
    assert index.capacity <= 8192
