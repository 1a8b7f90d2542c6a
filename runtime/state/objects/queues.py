"""A queue and a stack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from runtime.state.objects.contiguous import HEAD, LENGTH, TAIL, Contiguous
from runtime.state.objects.persisted import Line
from runtime.state.objects.slots import Home, Schema

__all__ = ["PersistedQueue", "PersistedStack"]

T = TypeVar("T")


class _Ends(Line[T]):
    """A line that is changed at its ends alone."""

    def _add(self, values: Iterable[T]) -> None:
        self._slots.items.extend([self._slots.kept(value) for value in values])

    def _expect_items(self) -> None:
        if not self._slots.items:
            raise IndexError(f"expected an item in {self.kind} {self.name}, was empty")


class PersistedQueue(_Ends[T]):
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


class PersistedStack(_Ends[T]):
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
