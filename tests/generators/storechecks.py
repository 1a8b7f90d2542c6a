"""Checks of every store, in steps: between two steps the store is closed and opened again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from runtime.state import (
    Edit,
    KeyedTable,
    ObjectSpace,
    PersistedArray,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedQueue,
    PersistedSet,
    PersistedSortedDictionary,
    PersistedSortedSet,
    PersistedStack,
    PersistedValue,
    Store,
)

__all__ = ["CHECKS", "Step"]

Step = Callable[[Store], None]
_ENDS: Final = (-(2**63), -1, 0, 1, 2**63 - 1)
_TABLES: Final = ("a", "b", "items/é ☃/x")


def _commits(upto: int) -> tuple[list[list[Edit]], dict[tuple[str, int], bytes]]:
    """Return random commits, and the contents after them."""
    chance = random.Random(7)
    commits: list[list[Edit]] = []
    model: dict[tuple[str, int], bytes] = {}
    for _ in range(upto):
        edits = []
        for _ in range(chance.randrange(12)):
            data = None if chance.random() < 0.4 else chance.randbytes(chance.randrange(4))
            edits.append(Edit(chance.choice(_TABLES), chance.randrange(5), data))
        commits.append(edits)
        for edit in edits:
            model.pop((edit.table, edit.key), None)
            if edit.data is not None:
                model[edit.table, edit.key] = edit.data
    return commits, model


def _expect(store: Store, model: dict[tuple[str, int], bytes]) -> None:
    for table in _TABLES:
        expected = sorted((key, data) for (held, key), data in model.items() if held == table)
        assert [store.get(table, key) for key in range(5)] == [model.get((table, key)) for key in range(5)]
        assert list(store.scan(table)) == expected
        assert list(store.keys(table)) == [key for key, _ in expected]


def _commit_some(start: int, stop: int) -> Step:
    def step(store: Store) -> None:
        _expect(store, _commits(start)[1])
        for number in range(start, stop):
            commits, model = _commits(number + 1)
            store.commit(commits[-1])
            _expect(store, model)

    return step


def _absent(store: Store) -> None:
    assert store.get("nothing", 0) is None
    assert list(store.scan("nothing")) == []
    assert list(store.keys("nothing")) == []
    store.commit([])
    store.commit([Edit("nothing", 3, None)])
    assert list(store.scan("nothing")) == []


def _last_holds(store: Store) -> None:
    store.commit([Edit("t", 1, b"first"), Edit("t", 1, b"last"), Edit("t", 2, b"put"), Edit("t", 2, None)])
    store.commit([Edit("t", 3, None), Edit("t", 3, b"after a delete")])


def _last_held(store: Store) -> None:
    assert list(store.scan("t")) == [(1, b"last"), (3, b"after a delete")]


def _put_ends(store: Store) -> None:
    store.commit([Edit("t", key, str(key).encode()) for key in reversed(_ENDS)])
    store.commit([Edit("large", 0, bytes(range(256)) * 12_000), Edit("large", 1, b"")])


def _ends_held(store: Store) -> None:
    assert list(store.scan("t")) == [(key, str(key).encode()) for key in _ENDS]
    assert store.get("t", 2**63 - 1) == str(2**63 - 1).encode()
    assert store.get("large", 0) == bytes(range(256)) * 12_000
    assert store.get("large", 1) == b""


def _make_objects(store: Store) -> None:
    space = ObjectSpace(store)
    space.create(PersistedValue, "value", initial=1)
    space.create(PersistedArray, "array", length=3, initial=b"")
    space.create(PersistedList, "list").extend([2, 3, 42, 5])
    space.create(PersistedQueue, "queue").extend("abc")
    space.create(PersistedStack, "stack").extend("xyz")
    space.create(PersistedLinkedList, "linked").extend([1, 2, 3])
    space.create(PersistedSet, "set").update([1, 2, 2**80])
    space.create(PersistedSortedSet, "sorted set").update([3, 1, 2])
    space.create(PersistedDictionary, "dictionary").update(b=1, a=(2, None))
    space.create(PersistedSortedDictionary, "sorted dictionary").update(b=1, a=2)
    space.table("columns", 1, ["v"]).put(np.arange(100)[:, None], np.arange(100)[None, :])
    space.pool("pool").encode(pa.array(["x", "y"]))
    space.commit([Edit("own", 0, b"beside it")])


_MADE: Final[dict[str, Any]] = {
    "array": [b"", b"", b""],
    "list": [2, 3, 42, 5],
    "queue": ["a", "b", "c"],
    "stack": ["x", "y", "z"],
    "linked": [1, 2, 3],
    "set": [1, 2, 2**80],
    "sorted set": [1, 2, 3],
    "dictionary": ["b", "a"],
    "sorted dictionary": ["a", "b"],
}
_KINDS: Final[dict[str, type[Any]]] = {
    "array": PersistedArray,
    "list": PersistedList,
    "queue": PersistedQueue,
    "stack": PersistedStack,
    "linked": PersistedLinkedList,
    "set": PersistedSet,
    "sorted set": PersistedSortedSet,
    "dictionary": PersistedDictionary,
    "sorted dictionary": PersistedSortedDictionary,
}


def _expect_objects(space: ObjectSpace, expected: dict[str, Any]) -> None:
    assert {name: list(space.get(_KINDS[name], name)) for name in expected} == expected
    space._check()


def _keys(table: KeyedTable) -> list[int]:
    keys: list[int] = sorted(table.keys_of(table.live_slots())[:, 0].tolist())
    return keys


def _edit_objects(store: Store) -> None:
    assert store.get("own", 0) == b"beside it"
    space = ObjectSpace(store)
    _expect_objects(space, _MADE)
    assert space.get(PersistedValue, "value").value == 1
    assert _keys(space.table("columns", 1, ["v"])) == list(range(100))
    assert len(space.pool("pool")) == 2
    space.get(PersistedValue, "value").value = None
    space.get(PersistedList, "list").remove(42)
    space.get(PersistedQueue, "queue").dequeue()
    space.get(PersistedStack, "stack").pop()
    space.get(PersistedLinkedList, "linked").remove(2)
    space.get(PersistedSet, "set").discard(1)
    space.get(PersistedDictionary, "dictionary")["b"] = "changed"
    space.delete("array")
    space.create(PersistedList, "array").append("a list now")
    space.delete("sorted set")
    space.table("columns", 1, ["v"]).delete(np.arange(50)[:, None])
    space.commit()


def _edited_objects(store: Store) -> None:
    space = ObjectSpace(store)
    expected = {name: held for name, held in _MADE.items() if name not in {"array", "sorted set"}}
    expected |= {"list": [2, 3, 5], "queue": ["b", "c"], "stack": ["x", "y"], "linked": [1, 3], "set": [2, 2**80]}
    _expect_objects(space, expected)
    assert space.get(PersistedDictionary, "dictionary")["b"] == "changed"
    assert list(space.get(PersistedList, "array")) == ["a list now"]
    assert list(store.scan("items/sorted set")) == []
    assert space.get(PersistedValue, "value").value is None
    assert _keys(space.table("columns", 1, ["v"])) == list(range(50, 100))
    space.commit(full=True)


CHECKS: Final[dict[str, tuple[Step, ...]]] = {
    "a store is a dict of what was committed": (_commit_some(0, 15), _commit_some(15, 30), _commit_some(30, 31)),
    "what was never written is not there": (_absent, _absent),
    "of two edits for one place the later one holds": (_last_holds, _last_held),
    "keys have 64 bits and values any size": (_put_ends, _ends_held),
    "an object space lives in it": (_make_objects, _edit_objects, _edited_objects, _edited_objects),
}
"""Steps by the claim that they check."""
