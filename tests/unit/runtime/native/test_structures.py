"""Hash tables hold what a dictionary would, whatever their layout, and forget what is 0."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from runtime.native.library import hashing
from runtime.native.structures import HashTable, NullablePlace

Key = tuple[int, ...]


class Rig:
    """A table of results with three values a record, and the dictionary that it must equal."""

    def __init__(self, key_words: int, *, is_direct: bool) -> None:
        self.table = HashTable(key_words, 3, is_result=True, is_direct=is_direct)
        self.model: dict[Key, int] = {}

    def add(self, key: Key, value: int) -> None:
        views = self.table.views
        for place, word in enumerate(key):
            views[hashing.KEY][place] = word
        slot = hashing.locate(views)
        while slot < 0:
            self.table.make_room()
            slot = hashing.locate(views)
        hashing.touch(views, slot)
        views[hashing.CELLS][slot * self.table.stride + len(key)] += value
        self.model[key] = self.model.get(key, 0) + value

    def settle(self) -> None:
        hashing.settle(self.table.views)
        self.model = {key: value for key, value in self.model.items() if value}

    def check(self) -> None:
        width = self.table.key_words
        self.table._check()
        assert {tuple(record[:width]): record[width] for record in self.table.dump().tolist()} == self.model
        for key, value in list(self.model.items())[:50]:
            assert self.table.get(key) == [value, 0, 0]


@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_table_equals_a_dictionary(width: int, is_direct: bool) -> None:
    rig, chance = Rig(width, is_direct=is_direct), random.Random(width)
    for step in range(6000):
        far = step > 4000
        key = tuple(
            chance.randrange(-(10 ** chance.randrange(1, 18)), 10**12) if far and chance.random() < 0.3
            else chance.randrange(60)
            for _ in range(width)
        )  # fmt: skip
        rig.add(key, chance.randrange(-2, 3))
        if step % 7 == 0:
            rig.settle()
        if step % 1500 == 0:
            rig.settle()
            rig.check()
    rig.settle()
    rig.check()
    rig.table.load(rig.table.dump())
    rig.check()


def test_a_touched_record_remembers_what_it_was() -> None:
    rig = Rig(1, is_direct=True)
    rig.add((5,), 7)
    rig.settle()
    rig.add((5,), 1)
    rig.add((5,), 1)
    views = rig.table.views
    assert views[hashing.META][hashing.CHANGED] == 1
    assert views[hashing.OLD][:3].tolist() == [7, 0, 0]
    assert rig.table.get((5,)) == [9, 0, 0]


def test_keys_far_apart_leave_the_direct_layout() -> None:
    rig = Rig(1, is_direct=True)
    rig.add((0,), 1)
    assert rig.table.views[hashing.META][hashing.DIRECT] == 1
    rig.add((2**62,), 1)
    assert rig.table.views[hashing.META][hashing.DIRECT] == 0
    rig.settle()
    rig.check()


@pytest.mark.parametrize(("place", "null"), [(NullablePlace(1, flag=0), 1), (NullablePlace(1, presence=0), 0)])
def test_strings_are_renumbered_but_for_those_of_nulls(place: NullablePlace, null: int) -> None:
    """Number 0 is a string too: where the value is NULL it is not used, and stays."""
    table = HashTable(2, 1)
    table.string_places = (place,)
    records = np.array([[1 - null, 4, 1], [null, 0, 1]])
    is_used = np.zeros(5, np.bool_)
    table.mark_strings(records, is_used)
    assert np.flatnonzero(is_used).tolist() == [4]
    numbers = np.array([7, 0, 0, 0, 9])
    assert table.renumbered(records, numbers)[:, 1].tolist() == [9, 0]


@pytest.mark.parametrize("most_room", [64, 128, 1 << 15])
@pytest.mark.parametrize(("width", "is_direct"), [(1, True), (1, False), (2, False)])
def test_a_cleared_table_begins_with_nothing(width: int, most_room: int, *, is_direct: bool) -> None:
    """Records that hold nothing stay in it up to the room that is kept, and are never given out."""
    table, chance = HashTable(width, 3, is_direct=is_direct), random.Random(most_room + width)
    for rows in (1, 500, 3, 2000):
        table.clear(most_room)
        table._check()
        assert not len(table.dump())
        model: dict[Key, int] = {}
        for _ in range(rows):
            key, value = tuple(chance.randrange(rows) for _ in range(width)), chance.randrange(-1, 2)
            for place, word in enumerate(key):
                table.views[hashing.KEY][place] = word
            while (slot := hashing.locate(table.views)) < 0:
                table.make_room()
            table.views[hashing.CELLS][slot * table.stride + width] += value
            model[key] = model.get(key, 0) + value
        table._check()
        live = {key: value for key, value in model.items() if value}
        assert {tuple(record[:width]): record[width] for record in table.dump().tolist()} == live
        columns = table.dump_columns()
        assert columns.T.tolist() == table.dump().tolist()
        assert columns.flags.c_contiguous
        assert columns.flags.owndata
    table.clear(most_room)
    assert table.array(hashing.CELLS).size <= most_room * table.stride


def words(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Floats as they stand in cells."""
    return np.asarray(values, np.float64).view(np.int64)


NUMBERS = np.arange(4096)
KEYS = {
    "integers": NUMBERS,
    "negative": -NUMBERS,
    "hundreds": 100 * NUMBERS,
    "seconds": 1_700_000_000_000_000 + 1_000_000 * NUMBERS,
    "whole floats": words(NUMBERS),
    "quarters": words(NUMBERS / 4),
    "prices": words(1000 + NUMBERS / 2),
    "shifted by 32": NUMBERS << 32,
    "shifted by 40": NUMBERS << 40,
    "shifted by 52": NUMBERS << 52,
    "pairs of shifted": np.column_stack([NUMBERS >> 6 << 48, (NUMBERS & 63) << 48]),
    "pairs of floats": np.column_stack([words(NUMBERS >> 6), words(NUMBERS & 63)]),
    "flag and float": np.column_stack([0 * NUMBERS, words(NUMBERS)]),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_found_after_few_probes(name: str) -> None:
    """Keys that differ in their high bits alone, as floats with few digits do, are as far apart as others."""
    keys = KEYS[name].reshape(4096, -1)
    table = HashTable(keys.shape[1], 1)
    table.load(np.column_stack([keys, np.ones(len(keys), np.int64)]))
    table._check()
    index, mask = table.array(hashing.INDEX), table.views[hashing.META][hashing.MASK]
    at = np.flatnonzero(index)
    home = np.array([hashing.hash_of(key, 0, len(key)) & mask for key in keys.tolist()])
    assert ((at - home[index[at] - 1]) & mask).mean() < 2
