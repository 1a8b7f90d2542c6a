"""Chains of runs: any holder of state comes back from them, and they stay in proportion to what it holds."""

from __future__ import annotations

import random

import msgspec
import pytest

from runtime.state import CorruptStateError, Edit, MemoryStore, ObjectSpace, Run, StateError
from tests.generators.stores import BrokenDiskError, UnreliableStore


class Counters:
    """A holder: numbers by name, whose runs are the ones that changed."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self._changed: set[str] = set()
        self._in_flight: set[str] = set()

    @property
    def dirty(self) -> bool:
        return bool(self._changed)

    wants_base = False

    def add(self, name: str, number: int) -> None:
        self.held[name] = self.held.get(name, 0) + number
        self._changed.add(name)

    def save(self) -> Run:
        self._in_flight |= self._changed
        self._changed = set()
        return _run({name: self.held[name] for name in sorted(self._in_flight)})

    def save_all(self) -> Run:
        return _run(dict(self.held))

    def on_saved(self) -> None:
        self._in_flight = set()

    def on_failed(self) -> None:
        self._changed |= self._in_flight
        self._in_flight = set()

    def apply_run(self, data: bytes) -> None:
        try:
            self.held |= msgspec.msgpack.decode(data, type=dict[str, int])
        except msgspec.DecodeError as error:
            raise CorruptStateError(f"expected counters, was {data!r}: {error}") from None


class Rewriters(Counters):
    """Counters that have everything written each time."""

    wants_base = True

    def save(self) -> Run:
        raise AssertionError("expected no run of edits")


def _run(held: dict[str, int]) -> Run:
    return Run(16 * len(held), lambda: msgspec.msgpack.encode(held))


def opened(store: UnreliableStore) -> tuple[ObjectSpace, Counters]:
    space, counters = ObjectSpace(store), Counters()
    space.runs("counters", counters)
    return space, counters


def test_a_holder_returns_and_its_chain_follows_its_items() -> None:
    """Thousands of commits, some of which fail, leave a bounded number of bytes."""
    store = UnreliableStore(MemoryStore())
    space, counters = opened(store)
    chance = random.Random(5)
    most = 0
    for step in range(6000):
        counters.add(f"counter {chance.randrange(500)}", step)
        if step % 7 == 0:
            store.failures = ["lost", "unknown"]
            for _ in range(2):
                with pytest.raises(BrokenDiskError):
                    space.commit()
                counters.add("another", 1)
        space.commit()
        if step % 500 == 0:
            most = max(most, sum(len(data) for _, data in store.scan("object/counters")))
            assert opened(store)[1].held == counters.held
    assert opened(store)[1].held == counters.held
    assert most < 3 * 64 * 1024


def test_nothing_changed_writes_nothing_and_full_has_all() -> None:
    store = UnreliableStore(MemoryStore())
    space, counters = opened(store)
    counters.add("a", 1)
    space.commit()
    counters.add("b", 2)
    space.commit()
    space.commit()
    assert store.edits == []
    other = UnreliableStore(MemoryStore())
    space.move_to(other)
    assert [key for key, _ in other.scan("object/counters")] == [2]
    assert opened(other)[1].held == {"a": 1, "b": 2}


def test_a_name_has_one_holder_and_a_broken_run_is_named() -> None:
    store = UnreliableStore(MemoryStore())
    space, counters = opened(store)
    with pytest.raises(StateError, match="expected object counters to have no holder yet"):
        space.runs("counters", Counters())
    with pytest.raises(StateError, match="expected object counters to be pool, was runs"):
        space.pool("counters")
    counters.add("a", 1)
    space.commit()
    store.commit([Edit("object/counters", 0, b"\xc1")])
    with pytest.raises(CorruptStateError, match="object counters, run 0: expected counters"):
        opened(store)


def test_a_run_that_is_missing_between_others_is_named() -> None:
    store = UnreliableStore(MemoryStore())
    space, counters = opened(store)
    for name in "abc":
        counters.add(name, 1)
        space.commit()
    store.commit([Edit("object/counters", 1, None)])
    with pytest.raises(CorruptStateError, match="object counters: expected run 1, was run 2"):
        opened(store)


def test_a_holder_whose_object_was_deleted_begins_anew() -> None:
    store = UnreliableStore(MemoryStore())
    space, counters = opened(store)
    counters.add("a", 1)
    space.commit()
    space.delete("counters")
    fresh = Counters()
    space.runs("counters", fresh)
    assert fresh.held == {}
    fresh.add("b", 2)
    space.commit()
    assert opened(store)[1].held == {"b": 2}


def test_a_holder_that_wants_a_base_has_a_chain_of_one_run() -> None:
    store = UnreliableStore(MemoryStore())
    space, counters = ObjectSpace(store), Rewriters()
    space.runs("counters", counters)
    for number in range(5):
        counters.add(f"counter {number}", number)
        space.commit()
        assert len(list(store.scan("object/counters"))) == 1
    assert opened(store)[1].held == counters.held
