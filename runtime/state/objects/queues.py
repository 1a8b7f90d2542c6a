"""Persisted queue and stack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from runtime.state.objects.contiguous import HEAD, LENGTH, TAIL, Contiguous
from runtime.state.objects.persisted import Line
from runtime.state.objects.slots import Home, Schema

__all__ = ["PersistedQueue", "PersistedStack"]

T = TypeVar("T")


class _Ends(Line[T]):
    """Base of lines that change only at their ends."""

    def _add(self, values: Iterable[T]) -> None:
        self._slots.items.extend([self._slots.checked(value) for value in values])

    def _expect_items(self) -> None:
        if not self._slots.items:
            raise IndexError(f"expected an item in {self.kind} {self.name}, was empty")


class PersistedQueue(_Ends[T]):
    """Persisted queue, first in, first out: a `collections.deque` that is appended to and popped from the front.

    Slots are numbered from the first item ever; the numbers only grow.
    """

    kind: ClassVar[str] = "queue"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (HEAD, TAIL), is_queue=True)

    def enqueue(self, value: T) -> None:
        """Append a value."""
        self._slots.items.append(self._slots.checked(value))

    def extend(self, values: Iterable[T]) -> None:
        """Append all of the values, or none."""
        self._add(values)

    def dequeue(self) -> T:
        """Remove and return the front item; raise `IndexError` if the queue is empty."""
        value = self.peek()
        del self._slots.items[0]
        self._slots.head += 1
        return value

    def peek(self) -> T:
        """Return the front item without removing it; raise `IndexError` if the queue is empty."""
        self._expect_items()
        value: T = self._slots.value(0)
        return value

    def clear(self) -> None:
        """Remove all items."""
        tail = self._slots.tail
        self._slots.items.clear()
        self._slots.head = tail


class PersistedStack(_Ends[T]):
    """Persisted stack, last in, first out: a `list` that changes at its end, read from the bottom up."""

    kind: ClassVar[str] = "stack"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def push(self, value: T) -> None:
        """Push a value."""
        self._slots.items.append(self._slots.checked(value))

    def extend(self, values: Iterable[T]) -> None:
        """Push values, one after the other, all of them or none."""
        self._add(values)

    def pop(self) -> T:
        """Remove and return the top item; raise `IndexError` if the stack is empty."""
        value = self.peek()
        self._slots.items.pop()
        self._slots.renew(len(self._slots.items))
        return value

    def peek(self) -> T:
        """Return the top item without removing it; raise `IndexError` if the stack is empty."""
        self._expect_items()
        value: T = self._slots.value(len(self._slots.items) - 1)
        return value

    def clear(self) -> None:
        """Remove all items."""
        self._slots.items.clear()
        self._slots.renew(0)
