"""Persisted list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence
from operator import index
from typing import Any, ClassVar, TypeVar, overload

from runtime.state.objects.contiguous import LENGTH, Contiguous
from runtime.state.objects.persisted import PersistedObject
from runtime.state.objects.slots import Home, Schema

__all__ = ["PersistedList"]

T = TypeVar("T")


class PersistedList(PersistedObject, MutableSequence[T]):
    """Persisted `list`, with all but an order (`<`), copies and ``*``.

    An item is in the slot of its place, so that an insertion or a removal writes all items after it again.
    """

    kind: ClassVar[str] = "list"
    _slots: Contiguous

    @classmethod
    def slots_of(cls, home: Home, schema: Schema) -> Contiguous:
        return Contiguous(home, schema, (LENGTH,))

    def __len__(self) -> int:
        return len(self._slots.items)

    def __iter__(self) -> Iterator[T]:
        """Iterate as a list does, over items appended meanwhile too."""
        place = 0
        while place < len(self._slots.items):
            yield self._slots.value(place)
            place += 1

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self._slots.value(number) for number in range(*place.indices(len(self)))]
        value: T = self._slots.value(place)
        return value

    @overload
    def __setitem__(self, place: int, value: T) -> None: ...
    @overload
    def __setitem__(self, place: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, place: int | slice, value: Any) -> None:
        slots = self._slots
        if isinstance(place, slice):
            places = range(*place.indices(len(self)))
            checked = [slots.checked(item) for item in value]
            before = len(self)
            slots.items[place] = checked
            if len(self) != before or len(checked) != len(places):
                slots.renew(places.start)
            else:
                slots.changed.update(slots.head + number for number in places if slots.head + number < slots.new_from)
            return
        slots.change(self._place(place, "assignment"), value)

    def __delitem__(self, place: int | slice) -> None:
        if isinstance(place, slice):
            places = range(*place.indices(len(self)))
            if places:
                del self._slots.items[place]
                self._slots.renew(min(places))
            return
        number = self._place(place, "deletion")
        del self._slots.items[number]
        self._slots.renew(number)

    def insert(self, place: int, value: T) -> None:
        length = len(self)
        number = index(place)
        number = max(0, number + length) if number < 0 else min(number, length)
        self._slots.items.insert(number, self._slots.checked(value))
        self._slots.renew(number)

    def append(self, value: T) -> None:
        self._slots.items.append(self._slots.checked(value))

    def extend(self, values: Iterable[T]) -> None:
        """Append all of the values, or none if one of them cannot be stored."""
        self._slots.items.extend([self._slots.checked(value) for value in values])

    def clear(self) -> None:
        self._slots.items.clear()
        self._slots.renew(0)

    def reverse(self) -> None:
        self._slots.items.reverse()
        self._slots.renew(0)

    def sort(self, *, key: Callable[[T], Any] | None = None, reverse: bool = False) -> None:
        """Sort stably, as a list does; raise `TypeError`, and change nothing, for items without an order."""
        ordered: list[Any] = sorted(self, key=key, reverse=reverse)
        kept = [self._slots.checked(value) for value in ordered]
        self._slots.items[:] = kept
        self._slots.renew(0)

    def _place(self, place: int, what: str) -> int:
        number, length = index(place), len(self)
        if not -length <= number < length:
            raise IndexError(f"expected an index of list {self.name} of {length} for an {what}, was {number}")
        return number % length

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, PersistedList)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistedList({self.name!r}, {list(self)!r})"
