"""Base classes of persisted objects, and of arrays, queues and stacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeVar, overload

from runtime.state.objects.contiguous import Contiguous
from runtime.state.objects.slots import Home, Schema, Slots

__all__ = ["Line", "PersistedObject"]

T = TypeVar("T")


class PersistedObject(ABC):
    """Named object of an object space, by which it is created, returned and saved.

    Values are stored as they are when they are set: one that can be changed in place (a list) must be set again
    afterwards. Not thread-safe: one owner at a time, the object space's.
    """

    kind: ClassVar[str]
    """Name of the type in the index."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    @property
    def name(self) -> str:
        """Name of the object in the object space."""
        return self._slots.home.name

    @classmethod
    @abstractmethod
    def slots_of(cls, home: Home, schema: Schema) -> Slots:
        """Return the slots of an object of this kind."""

    def begin(self, length: int, initial: object) -> None:  # noqa: B027 (most begin empty)
        """Fill a new object; only arrays and values use the arguments."""

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._slots.check()


class Line(PersistedObject, Sequence[T]):
    """Base of items in contiguous slots, read by place; each kind defines how they change."""

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
            return [self._slots.value(number) for number in range(*place.indices(len(self)))]
        value: T = self._slots.value(place)
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {list(self)!r})"
