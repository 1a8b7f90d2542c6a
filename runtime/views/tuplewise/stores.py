"""What the kernel keeps of a map: one store for each way in which a view reads it, and the source that changes it.

========  =====================================  ===================================================
kind      what it holds                          read by
========  =====================================  ===================================================
sums      keys → (weight, sums)                  linear views, results, lookups of whole keys or sums
fan       keys → other keys → (weight, sums)     lookups with a row for every match
ordered   keys → `BlockedSums` by the last key   lookups of ranges, selections
========  =====================================  ===================================================

Nothing is held for a key whose weight and sums are 0: what adds nothing to any sum is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from runtime.views.tuplewise.blocked import BlockedSums
from runtime.views.tuplewise.source import Source, Value, tuple_of

__all__ = ["OrderedStore", "Part", "Store", "StoreSet"]


class Part(NamedTuple):
    """A map that deltas are added to."""

    owner: str | None
    """The view that an auxiliary map, or its own copy of a base map, belongs to; None: all views."""
    name: int | str
    """Number of a base map, name of an auxiliary map."""


class Store(NamedTuple):
    """A way in which a part is kept; equal ones are kept once."""

    part: Part
    """What is kept."""
    kind: Literal["sums", "fan", "ordered"]
    """How."""
    on: tuple[str, ...]
    """The keys that are looked up, in the part's order."""
    rest: tuple[str, ...] = ()
    """fan: the other keys. ordered: the ordered key."""


class OrderedStore:
    """Groups of a map, each with its entries by an ordered key; entries whose ordered key is NULL stand beside."""

    __slots__ = ("_width", "groups", "keys", "nulls")

    def __init__(self, width: int, *, is_grouped: bool) -> None:
        self._width = width
        self.groups: dict[Any, BlockedSums] = {}
        """By the keys that are looked up."""
        self.nulls: dict[Any, tuple[int, ...]] = {}
        """The same for entries without a value of the ordered key."""
        self.keys: BlockedSums | None = BlockedSums(1) if is_grouped else None
        """In how many groups a value of the ordered key stands; None where there is one group."""

    def add(self, group: Any, key: Any, deltas: tuple[int, ...]) -> None:
        """Add to the entry of a group at a key."""
        if key is None:
            old = self.nulls.get(group, (0,) * self._width)
            new = tuple(map(int.__add__, old, deltas))
            if any(new):
                self.nulls[group] = new
            else:
                self.nulls.pop(group, None)
            return
        held = self.groups.get(group)
        if held is None:
            held = self.groups[group] = BlockedSums(self._width)
        came = held.add(key, deltas)
        if came and self.keys is not None:
            self.keys.add(key, (came,))
        if not held:
            del self.groups[group]

    @property
    def all_keys(self) -> BlockedSums:
        """The values of the ordered key in any group."""
        if self.keys is not None:
            return self.keys
        return next(iter(self.groups.values()), _NONE)

    def _check(self) -> None:
        """Assert every invariant."""
        counts: dict[Any, int] = {}
        for held in self.groups.values():
            held._check()
            assert held
            for key in held:
                counts[key] = counts.get(key, 0) + 1
        assert list(self.all_keys) == sorted(counts)
        assert all(map(any, self.nulls.values()))
        if self.keys is None:
            assert len(self.groups) <= 1
        else:
            self.keys._check()
            assert self.keys.totals == [sum(counts.values())]


_NONE = BlockedSums(1)  # of nothing; never added to


class StoreSet:
    """The stores of a program, named in the source of its functions."""

    def __init__(self, source: Source, widths: Mapping[Part, int], wanted: Iterable[Store]) -> None:
        self._source = source
        self._widths = widths
        self.held: dict[Store, Any] = {}
        self._names: dict[Store, str] = {}
        self._of_part: dict[Part, list[Store]] = {}
        for store in wanted:
            if store in self.held:
                continue
            is_ordered = store.kind == "ordered"
            value: Any = OrderedStore(widths[store.part], is_grouped=bool(store.on)) if is_ordered else {}
            self.held[store] = value
            self._names[store] = source.hold("m", value)
            self._of_part.setdefault(store.part, []).append(store)

    def name(self, store: Store) -> str:
        """The identifier of a store."""
        return self._names[store]

    def find(self, store: Store, key: str) -> Value:
        """A line that looks a group up: an entry, a dictionary of entries or a `BlockedSums`, or None."""
        groups = f"{self._names[store]}.groups" if store.kind == "ordered" else self._names[store]
        return self._source.assign("e", f"{groups}.get({key})", nullable=True)

    def add(self, part: Part, keys: Mapping[str, str], deltas: list[str]) -> dict[Store, tuple[str, str, str]]:
        """Lines that add to every store of a part; per store of sums the names of key, old and new entry (or None)."""
        changed = {}
        for store in self._of_part.get(part, ()):
            group = tuple_of([keys[name] for name in store.on])
            if store.kind == "ordered":
                self._source.put(f"{self._names[store]}.add({group}, {keys[store.rest[0]]}, {_row(deltas)})")
                continue
            if store.kind == "sums":
                changed[store] = self._add_to(self._names[store], group, deltas)
                continue
            outer, source = self._names[store], self._source
            key = source.assign("k", group).text
            inner = source.assign("m", f"{outer}.get({key})").text
            with source.block(f"if {inner} is None:"):
                source.put(f"{inner} = {outer}[{key}] = {{}}")
            self._add_to(inner, tuple_of([keys[name] for name in store.rest]), deltas)
            with source.block(f"if not {inner}:"):
                source.put(f"del {outer}[{key}]")
        return changed

    def _add_to(self, held: str, group: str, deltas: list[str]) -> tuple[str, str, str]:
        source = self._source
        key = source.assign("k", group).text
        old = source.assign("e", f"{held}.get({key})").text
        new = source.name("n")
        with source.block(f"if {old} is None:"):
            source.put(f"{new} = {held}[{key}] = {_row(deltas)}")
        with source.block("else:"):
            parts = [source.name("s") for _ in deltas]
            source.put(f"{_row(parts)} = {old}")
            for part, delta in zip(parts, deltas, strict=True):
                source.put(f"{part} += {delta}")
            with source.block(f"if {' or '.join(parts)}:"):
                source.put(f"{new} = {held}[{key}] = {_row(parts)}")
            with source.block("else:"):
                source.put(f"{new} = None")
                source.put(f"del {held}[{key}]")
        return key, old, new

    def entries(self) -> int:
        """How many entries all stores hold."""
        return sum(_size(held) for held in self.held.values())

    def _check(self) -> None:
        """Assert every invariant."""
        for store, held in self.held.items():
            if store.kind == "ordered":
                held._check()
            elif store.kind == "sums":
                assert all(map(any, held.values()))
            else:
                assert all(entries and all(map(any, entries.values())) for entries in held.values())


def _size(held: Any) -> int:
    if isinstance(held, OrderedStore):
        return sum(map(len, held.groups.values())) + len(held.nulls)
    return sum(len(value) if isinstance(value, dict) else 1 for value in held.values())


def _row(texts: list[str]) -> str:
    return f"({', '.join(texts)},)"
