"""Rows 8 and 9 of docs/features/state.md: lazy decoding, damaged bytes, and the cost of a checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from runtime.state import (
    KINDS,
    CorruptStateError,
    Edit,
    MemoryStore,
    ObjectSpace,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedObject,
    PersistedQueue,
    PersistedSet,
    PersistedSortedSet,
    PersistedStack,
    PersistedValue,
    Schema,
)
from tests.features.state.spaces import Bench
from tests.generators.persisted import LABS
from tests.generators.stores import UnreliableStore


class CountingStore(UnreliableStore):
    """Remembers which tables were read."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.read: list[str] = []

    def scan(self, table: str) -> Any:
        self.read.append(table)
        return super().scan(table)


def test_row_08_nothing_is_read_before_it_is_used() -> None:
    bench = Bench()
    for name, kind in KINDS.items():
        bench.space.create(kind, name, length=LABS[name].length)
    bench.commit()
    store = CountingStore(bench.store)
    space = ObjectSpace(store)
    assert store.read == ["index"]
    held: Any = [space.get(kind, name) for name, kind in KINDS.items()]
    space.commit()
    assert store.read == ["index"]
    for one in held:
        LABS[one.kind].contents(one)
    read = list(store.read)
    assert set(read) >= {f"items/{name}" for name in KINDS}
    for one in held:
        LABS[one.kind].contents(one)
    assert store.read == read, "and once"


def test_row_08_a_value_is_decoded_when_it_is_first_read() -> None:
    bench = Bench()
    bench.space.create(PersistedDictionary[str, Any], "it").update(good=(1, 2), bad=5)
    bench.commit()
    bench.store.commit([Edit("items/it", 1, b"\x93\x01\xa3bad\xd4\x63\x00")])  # an extension of type 99
    space = bench.restart()
    named = space.get(PersistedDictionary[str, Any], "it")
    first = named["good"]
    assert first == (1, 2)
    assert named["good"] is first
    assert len(named) == 2
    with pytest.raises(CorruptStateError, match="object it: expected a value"):
        named["bad"]
    named["bad"] = 6
    bench.commit()
    assert dict(bench.restart().get(PersistedDictionary, "it")) == {"good": (1, 2), "bad": 6}


def node(previous: int, following: int) -> bytes:
    return msgspec.msgpack.encode([previous, following, "x"])


