"""What every persisted object is, beside a Python collection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from runtime.state.objects.slots import Home, Schema, Slots

__all__ = ["PersistedObject"]


class PersistedObject(ABC):
    """A named object of an object space: made and got there, and saved with it.

    Values are taken as they are when they are given: one that can be changed in place (a list) must be given again
    after it was. Not thread-safe: one owner at a time, the object space's.
    """

    kind: ClassVar[str]
    """What it is called in the index."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    @property
    def name(self) -> str:
        """Its name in the object space."""
        return self._slots.home.name

    @classmethod
    @abstractmethod
    def slots_of(cls, home: Home, schema: Schema) -> Slots:
        """The slots that an object of this kind is kept in."""

    def begin(self, length: int, initial: object) -> None:  # noqa: B027 (most begin empty)
        """Fill a new object; arrays and values alone take something."""

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._slots.check()
