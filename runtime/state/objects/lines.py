"""What arrays, queues and stacks have in common: they are read like a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

from runtime.state.objects.contiguous import Contiguous
from runtime.state.objects.persisted import PersistedObject

__all__ = ["Line"]

T = TypeVar("T")


class Line(PersistedObject, Sequence[T]):
    """Items in contiguous slots, read by place; how they change is the matter of each kind."""

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {list(self)!r})"
