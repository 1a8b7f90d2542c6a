"""A table of records by a part of their key finds each of them, in whatever order they come and go."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import pytest

from runtime.native import structures
from runtime.native.indexes import Members
from runtime.native.library import hashing, members

Key = tuple[int, ...]


def add(table: Members, key: Key, value: int) -> None:
    for place, word in enumerate(key):
        table.records.views[hashing.KEY][place] = word
    slot = members.locate_member(table.views)
    while slot < 0:
        table.make_room()
        slot = members.locate_member(table.views)
    table.records.records()[slot, len(key)] += value
    members.drop_member_if_zero(table.views, slot)


def found(table: Members, head: Key) -> Counter[Key]:
    """The keys that begin with a head."""
    for place, word in enumerate(head):
        table.heads.views[hashing.KEY][place] = word
    keys: Counter[Key] = Counter()
    slot = members.first_member(table.views)
    while slot >= 0:
        keys[tuple(table.records.records()[slot, : table.records.key_words].tolist())] += 1
        slot = members.next_member(table.views, slot)
    return keys


@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("head_words", [0, 1, 2])
def test_members_are_those_that_hold_something(head_words: int, is_direct: bool) -> None:
    rng = random.Random(head_words)
    with patch.object(structures, "_SMALL", 1):
        table = Members(head_words, 3, 1, is_direct=is_direct)
        held: Counter[Key] = Counter()
        for number in range(600):
            key = (rng.randint(0, 3), rng.choice([0, 10**9]), rng.randint(0, 5))
            value = rng.choice([1, 1, -1, 3])
            add(table, key, value)
            held[key] += value
            held = Counter({one: total for one, total in held.items() if total})
            if number % 50 == 0:
                table._check()
                table.load(table.dump()[::-1].copy())
                table._check()
                assert len(table) == len(held)
            head = key[:head_words]
            assert found(table, head) == Counter(one for one in held if one[:head_words] == head)
        for one, total in held.items():
            add(table, one, -total)
        table._check()
        assert len(table) == len(table.dump()) == 0
