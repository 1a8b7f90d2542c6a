"""A linked list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Reversible
from typing import ClassVar, Generic, TypeVar

from runtime.state.objects.links import NONE, Links
from runtime.state.objects.persisted import PersistedObject
from runtime.state.objects.slots import Home, Schema

__all__ = ["LinkedNode", "PersistedLinkedList"]

T = TypeVar("T")


class LinkedNode(Generic[T]):
    """A place in a linked list; raises `ValueError` once the node has been removed. Two of one node are equal."""

    __slots__ = ("_birth", "_links", "number")

    def __init__(self, links: Links, number: int) -> None:
        self._links = links
        self._birth = links.birth(number)
        self.number = number
        """By which the list finds it again, also after a restart; given to another once the node is removed."""

    @property
    def value(self) -> T:
        """What stands there."""
        value: T = self._links.value(self._slot())
        return value

    @value.setter
    def value(self, value: T) -> None:
        self._links.change(self._slot(), value)

    @property
    def previous(self) -> LinkedNode[T] | None:
        """The node before it, None at the first."""
        return self._node(self._links.before(self._slot()))

    @property
    def next(self) -> LinkedNode[T] | None:
        """The node behind it, None at the last."""
        return self._node(self._links.behind(self._slot()))

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
    """Values in a line, added and removed anywhere at the same cost: a `collections.deque` with places.

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
        """The node at the beginning, None in an empty list."""
        return LinkedNode(self._slots, self._slots.first) if self else None

    @property
    def last(self) -> LinkedNode[T] | None:
        """The node at the end, None in an empty list."""
        return LinkedNode(self._slots, self._slots.last) if self else None

    def node(self, number: int) -> LinkedNode[T]:
        """The node of a number; raises `KeyError` if there is none."""
        if self._slots.birth(number) < 0:
            raise KeyError(number)
        return LinkedNode(self._slots, number)

    def find(self, value: object) -> LinkedNode[T] | None:
        """The first node of this value, None if there is none."""
        for slot in self._slots.walk():
            own = self._slots.value(slot)
            if own is value or own == value:
                return LinkedNode(self._slots, slot)
        return None

    def append(self, value: T) -> LinkedNode[T]:
        """Add at the end."""
        last = self._slots.last if self else NONE
        return LinkedNode(self._slots, self._slots.insert(value, last, NONE))

    def appendleft(self, value: T) -> LinkedNode[T]:
        """Add at the beginning."""
        first = self._slots.first if self else NONE
        return LinkedNode(self._slots, self._slots.insert(value, NONE, first))

    def extend(self, values: Iterable[T]) -> None:
        """Add at the end, one after the other."""
        for value in list(values):
            self.append(value)

    def insert_before(self, node: LinkedNode[T], value: T) -> LinkedNode[T]:
        """Add before a node; raises `ValueError` if it is not of this list."""
        slot = self._slot(node)
        return LinkedNode(self._slots, self._slots.insert(value, self._slots.before(slot), slot))

    def insert_after(self, node: LinkedNode[T], value: T) -> LinkedNode[T]:
        """Add behind a node; raises `ValueError` if it is not of this list."""
        slot = self._slot(node)
        return LinkedNode(self._slots, self._slots.insert(value, slot, self._slots.behind(slot)))

    def remove_node(self, node: LinkedNode[T]) -> None:
        """Take a node out; raises `ValueError` if it is not of this list."""
        self._slots.remove(self._slot(node))

    def remove(self, value: T) -> None:
        """Take out the first node of this value; raises `ValueError` if there is none."""
        node = self.find(value)
        if node is None:
            raise ValueError(f"expected a value of linked list {self.name}, was {value!r}")
        self.remove_node(node)

    def pop(self) -> T:
        """Take from the end; raises `IndexError` if there is nothing."""
        return self._taken(self.last)

    def popleft(self) -> T:
        """Take from the beginning; raises `IndexError` if there is nothing."""
        return self._taken(self.first)

    def clear(self) -> None:
        """Take everything out."""
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
