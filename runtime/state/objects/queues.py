"""A queue and a stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, TypeVar, overload

from runtime.state.objects.contiguous import HEAD, LENGTH, TAIL, Contiguous
from runtime.state.objects.persisted import PersistedObject
from runtime.state.objects.slots import Home, Schema

__all__ = ["PersistedQueue", "PersistedStack"]

T = TypeVar("T")


class _Line(PersistedObject, Sequence[T]):
    """Items that are read like a sequence and changed at the ends alone."""

    _slots: Contiguous

    def __len__(self) -> int:
        return len(self._slots.items)

    def __iter__(self) -> Iterator[T]:
        return self._slots.values()

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self._slots.value(one) for one in range(*place.indices(len(self)))]
        value: T = self._slots.value(place)
        return value

    def _add(self, values: Iterable[T]) -> None:
        self._slots.items.extend([self._slots.kept(value) for value in values])

    def _expect_items(self) -> None:
        if not self._slots.items:
            raise IndexError(f"expected an item in {self.kind} {self.name}, was empty")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {list(self)!r})"


class PersistedQueue(_Line[T]):
    """First in, first out: a `collections.deque` that is added to at the end and taken from at the front.

    Slots are numbered from the first item that ever was; their numbers only grow.
    """

    kind: ClassVar[str] = "queue"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (HEAD, TAIL), is_queue=True)

    def enqueue(self, value: T) -> None:
        """Add at the end."""
        self._slots.items.append(self._slots.kept(value))

    def extend(self, values: Iterable[T]) -> None:
        """Add at the end, all of them or none."""
        self._add(values)

    def dequeue(self) -> T:
        """Take from the front; raises `IndexError` if there is nothing."""
        value = self.peek()
        del self._slots.items[0]
        self._slots.head += 1
        return value

    def peek(self) -> T:
        """The item at the front, left there; raises `IndexError` if there is nothing."""
        self._expect_items()
        value: T = self._slots.value(0)
        return value

    def clear(self) -> None:
        """Take everything."""
        tail = self._slots.tail
        self._slots.items.clear()
        self._slots.head = tail


class PersistedStack(_Line[T]):
    """Last in, first out: a `list` that is added to and taken from at its end, read from the bottom up."""

    kind: ClassVar[str] = "stack"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def push(self, value: T) -> None:
        """Put on top."""
        self._slots.items.append(self._slots.kept(value))

    def extend(self, values: Iterable[T]) -> None:
        """Put on top, one after the other, all of them or none."""
        self._add(values)

    def pop(self) -> T:
        """Take from the top; raises `IndexError` if there is nothing."""
        value = self.peek()
        self._slots.items.pop()
        self._slots.renew(len(self._slots.items))
        return value

    def peek(self) -> T:
        """The item on top, left there; raises `IndexError` if there is nothing."""
        self._expect_items()
        value: T = self._slots.value(len(self._slots.items) - 1)
        return value

    def clear(self) -> None:
        """Take everything."""
        self._slots.items.clear()
        self._slots.renew(0)
