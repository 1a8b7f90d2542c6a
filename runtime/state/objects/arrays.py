"""Persisted value and persisted array of fixed length."""

from __future__ import annotations

from operator import index
from typing import ClassVar, Generic, TypeVar

from runtime.state.objects.contiguous import LENGTH, Contiguous
from runtime.state.objects.persisted import Line, PersistedObject
from runtime.state.objects.slots import Home, Schema

__all__ = ["PersistedArray", "PersistedValue"]

T = TypeVar("T")


class PersistedValue(PersistedObject, Generic[T]):
    """Persisted single value, `value`."""

    kind: ClassVar[str] = "value"
    _slots: Contiguous

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, ())

    def begin(self, length: int, initial: object) -> None:
        self._slots.items.append(self._slots.checked(initial))

    @property
    def value(self) -> T:
        """The value; the initial one until it is set."""
        value: T = self._slots.value(0)
        return value

    @value.setter
    def value(self, value: T) -> None:
        self._slots.change(0, value)

    def __repr__(self) -> str:
        return f"PersistedValue({self.name!r}, {self.value!r})"


class PersistedArray(Line[T]):
    """Persisted `collections.abc.Sequence` of fixed length, whose items can be set: ``array[3] = 42``."""

    kind: ClassVar[str] = "array"

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def begin(self, length: int, initial: object) -> None:
        if length < 0:
            raise ValueError(f"expected a length of at least 0 for array {self.name}, was {length}")
        self._slots.items.extend([self._slots.checked(initial)] * length)

    def __setitem__(self, place: int, value: T) -> None:
        """Set an item; raise `IndexError` outside of the array."""
        number = index(place)
        length = len(self)
        if not -length <= number < length:
            raise IndexError(f"expected an index of array {self.name} of {length}, was {number}")
        self._slots.change(number % length, value)