ITEMS, META = "items/it", "metadata/it"
WRONG: dict[str, tuple[type[PersistedObject], list[Edit], str]] = {
    "a list lacks an item": (PersistedList, [Edit(ITEMS, 1, None)], "items in slots 0 to 2, was slot 2"),
    "a list lacks its last": (PersistedList, [Edit(ITEMS, 2, None)], "items in slots 0 to 2, was none in slot 2"),
    "a list has one too many": (PersistedList, [Edit(ITEMS, 3, b"\x01")], "items in slots 0 to 2, was slot 3"),
    "a list has no length": (PersistedList, [Edit(META, 0, None)], r"metadata \[0\], was \[\]"),
    "a length is no number": (PersistedStack, [Edit(META, 0, b"\xa1x")], "a whole number in metadata 0"),
    "a length is negative": (PersistedList, [Edit(META, 0, b"\xff")], "ends in order"),
    "a queue's ends are the wrong way round": (PersistedQueue, [Edit(META, 0, b"\x09")], "ends in order"),
    "a queue has what was taken": (PersistedQueue, [Edit(META, 0, b"\x01")], "slots 1 to 2, was slot 0"),
    "a value is none": (PersistedValue, [Edit(ITEMS, 0, None)], "was none in slot 0"),
    "a value is not MessagePack": (PersistedValue, [Edit(ITEMS, 0, b"\xc1")], "a value, was"),
    "a value goes on": (PersistedValue, [Edit(ITEMS, 0, b"\x01\x01")], "a value, was"),
    "a member is there twice": (PersistedSet, [Edit(ITEMS, 2, b"\x01")], "keys that differ, was 1 in slots 0 and 2"),
    "a member cannot be one": (PersistedSet, [Edit(ITEMS, 2, b"\x90")], r"a key in slot 2, was \[\]"),
    "members have no order": (PersistedSortedSet, [Edit(ITEMS, 2, b"\xa1x")], "a key in slot 2, was 'x'"),
    "an entry is none": (PersistedDictionary, [Edit(ITEMS, 0, b"\x92\x00\x01")], "an entry in slot 0"),
    "a key is there twice": (PersistedDictionary, [Edit(ITEMS, 1, b"\x93\x01\x01\x01")], "was 1 in slots 0 and 1"),
    "a node is none": (PersistedLinkedList, [Edit(ITEMS, 0, b"\x01")], "a node in slot 0"),
    "a node is missing": (
        PersistedLinkedList,
        [Edit(ITEMS, 1, None)],
        "a node after slot 0, was slot 1, which is free",
    ),
    "a link leads out": (PersistedLinkedList, [Edit(ITEMS, 2, node(1, 77))], "a node after slot 2, was slot 77"),
    "a link leads below": (PersistedLinkedList, [Edit(ITEMS, 2, node(1, -2))], "a node after slot 2, was slot -2"),
    "a link back is another": (PersistedLinkedList, [Edit(ITEMS, 2, node(0, -1))], "slot 1 before slot 2, was slot 0"),
    "links go round": (PersistedLinkedList, [Edit(ITEMS, 2, node(1, 0))], "slot 2 before slot 0, was slot -1"),
    "there is no beginning": (
        PersistedLinkedList,
        [Edit(ITEMS, 0, node(2, 1)), Edit(ITEMS, 2, node(1, 0))],
        "3 nodes in one list, was 0 of them",
    ),
    "there are two lines": (
        PersistedLinkedList,
        [Edit(ITEMS, 1, node(0, -1)), Edit(ITEMS, 2, node(-1, -1))],
        "3 nodes in one list, was 2 of them",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_row_08_load_errors_name_the_object(case: str) -> None:
    kind, damage, message = WRONG[case]
    bench = Bench()
    held: Any = bench.space.create(kind, "it")
    if hasattr(held, "extend"):
        held.extend([1, 2, 3])
    elif kind is PersistedDictionary:
        held.update({1: 1, 2: 2})
    elif kind is not PersistedValue:
        held.update([1, 2, 3])
    bench.space.create(PersistedList[int], "sound").append(1)
    bench.commit()
    bench.store.commit(damage)
    space = bench.restart()
    found: Any = space.get(kind, "it")
    for _ in range(2):
        with pytest.raises(CorruptStateError, match=f"object it: expected .*{message}"):
            LABS[kind.kind].contents(found)
    assert list(space.get(PersistedList, "sound")) == [1]
    assert bench.commit() == {}, "nothing is made of what could not be read"


def test_row_08_a_value_of_another_type_is_corrupt() -> None:
    bench = Bench()
    bench.space.create(PersistedList[int], "it", Schema(int)).append(1)
    bench.commit()
    bench.store.commit([Edit(ITEMS, 0, b"\xa1x")])
    with pytest.raises(CorruptStateError, match=r"object it: expected a value, was .*: expected int, was str"):
        list(bench.restart().get(PersistedList, "it", Schema(int)))


def filled(kind: str, held_items: int) -> tuple[Bench, Any]:
    bench = Bench()
    held: Any = bench.space.create(KINDS[kind], "it", length=held_items, initial=0)
    if kind.endswith("dictionary"):
        held.update((number, number) for number in range(held_items))
    elif kind.endswith("set"):
        held.update(range(held_items))
    elif kind != "array":
        held.extend(range(held_items))
    bench.commit()
    return bench, held


def edit(kind: str, held: Any, edits: int) -> None:
    """So many edits, of the same bytes whatever is held."""
    for number in range(edits):
        if kind == "array":
            held[number] = 1
        elif kind.endswith("dictionary"):
            held[number] = -1
        elif kind.endswith("set"):
            held.discard(number)
        elif kind == "queue":
            held.dequeue()
        elif kind in {"list", "stack"}:
            held.pop()
        else:
            held.popleft()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "value"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_row_09_a_differential_checkpoint_has_edits_alone(kind: str, is_restarted: bool) -> None:
    written = {}
    for held_items in (1_000, 30_000):
        for edits in (10, 100):
            bench, held = filled(kind, held_items)
            if is_restarted:
                held = bench.restart().get(KINDS[kind], "it")
            edit(kind, held, edits)
            bench.commit()
            written[held_items, edits] = len(bench.store.edits), bench.store.written_bytes
    for edits in (10, 100):
        few, many = written[1_000, edits], written[30_000, edits]
        assert few[0] == many[0] <= 2 * edits + 2
        assert many[1] <= few[1] + 8, "a length or a link may have some more digits"
    assert written[30_000, 100][1] <= 10 * written[30_000, 10][1] + 8


def test_row_09_no_commit_of_a_table_rewrites_what_is_held() -> None:
    """Over thousands of commits each is bounded by what changed, and the chain by what is held."""
    store = UnreliableStore(MemoryStore())
    space = ObjectSpace(store)
    table = space.table("orders", 1, ["a", "b"])
    rows, changed = 100_000, 500
    held_bytes = rows * 3 * 8
    table.put(np.arange(rows)[:, None], np.zeros((2, rows), np.int64))
    space.commit()
    chance = np.random.default_rng(3)
    most_written = most_stored = 0
    for step in range(1200):
        keys = chance.choice(rows, changed, replace=False)[:, None]
        if step % 3 == 0:
            table.delete(keys[table.lookup(keys) >= 0])
        else:
            table.put(keys, np.full((2, changed), step))
        if step % 100 == 7:
            store.failures = ["lost"]
            with pytest.raises(OSError):
                space.commit()
        space.commit()
        most_written = max(most_written, store.written_bytes)
        if step % 50 == 0:
            most_stored = max(most_stored, sum(len(data) for _, data in store.scan("object/orders")))
            check_equal(ObjectSpace(store).table("orders", 1, ["a", "b"]), table)
    assert most_written < 5 * changed * 3 * 8
    assert most_stored < 5 * held_bytes


def check_equal(found: Any, expected: Any) -> None:
    keys = np.sort(expected.keys_of(expected.live_slots())[:, 0])[:, None]
    assert (np.sort(found.keys_of(found.live_slots())[:, 0]) == keys[:, 0]).all()
    assert (found.get(found.lookup(keys)) == expected.get(expected.lookup(keys))).all()
