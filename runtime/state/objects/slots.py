"""Base of all persisted objects: a home (the object's place in a store), and slots that track their changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError, StateError
from runtime.state.stores import Edit, Store

__all__ = ["PLAIN", "Home", "PersistedObject", "Schema", "Slots"]


class Schema(msgspec.Struct, frozen=True):
    """Types of an object's items, and the version of these types."""

    value: Any = Any
    """Type of the values; `typing.Any` for plain Python values."""
    key: Any = Any
    """Type of a dictionary's keys."""
    version: int = 1
    """Version that is stored with the object; an object of a lower version is migrated when it is read."""
    migrate: Callable[[int, Any], Any] | None = None
    """Function (stored version, item) → item of this version. An item of a dictionary is a (key, value) pair. Stored
    items are passed as plain Python values, because their types may not exist any more.
    """


PLAIN: Final = Schema()
"""Schema of plain Python values."""


class Home:
    """Place of an object: its name, and its metadata table and items table in a store.

    The object space owns the home, and may change the store of the home.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.metadata = f"metadata/{name}"
        self.items = f"items/{name}"
        self.is_deleted = False

    def expect(self, holds: bool, expected: str, was: object) -> None:
        """Raise `CorruptStateError`, which names the object, if the condition is false."""
        if not holds:
            raise CorruptStateError(f"object {self.name}: expected {expected}, was {was}")

    def raw(self) -> Iterator[Edit]:
        """Yield all stored values as edits."""
        for table in (self.metadata, self.items):
            for slot, data in self.store.scan(table):
                yield Edit(table, slot, data)


class Slots(ABC):
    """Slots of an object: they are read from the store when they are first used; a save writes only their changes.

    A subclass has its content in cached properties. For a new object, `begin` sets these properties. For a stored
    object, their first use reads the store; until then the content takes no memory. Not thread-safe: its only owner is
    the owner of the object space.
    """

    _loaded: str
    """Name of the cached property that is set when the slots are in memory."""

    def __init__(self, home: Home, schema: Schema) -> None:
        self.home = home
        self.schema = schema
        self.codec = Codec(schema.value, home.name)

    @property
    def is_in_memory(self) -> bool:
        """True if the slots have been read, or created."""
        return self._loaded in self.__dict__

    @abstractmethod
    def begin(self) -> None:
        """Initialize a new object, which has no stored values."""

    @abstractmethod
    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        """Migrate every item from this version; the next save writes all items."""

    @abstractmethod
    def _edits(self, full: bool) -> list[Edit]:
        """Return the edits of the changes, or with ``full`` of all items and removals, and mark them as in flight."""

    @abstractmethod
    def on_saved(self) -> None:
        """Mark the last save as durable."""

    @abstractmethod
    def on_failed(self) -> None:
        """Mark the last save as lost or unknown: the next save includes its edits."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant; for tests."""

    def save(self, *, full: bool = False) -> list[Edit]:
        """Return the edits since the last save, or with ``full`` the edits of all items.

        The caller must call `on_saved` or `on_failed` before the next save.
        """
        if self.is_in_memory:
            return self._edits(full)
        return list(self.home.raw()) if full else []

    def forget(self) -> None:
        """Mark the object as deleted, so that later uses raise."""
        self.home.is_deleted = True
        self.__dict__.pop(self._loaded, None)

    def scan(self) -> Iterator[tuple[int, bytes]]:
        """Yield the stored items by ascending slot; raise `StateError` for a deleted object."""
        if self.home.is_deleted:
            raise StateError(f"expected object {self.home.name} to exist, was deleted")
        return self.home.store.scan(self.home.items)

    def metadata(self) -> dict[int, int]:
        """Return the stored metadata, which are integers; raise `StateError` for a deleted object."""
        if self.home.is_deleted:
            raise StateError(f"expected object {self.home.name} to exist, was deleted")
        entries = {}
        for slot, data in self.home.store.scan(self.home.metadata):
            try:
                entries[slot] = msgspec.msgpack.decode(data, type=int)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise CorruptStateError(
                    f"object {self.home.name}: expected a whole number in metadata {slot}, was {data[:40]!r}: {error}"
                ) from None
        return entries

    def item_edits(self, slots: Iterable[tuple[int, bytes | None]]) -> list[Edit]:
        """Return edits of items."""
        table = self.home.items
        return [Edit(table, slot, data) for slot, data in slots]


class PersistedObject(ABC):
    """Named object of an object space; the space creates, returns and saves the object.

    A value that was changed in place (a list, for example) must be set again; otherwise the change may not be saved.
    Not thread-safe: its only owner is the owner of the object space.
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
        """Initialize a new object; only arrays and single values use the arguments."""

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._slots.check()
