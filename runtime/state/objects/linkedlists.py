"""Persisted linked list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Reversible
from typing import ClassVar, Generic, TypeVar

from runtime.state.objects.links import NONE, Links
from runtime.state.objects.persisted import PersistedObject
from runtime.state.objects.slots import Home, Schema

__all__ = ["LinkedNode", "PersistedLinkedList"]

T = TypeVar("T")


class LinkedNode(Generic[T]):
    """Node of a linked list; raises `ValueError` once it has been removed. Two objects of one node are equal."""

    __slots__ = ("_birth", "_links", "number")

    def __init__(self, links: Links, number: int) -> None:
        self._links = links
        self._birth = links.birth(number)
        self.number = number
        """Number by which the list finds the node, also after a restart; reused after the node is removed."""

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
        """Node before it, None at the first."""
        return self._node(self._links.before(self._slot()))

    @property
    def next(self) -> LinkedNode[T] | None:
        """Node after it, None at the last."""
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
    """Persisted linked list: values are added and removed anywhere at the same cost, and nodes are references.

    Adding or removing writes the node and its two neighbours.
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
        return any(own is value or own == value for own in self)

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
            own = self._slots.value(slot)
            if own is value or own == value:
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
        """Append values, one after the other."""
        for value in list(values):
            self.append(value)

    def insert_before(self, node: LinkedNode[T], value: T) -> LinkedNode[T]:
        """Insert before a node; raise `ValueError` if it is not of this list."""
        slot = self._slot(node)
        return LinkedNode(self._slots, self._slots.insert(value, self._slots.before(slot), slot))

    def insert_after(self, node: LinkedNode[T], value: T) -> LinkedNode[T]:
        """Insert after a node; raise `ValueError` if it is not of this list."""
        slot = self._slot(node)
        return LinkedNode(self._slots, self._slots.insert(value, slot, self._slots.after(slot)))

    def remove_node(self, node: LinkedNode[T]) -> None:
        """Remove a node; raise `ValueError` if it is not of this list."""
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
