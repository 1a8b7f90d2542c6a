"""What all persisted objects have in common: a home in a store, and slots that know which of them changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError, StateError
from runtime.state.stores.store import Edit, Store

__all__ = ["PLAIN", "Home", "Schema", "Slots"]


class Schema(msgspec.Struct, frozen=True):
    """What an object's items are, and the version of that."""

    value: Any = Any
    """Type of the values; `typing.Any` for plain Python values."""
    key: Any = Any
    """Type of a dictionary's keys."""
    version: int = 1
    """Stored with the object; one that was stored with a lower version is migrated when it is got."""
    migrate: Callable[[int, Any], Any] | None = None
    """(stored version, item) → item of this version; an item of a dictionary is a (key, value) pair. Plain Python
    values go in, as the old types are gone."""


PLAIN: Final = Schema()
"""Plain Python values."""


class Home:
    """An object's place: its name, and its metadata table and items table in a store.

    Owned by the object space, whose store may change.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.metadata = f"metadata/{name}"
        self.items = f"items/{name}"
        self.is_deleted = False

    def expect(self, holds: bool, expected: str, was: object) -> None:
        """Raise `CorruptStateError` that names the object unless the condition holds."""
        if not holds:
            raise CorruptStateError(f"object {self.name}: expected {expected}, was {was}")

    def raw(self) -> Iterator[Edit]:
        """All that is stored, as edits."""
        for table in (self.metadata, self.items):
            for slot, data in self.store.scan(table):
                yield Edit(table, slot, data)


class Slots(ABC):
    """An object's slots: read from the store when they are first used, and saved by what changed.

    A subclass keeps what it holds in cached properties, which `begin` sets and a restore computes; until then an
    object costs nothing. Not thread-safe: one owner at a time, the object space's.
    """

    _held: str
    """The cached property that is there when the slots are in memory."""

    def __init__(self, home: Home, schema: Schema) -> None:
        self.home = home
        self.schema = schema
        self.codec = Codec(schema.value, home.name)

    @property
    def is_in_memory(self) -> bool:
        """Whether the slots have been read, or made."""
        return self._held in self.__dict__

    @abstractmethod
    def begin(self) -> None:
        """A new object: nothing of it is stored."""

    @abstractmethod
    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        """Change every item over from this version; all are saved next."""

    @abstractmethod
    def _edits(self, full: bool) -> list[Edit]:
        """What changed, or all that is held and what is gone; remembered as in flight."""

    @abstractmethod
    def on_saved(self) -> None:
        """The last save is durable."""

    @abstractmethod
    def on_failed(self) -> None:
        """The last save is lost, or nobody knows: its edits go out with the next."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant; for tests."""

    def save(self, *, full: bool = False) -> list[Edit]:
        """The edits since the last save, or everything; `on_saved` or `on_failed` must follow before the next."""
        if self.is_in_memory:
            return self._edits(full)
        return list(self.home.raw()) if full else []

    def forget(self) -> None:
        """The object is deleted: whoever still has it is told so."""
        self.home.is_deleted = True
        self.__dict__.pop(self._held, None)

    def scan(self) -> Iterator[tuple[int, bytes]]:
        """The items as stored, by ascending slot."""
        if self.home.is_deleted:
            raise StateError(f"expected object {self.home.name} to exist, was deleted")
        return self.home.store.scan(self.home.items)

    def metadata(self) -> dict[int, int]:
        """The metadata as stored: whole numbers."""
        if self.home.is_deleted:
            raise StateError(f"expected object {self.home.name} to exist, was deleted")
        found = {}
        for slot, data in self.home.store.scan(self.home.metadata):
            try:
                found[slot] = msgspec.msgpack.decode(data, type=int)
            except msgspec.DecodeError as error:
                raise CorruptStateError(
                    f"object {self.home.name}: expected a whole number in metadata {slot}, was {data[:40]!r}: {error}"
                ) from None
        return found

    def item_edits(self, slots: Iterable[tuple[int, bytes | None]]) -> list[Edit]:
        """Edits of items."""
        table = self.home.items
        return [Edit(table, slot, data) for slot, data in slots]
