"""Rows 5 and 6 of docs/features/state.md: save, commit, confirmation; full checkpoints, unknown kinds, migrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from runtime.state import (
    KINDS,
    Edit,
    MemoryStore,
    ObjectSpace,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedQueue,
    PersistedSet,
    PersistedValue,
    Schema,
    SchemaVersionError,
    StateError,
    UnknownKindError,
)
from tests.features.state.spaces import Bench, edits_of
from tests.generators.persisted import LABS
from tests.generators.stores import BrokenDiskError, Failure, UnreliableStore

CHANGES: dict[str, Callable[[Any, int], object]] = {
    "value": lambda held, n: setattr(held, "value", n),
    "array": lambda held, n: held.__setitem__(n % 5, n),
    "list": lambda held, n: held.insert(n % 2, n),
    "queue": lambda held, n: (held.enqueue(n), held.enqueue(n), held.dequeue()),
    "stack": lambda held, n: (held.push(n), held.push(-n), held.pop()),
    "linked_list": lambda held, n: (held.appendleft(n), held.append(n), held.popleft()),
    "set": lambda held, n: (held.add(n), held.discard(n - 2)),
    "sorted_set": lambda held, n: (held.add(n), held.discard(n - 2)),
    "dictionary": lambda held, n: (held.update({n: n, n + 1: n}), held.pop(n - 1, None)),
    "sorted_dictionary": lambda held, n: (held.update({n: n, n + 1: n}), held.pop(n - 1, None)),
}


def made(kind: str) -> tuple[Bench, Any]:
    bench = Bench()
    held: Any = bench.space.create(KINDS[kind], "it", length=LABS[kind].length)
    CHANGES[kind](held, 1)
    return bench, held


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "failures", [["lost"], ["unknown"], ["lost", "lost"], ["unknown", "lost"], ["lost", "unknown"]]
)
@pytest.mark.parametrize("is_new", [False, True])
def test_row_05_a_failed_commit_loses_nothing(kind: str, failures: list[Failure], is_new: bool) -> None:
    bench, held = made(kind)
    if not is_new:
        bench.commit()
    CHANGES[kind](held, 2)
    bench.store.failures = list(failures)
    for number, _ in enumerate(failures):
        with pytest.raises(BrokenDiskError):
            bench.space.commit()
        CHANGES[kind](held, 3 + number)
    expected = LABS[kind].contents(held)
    bench.commit()
    assert LABS[kind].contents(bench.restart().get(KINDS[kind], "it")) == expected
    assert bench.commit() == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fate", ["saved", "failed", "unanswered"])
def test_row_05_edits_during_a_commit_belong_to_the_next(kind: str, fate: str) -> None:
    bench, held = made(kind)
    bench.commit()
    CHANGES[kind](held, 2)
    before = LABS[kind].contents(held)
    edits = bench.space.save()
    CHANGES[kind](held, 3)
    after = LABS[kind].contents(held)
    if fate == "saved":
        bench.store.commit(edits)
        assert LABS[kind].contents(ObjectSpace(bench.store).get(KINDS[kind], "it")) == before
        bench.space.on_saved()
    elif fate == "failed":
        bench.space.on_failed()
    assert bench.commit() != {}
    assert LABS[kind].contents(bench.restart().get(KINDS[kind], "it")) == after


def test_row_05_objects_of_a_commit_belong_to_the_next() -> None:
    bench, _ = made("list")
    edits = bench.space.save()
    bench.space.delete("it")
    bench.space.create(PersistedSet[int], "it").add(7)
    bench.space.create(PersistedValue, "new", initial=1)
    bench.store.commit(edits)
    bench.space.on_saved()
    assert ObjectSpace(bench.store).kind("it") == "list"
    written = bench.commit()
    assert written["metadata/it", 0] is None
    space = bench.restart()
    assert sorted(space) == ["it", "new"]
    assert set(space.get(PersistedSet, "it")) == {7}


def test_row_05_the_callers_edits_share_the_transaction() -> None:
    bench, _ = made("list")
    bench.store.failures = ["lost"]
    with pytest.raises(BrokenDiskError):
        bench.space.commit([Edit("epochs", 0, b"1")])
    assert bench.store.get("epochs", 0) is None
    bench.space.commit([Edit("epochs", 0, b"2")])
    assert bench.store.get("epochs", 0) == b"2"
    assert sorted(bench.restart()) == ["it"]


@pytest.mark.parametrize("is_used", [False, True])
def test_row_06_a_full_checkpoint_holds_everything(is_used: bool) -> None:
    """What did not change too, and what nobody has used since the restart."""
    bench = Bench()
    for name, kind in KINDS.items():
        held = bench.space.create(kind, name, length=LABS[name].length)
        CHANGES[name](held, 1)
    bench.space.table("table", 1, ["v"]).put(np.array([[1], [2]]), np.array([[2, 3]]))
    bench.commit()
    space = bench.restart()
    expected = {name: LABS[name].contents(bench.space.get(kind, name)) for name, kind in KINDS.items()}
    if not is_used:
        space = bench.restart()
    other = MemoryStore()
    other.commit(space.save(full=True))
    space.on_saved()
    again = ObjectSpace(other)
    assert {name: LABS[name].contents(again.get(kind, name)) for name, kind in KINDS.items()} == expected
    assert len(again.table("table", 1, ["v"])) == 2
    assert bench.commit() == {}


def test_row_06_a_space_moves_to_an_empty_store() -> None:
    bench = Bench()
    listed = bench.space.create(PersistedList[int], "used")
    bench.space.create(PersistedList[int], "unused").append(1)
    bench.commit()
    space = bench.restart()
    listed = space.get(PersistedList, "used")
    listed.append(5)
    other = UnreliableStore(MemoryStore())
    other.failures = ["lost"]
    with pytest.raises(BrokenDiskError):
        space.move_to(other)
    space.move_to(other)
    listed.append(6)
    space.commit()
    assert edits_of(other) == {("metadata/used", 0): 2, ("items/used", 1): 6}
    assert list(space.get(PersistedList, "unused")) == [1]
    with pytest.raises(StateError, match="expected an empty store"):
        space.move_to(bench.store)


def test_row_06_an_item_gone_before_the_save_is_not_written() -> None:
    bench = Bench()
    queue = bench.space.create(PersistedQueue[int], "it")
    bench.commit()
    queue.extend([1, 2, 3])
    queue.dequeue()
    queue.dequeue()
    assert bench.commit() == {("metadata/it", 0): 2, ("metadata/it", 1): 3, ("items/it", 2): 3}
    queue.enqueue(4)
    queue.clear()
    assert bench.commit() == {("metadata/it", 0): 4, ("metadata/it", 1): 4, ("items/it", 2): None}


def unknown(bench: Bench) -> None:
    """A list, and something that a later version might have left."""
    bench.space.create(PersistedList[int], "known").append(1)
    bench.commit()
    entry = msgspec.msgpack.encode({"kind": "quaternion", "name": "odd", "spin": 1})
    bench.store.commit([Edit("index", 1, entry), Edit("items/odd", 0, b"whatever")])


def test_row_06_an_unknown_kind_is_an_error_of_its_own() -> None:
    bench = Bench()
    unknown(bench)
    space = bench.restart()
    with pytest.raises(UnknownKindError, match="expected object odd to be of a known kind, was 'quaternion'"):
        space.get(PersistedList, "odd")
    assert list(space.get(PersistedList, "known")) == [1]
    assert sorted(space) == ["known", "odd"]
    other = MemoryStore()
    space.move_to(other)
    assert other.get("items/odd", 0) == b"whatever", "it is taken along"
    space.delete("odd")
    space.commit()
    assert list(other.scan("items/odd")) == []
    assert list(ObjectSpace(other)) == ["known"]


def halves(version: int, item: Any) -> Any:
    """Version 1 had whole numbers where version 2 has pairs of halves."""
    assert version == 1
    if isinstance(item, tuple):
        return item[0], (item[1] / 2, item[1] / 2)
    return (item / 2, item / 2)


PAIR = tuple[float, float]


@pytest.mark.parametrize(
    "kind", [PersistedList, PersistedQueue, PersistedSet, PersistedLinkedList, PersistedDictionary]
)
def test_row_06_an_older_schema_is_migrated_and_saved(kind: Any) -> None:
    bench = Bench()
    old, new = Schema(int), Schema(PAIR, version=2, migrate=halves)
    held = bench.space.create(kind, "it", old)
    if kind is PersistedDictionary:
        held[0] = 4
        held[1] = 6
    else:
        getattr(held, {PersistedQueue: "enqueue", PersistedSet: "add"}.get(kind, "append"))(4)
    bench.commit()
    for lacking in (Schema(PAIR, version=2), Schema(PAIR, version=3)):
        with pytest.raises(
            SchemaVersionError, match="schema version . was 1, and nothing to migrate it with".replace(" was", ", was")
        ):
            bench.restart().get(kind, "it", lacking)
    changed = bench.restart().get(kind, "it", new)
    expected = {0: (2.0, 2.0), 1: (3.0, 3.0)} if kind is PersistedDictionary else [(2.0, 2.0)]
    as_model = dict if kind is PersistedDictionary else list
    assert as_model(changed) == expected
    assert bench.restart().kind("it") == kind.kind, "a migration that was not committed is done again"
    bench.space.get(kind, "it", new)
    bench.commit()
    assert as_model(bench.restart().get(kind, "it", new)) == expected
    with pytest.raises(SchemaVersionError, match="of schema version 1, was 2"):
        bench.restart().get(kind, "it", old)


def test_row_06_a_failed_migration_changes_nothing() -> None:
    bench = Bench()
    bench.space.create(PersistedList[str], "it").append("not a number")
    bench.commit()
    space = bench.restart()
    with pytest.raises(TypeError):
        space.get(PersistedList, "it", Schema(PAIR, version=2, migrate=halves))
    assert bench.commit() == {}
    assert list(space.get(PersistedList, "it")) == ["not a number"]
