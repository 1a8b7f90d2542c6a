"""Rows 3 and 4 of docs/features/state.md: the keys of the store, and the edits of a differential checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from runtime.state import (
    KINDS,
    PersistedArray,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedObject,
    PersistedQueue,
    PersistedSet,
    PersistedSortedDictionary,
    PersistedSortedSet,
    PersistedStack,
    PersistedValue,
)
from tests.features.state.spaces import Bench

META, ITEMS = "metadata/it", "items/it"


def make(kind: type[PersistedObject], *items: Any, **initial: Any) -> tuple[Bench, Any, dict[tuple[str, int], Any]]:
    """A committed object of these items, and what was written for it beside its index entry."""
    bench = Bench()
    held: Any = bench.space.create(kind, "it", **initial)
    for item in items:
        for add in ("append", "enqueue", "push", "add"):
            if hasattr(held, add):
                getattr(held, add)(item)
                break
    written = bench.commit()
    assert written.pop(("index", 0)) == {"kind": kind.kind, "name": "it"}
    return bench, held, written


STORED: list[tuple[type[PersistedObject], Sequence[Any], dict[str, Any], dict[tuple[str, int], Any]]] = [
    (PersistedValue, (), {"initial": 7}, {(ITEMS, 0): 7}),
    (PersistedArray, (), {"length": 2, "initial": 0}, {(META, 0): 2, (ITEMS, 0): 0, (ITEMS, 1): 0}),
    (PersistedList, (2, 3), {}, {(META, 0): 2, (ITEMS, 0): 2, (ITEMS, 1): 3}),
    (PersistedQueue, (2, 3), {}, {(META, 0): 0, (META, 1): 2, (ITEMS, 0): 2, (ITEMS, 1): 3}),
    (PersistedStack, (2, 3), {}, {(META, 0): 2, (ITEMS, 0): 2, (ITEMS, 1): 3}),
    (PersistedLinkedList, "abc", {}, {(ITEMS, 0): [-1, 1, "a"], (ITEMS, 1): [0, 2, "b"], (ITEMS, 2): [1, -1, "c"]}),
    (PersistedSet, "ab", {}, {(ITEMS, 0): "a", (ITEMS, 1): "b"}),
    (PersistedSortedSet, "ba", {}, {(ITEMS, 0): "b", (ITEMS, 1): "a"}),
]


@pytest.mark.parametrize(("kind", "items", "initial", "expected"), STORED, ids=lambda given: getattr(given, "kind", ""))
def test_row_03_an_object_has_metadata_and_items_tables(
    kind: type[PersistedObject], items: Any, initial: Any, expected: Any
) -> None:
    assert make(kind, *items, **initial)[2] == expected


@pytest.mark.parametrize("kind", [PersistedDictionary, PersistedSortedDictionary])
def test_row_03_an_entry_is_slot_key_and_value(kind: type[PersistedObject]) -> None:
    bench = Bench()
    held: Any = bench.space.create(kind, "it")
    held["b"] = 1
    held["a"] = 2
    assert bench.commit() == {
        ("index", 0): {"kind": kind.kind, "name": "it"},
        (ITEMS, 0): [0, "b", 1],
        (ITEMS, 1): [1, "a", 2],
    }


def test_row_03_ends_of_a_queue_only_grow_and_have_64_bits() -> None:
    bench, queue, _ = make(PersistedQueue, 1, 2)
    queue.clear()
    assert bench.commit() == {(META, 0): 2, (ITEMS, 0): None, (ITEMS, 1): None}
    queue.enqueue(3)
    assert bench.commit() == {(META, 1): 3, (ITEMS, 2): 3}
    queue._slots.head += 2**40  # as if as many had gone through
    queue.enqueue(4)
    queue.dequeue()
    bench.commit()
    again = bench.restart().get(PersistedQueue[int], "it")
    assert list(again) == [4]
    assert again._slots.head == 2**40 + 3


@pytest.mark.parametrize("kind", [PersistedSet, PersistedSortedSet])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_row_03_freed_slots_of_sets_are_used_again(kind: type[Any], is_restarted: bool) -> None:
    bench, held, _ = make(kind, *range(5))
    held.discard(1)
    held.discard(3)
    assert bench.commit() == {(ITEMS, 1): None, (ITEMS, 3): None}
    if is_restarted:
        held = bench.restart().get(kind, "it")
    held.update([10, 11, 12])
    assert bench.commit() == {(ITEMS, 1): 10, (ITEMS, 3): 11, (ITEMS, 5): 12}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_row_03_freed_slots_are_used_again(is_restarted: bool) -> None:
    bench = Bench()
    named = bench.space.create(PersistedDictionary[str, int], "named")
    linked = bench.space.create(PersistedLinkedList[str], "linked")
    named.update(a=1, b=2, c=3)
    linked.extend("abc")
    bench.commit()
    del named["b"]
    linked.remove("b")
    bench.commit()
    if is_restarted:
        bench.restart()
        named = bench.space.get(PersistedDictionary, "named")
        linked = bench.space.get(PersistedLinkedList, "linked")
    named["d"] = 4
    linked.append("d")
    assert bench.commit() == {
        ("items/named", 1): [3, "d", 4],
        ("items/linked", 1): [2, -1, "d"],
        ("items/linked", 2): [0, 1, "c"],
    }


def pop_and_push(stack: Any) -> None:
    stack.pop()
    stack.pop()
    stack.push(9)


def through(queue: Any) -> None:
    queue.dequeue()
    queue.dequeue()
    queue.extend([7, 8, 9])


def clear_and_add(members: Any) -> None:
    members.clear()
    members.update([8, 9])


EDITS: dict[str, tuple[type[PersistedObject], Sequence[Any], Callable[[Any], object], dict[tuple[str, int], Any]]] = {
    "list: remove": (
        PersistedList, (2, 3, 42, 5), lambda held: held.remove(42),
        {(META, 0): 3, (ITEMS, 2): 5, (ITEMS, 3): None},
    ),
    "list: set": (PersistedList, (2, 3), lambda held: held.__setitem__(-1, 4), {(ITEMS, 1): 4}),
    "list: append": (PersistedList, (2, 3), lambda held: held.append(4), {(META, 0): 3, (ITEMS, 2): 4}),
    "list: insert": (
        PersistedList, (2, 3), lambda held: held.insert(1, 9), {(META, 0): 3, (ITEMS, 1): 9, (ITEMS, 2): 3}
    ),
    "list: clear": (
        PersistedList, (2, 3), lambda held: held.clear(), {(META, 0): 0, (ITEMS, 0): None, (ITEMS, 1): None}
    ),
    "list: add and take": (PersistedList, (2,), lambda held: (held.append(1), held.pop()), {}),
    "queue: dequeue 2, enqueue 3": (
        PersistedQueue, (1, 2, 3), through,
        {(META, 0): 2, (META, 1): 6, (ITEMS, 0): None, (ITEMS, 1): None, (ITEMS, 3): 7, (ITEMS, 4): 8, (ITEMS, 5): 9},
    ),
    "stack: pop 2, push 1": (
        PersistedStack, (1, 2, 3), pop_and_push, {(META, 0): 2, (ITEMS, 1): 9, (ITEMS, 2): None}
    ),
    "set: clear, add 2": (
        PersistedSet, (1, 2, 3, 4), clear_and_add, {(ITEMS, 0): 8, (ITEMS, 1): 9, (ITEMS, 2): None, (ITEMS, 3): None}
    ),
    "sorted set: clear, add 2": (
        PersistedSortedSet, (4, 3, 2, 1), clear_and_add,
        {(ITEMS, 0): 8, (ITEMS, 1): 9, (ITEMS, 2): None, (ITEMS, 3): None},
    ),
    "set: add what is there": (PersistedSet, (1,), lambda held: held.add(1), {}),
    "set: add and take": (PersistedSet, (1,), lambda held: (held.add(2), held.remove(2)), {}),
    "linked list: remove": (
        PersistedLinkedList, "abc", lambda held: held.remove("b"),
        {(ITEMS, 0): [-1, 2, "a"], (ITEMS, 1): None, (ITEMS, 2): [0, -1, "c"]},
    ),
    "linked list: set": (
        PersistedLinkedList, "ab", lambda held: setattr(held.last, "value", "x"), {(ITEMS, 1): [0, -1, "x"]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EDITS)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_row_04_a_differential_checkpoint_writes_these_keys(case: str, is_restarted: bool) -> None:
    kind, items, change, expected = EDITS[case]
    bench, held, _ = make(kind, *items)
    if is_restarted:
        held = bench.restart().get(kind, "it")
    change(held)
    assert bench.commit() == expected
    assert bench.commit() == {}, "nothing changed, nothing is written"


def test_row_04_an_assignment_writes_its_slot_alone() -> None:
    bench = Bench()
    array = bench.space.create(PersistedArray[int], "array", length=8, initial=0)
    value = bench.space.create(PersistedValue[int], "value", initial=0)
    named = bench.space.create(PersistedDictionary[str, int], "named")
    named.update(a=1, b=2, c=3)
    bench.commit()
    array[3] = 42
    array[5] = 43
    assert bench.commit() == {("items/array", 3): 42, ("items/array", 5): 43}
    value.value = 5
    named["b"] = 9
    assert bench.commit() == {("items/value", 0): 5, ("items/named", 1): [1, "b", 9]}
    del named["b"]
    named["b"] = 7
    assert bench.commit() == {("items/named", 1): [3, "b", 7]}


def test_row_04_reading_writes_nothing() -> None:
    bench = Bench()
    for kind in (PersistedList, PersistedQueue, PersistedSet, PersistedDictionary, PersistedLinkedList):
        bench.space.create(kind, kind.kind)
    bench.commit()
    space = bench.restart()
    for name in set(space):
        assert list(space.get(KINDS[name], name)) == []  # type: ignore[call-overload]
    assert bench.commit() == {}
