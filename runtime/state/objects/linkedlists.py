"""Persisted linked list, in slots with links to their neighbours."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Reversible
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.scattered import Scattered
from runtime.state.objects.slots import Home, PersistedObject, Schema

__all__ = ["LinkedNode", "Links", "PersistedLinkedList"]

NONE: Final = -1
"""Absent neighbour: before the first node, and after the last node."""
_FREE: Final = -2
"""Mark of a slot without a node."""
_NODE: Final = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw])
_THREE: Final = b"\x93"
"""First byte of a MessagePack array of three."""


class Links(Scattered):
    """Nodes of a linked list; a node is stored as the slots of its two neighbours, and a value. One owner at a time."""

    _loaded = "values"

    def __init__(self, home: Home, schema: Schema) -> None:
        super().__init__(home, schema)
        self.first = NONE
        self.last = NONE
        self.count = 0
        self._before = array("q")  # slot → slot of the node before; _FREE if the slot has no node
        self._after = array("q")
        self._births = array("q")  # slot → a number that no other node in this process has
        self._born = 0

    @cached_property
    def values(self) -> list[Any]:
        """Values by slot, encoded if they are bytes. Raises `CorruptStateError` if the nodes do not form one list."""
        values: list[Any] = []
        before, after = array("q"), array("q")
        taken = []
        for slot, data in self.scan():
            for _ in range(slot - len(values)):
                values.append(None)
                before.append(_FREE)
                after.append(_FREE)
            previous, following, value = self._parts(slot, data)
            before.append(previous)
            after.append(following)
            values.append(value)
            taken.append(slot)
        first, last = self._expect_one_list(taken, before, after)
        self._before, self._after, self.first, self.last, self.count = before, after, first, last, len(taken)
        self._births = array("q", range(self._born, self._born + len(values)))
        self._born += len(values)
        self.free.restore(taken)
        return values

    def _parts(self, slot: int, data: bytes) -> tuple[int, int, bytes]:
        try:
            previous, following, value = _NODE.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptStateError(
                f"object {self.home.name}: expected a node in slot {slot}, was {data[:40]!r}: {error}"
            ) from None
        return previous, following, bytes(value)

    def _expect_one_list(self, taken: list[int], before: array[int], after: array[int]) -> tuple[int, int]:
        """Return the first and the last slot; raise `CorruptStateError` if the nodes do not form one list."""
        slot = first = next((slot for slot in taken if before[slot] == NONE), NONE)
        last, seen = NONE, 0
        while slot != NONE:
            is_node = 0 <= slot < len(before) and before[slot] != _FREE
            self.home.expect(is_node, f"a node after slot {last}", f"slot {slot}, which is free")
            self.home.expect(before[slot] == last, f"slot {last} before slot {slot}", f"slot {before[slot]}")
            last, slot, seen = slot, after[slot], seen + 1
        self.home.expect(seen == len(taken), f"{len(taken)} nodes in one list", f"{seen} of them from slot {first}")
        return first, last

    def begin(self) -> None:
        self.values = []

    def insert(self, value: object, before: int, after: int) -> int:
        """Insert a node between two neighbours, each of which may be `NONE`; return the slot of the node."""
        data = self.codec.encode(value)
        values = self.values
        slot = self.free.take()
        if slot == len(values):
            values.append(None)
            for links in (self._before, self._after, self._births):
                links.append(_FREE)
        values[slot] = data if type(value) is bytes else value
        self._before[slot], self._after[slot] = before, after
        self._births[slot] = self._born
        self._born += 1
        self.changes.put(slot, self._node(slot, data), is_new=True)
        self._link(before, slot, after)
        self.count += 1
        return slot

    def remove(self, slot: int) -> None:
        """Remove a node."""
        before, after = self._before[slot], self._after[slot]
        self._before[slot] = self._after[slot] = _FREE
        self._births[slot] = _FREE
        self.values[slot] = None
        self.changes.drop(slot)
        self.free.give_back(slot)
        self.count -= 1
        if before == NONE:
            self.first = after
        else:
            self._after[before] = after
            self._changed(before)
        if after == NONE:
            self.last = before
        else:
            self._before[after] = before
            self._changed(after)

    def clear(self) -> None:
        """Remove all nodes."""
        for slot in sorted(self.walk()):
            self.changes.drop(slot)
        self.values.clear()
        self.free.clear()
        self._before, self._after, self._births = array("q"), array("q"), array("q")
        self.first = self.last = NONE
        self.count = 0

    def _link(self, before: int, slot: int, after: int) -> None:
        if before == NONE:
            self.first = slot
        else:
            self._after[before] = slot
            self._changed(before)
        if after == NONE:
            self.last = slot
        else:
            self._before[after] = slot
            self._changed(after)

    def value(self, slot: int) -> Any:
        """Return the value of a node; the value stays decoded."""
        value = self.values[slot]
        if type(value) is bytes:
            value = self.codec.decode(value)
            if type(value) is not bytes:
                self.values[slot] = value
        return value

    def change(self, slot: int, value: object) -> None:
        """Set the value of a node."""
        data = self.codec.encode(value)
        self.values[slot] = data if type(value) is bytes else value
        self.changes.put(slot, self._node(slot, data), is_new=False)

    def before(self, slot: int) -> int:
        """Return the slot of the node before a node, or `NONE`."""
        return self._before[slot]

    def after(self, slot: int) -> int:
        """Return the slot of the node after a node, or `NONE`."""
        return self._after[slot]

    def birth(self, slot: int) -> int:
        """Return a number that no other node has or had; a negative number if the slot is free."""
        return self._births[slot] if 0 <= slot < len(self.values) and self._before[slot] != _FREE else _FREE

    def walk(self) -> Iterator[int]:
        """Yield the slots of all nodes in order."""
        slot = self.first if self.values else NONE  # reading the values also sets the ends
        while slot != NONE:
            yield slot
            slot = self._after[slot]

    def encoded(self) -> Iterator[tuple[int, bytes]]:
        for slot in sorted(self.walk()):
            yield slot, self._stored(slot)

    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        plain = Codec(Any, self.home.name)
        values = self.values
        for slot in self.walk():
            self.change(slot, migrate(version, plain.decode(values[slot])))

    def check(self) -> None:
        if not self.is_in_memory:
            return
        taken = [slot for slot, before in enumerate(self._before) if before != _FREE]
        self.free.check(set(taken))
        assert len(self.values) == len(self._before) == len(self._after) == len(self._births) == self.free.end
        assert self._expect_one_list(taken, self._before, self._after) == (self.first, self.last)
        assert self.count == len(taken)

    def _changed(self, slot: int) -> None:
        self.changes.put(slot, self._stored(slot), is_new=False)

    def _stored(self, slot: int) -> bytes:
        value = self.values[slot]
        return self._node(slot, value if type(value) is bytes else self.codec.encode(value))

    def _node(self, slot: int, data: bytes) -> bytes:
        ends = msgspec.msgpack.encode(self._before[slot]), msgspec.msgpack.encode(self._after[slot])
        return _THREE + ends[0] + ends[1] + data


T = TypeVar("T")


class LinkedNode(Generic[T]):
    """Node of a linked list. Any use of a removed node raises `ValueError`. Two objects for the same node are equal."""

    __slots__ = ("_birth", "_links", "number")

    def __init__(self, links: Links, number: int) -> None:
        self._links = links
        self._birth = links.birth(number)
        self.number = number
        """Number of the node for `PersistedLinkedList.node`, also after a restart; reused after the node is removed."""

    @property
    def value(self) -> T:
        """Value of the node."""
        value: T = self._links.value(self._slot())
        return value

    @value.setter
    def value(self, value: T) -> None:
        self._links.change(self._slot(), value)

    @property
    def previous(self) -> LinkedNode[T] | None:
        """Node before this one; None at the first."""
        return self._node(self._links.before(self._slot()))

    @property
    def next(self) -> LinkedNode[T] | None:
        """Node after this one; None at the last."""
        return self._node(self._links.after(self._slot()))

    def _node(self, slot: int) -> LinkedNode[T] | None:
        return None if slot == NONE else LinkedNode(self._links, slot)

    def _slot(self) -> int:
        if self._birth < 0 or self._links.birth(self.number) != self._birth:
            raise ValueError(f"expected a node of linked list {self._links.home.name}, was removed")
        return self.number

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinkedNode):
            return NotImplemented
        return self._links is other._links and self._birth == other._birth

    def __hash__(self) -> int:
        return hash((id(self._links), self._birth))


class PersistedLinkedList(PersistedObject, Collection[T], Reversible[T]):
    """Persisted linked list: adding or removing a value costs the same at every place.

    A `LinkedNode` refers to a value. An insertion or a removal writes the node and its two neighbours.
    """

    kind: ClassVar[str] = "linked_list"
    _slots: Links

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Links:
        return Links(home, schema)

    def __len__(self) -> int:
        return self._slots.count if self._slots.values else 0

    def __iter__(self) -> Iterator[T]:
        for slot in self._slots.walk():
            yield self._slots.value(slot)

    def __reversed__(self) -> Iterator[T]:
        node = self.last
        while node is not None:
            yield node.value
            node = node.previous

    def __contains__(self, value: object) -> bool:
        return self.find(value) is not None

    @property
    def first(self) -> LinkedNode[T] | None:
        """First node, None in an empty list."""
        return LinkedNode(self._slots, self._slots.first) if self else None

    @property
    def last(self) -> LinkedNode[T] | None:
        """Last node, None in an empty list."""
        return LinkedNode(self._slots, self._slots.last) if self else None

    def node(self, number: int) -> LinkedNode[T]:
        """Return the node of a number; raise `KeyError` if there is none."""
        if self._slots.birth(number) < 0:
            raise KeyError(number)
        return LinkedNode(self._slots, number)

    def find(self, value: object) -> LinkedNode[T] | None:
        """Return the first node of this value, None if there is none."""
        for slot in self._slots.walk():
            stored = self._slots.value(slot)
            if stored is value or stored == value:
                return LinkedNode(self._slots, slot)
        return None

    def append(self, value: T) -> LinkedNode[T]:
        """Append a value."""
        last = self._slots.last if self else NONE
        return LinkedNode(self._slots, self._slots.insert(value, last, NONE))

    def appendleft(self, value: T) -> LinkedNode[T]:
        """Prepend a value."""
        first = self._slots.first if self else NONE
        return LinkedNode(self._slots, self._slots.insert(value, NONE, first))

    def extend(self, values: Iterable[T]) -> None:
        """Append the values, one after the other."""
        for value in list(values):
            self.append(value)

    def insert_before(self, node: LinkedNode[T], value: T) -> LinkedNode[T]:
        """Insert a value before a node; raise `ValueError` if the node is not of this list."""
        slot = self._slot(node)
        return LinkedNode(self._slots, self._slots.insert(value, self._slots.before(slot), slot))

    def insert_after(self, node: LinkedNode[T], value: T) -> LinkedNode[T]:
        """Insert a value after a node; raise `ValueError` if the node is not of this list."""
        slot = self._slot(node)
        return LinkedNode(self._slots, self._slots.insert(value, slot, self._slots.after(slot)))

    def remove_node(self, node: LinkedNode[T]) -> None:
        """Remove a node; raise `ValueError` if the node is not of this list."""
        self._slots.remove(self._slot(node))

    def remove(self, value: T) -> None:
        """Remove the first node of this value; raise `ValueError` if there is none."""
        node = self.find(value)
        if node is None:
            raise ValueError(f"expected a value of linked list {self.name}, was {value!r}")
        self.remove_node(node)

    def pop(self) -> T:
        """Remove and return the last value; raise `IndexError` if the list is empty."""
        return self._taken(self.last)

    def popleft(self) -> T:
        """Remove and return the first value; raise `IndexError` if the list is empty."""
        return self._taken(self.first)

    def clear(self) -> None:
        """Remove all nodes."""
        self._slots.clear()

    def _taken(self, node: LinkedNode[T] | None) -> T:
        if node is None:
            raise IndexError(f"expected a node in linked list {self.name}, was empty")
        value = node.value
        self.remove_node(node)
        return value

    def _slot(self, node: LinkedNode[T]) -> int:
        if node._links is not self._slots:
            raise ValueError(f"expected a node of linked list {self.name}, was of {node._links.home.name}")
        return node._slot()

    def __repr__(self) -> str:
        return f"PersistedLinkedList({self.name!r}, {list(self)!r})"
