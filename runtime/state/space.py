"""Object space: named objects over one store, with an index of their names, and string pools.

`ObjectSpace.capture` returns the changes since the last commit. The owner commits these changes, possibly on another
thread, together with other data of the same moment, such as an epoch's cut and the checksum of its segment. If a commit
fails, the next commit includes its edits. Edits made while a commit is in progress belong to the next commit.

The store has a table ``index`` of names and kinds. An object of the ten persisted types has a table ``metadata/NAME``
and a table ``items/NAME`` with a key for each slot; an object of a columnar kind has one table ``object/NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar, cast

import msgspec

from runtime.state.chains import Chain, QueueChain, QueueHolder, RunHolder, SweptChain, SweptHolder, TableRuns
from runtime.state.codec import type_name
from runtime.state.columnar import KeyedTable, StringPool
from runtime.state.errors import (
    CorruptStateError,
    KindError,
    NameTakenError,
    SchemaVersionError,
    StateError,
    UnknownKindError,
)
from runtime.state.objects import KINDS, PLAIN, Home, PersistedObject, Schema
from runtime.state.objects.scattered import Changes, FreeSlots
from runtime.state.stores import Edit, LateEdit, MemoryStore, Store, encoded

__all__ = ["ObjectSpace"]

_TABLE: Final = "index"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Description of an object."""

    kind: str
    """Kind: one of the ten persisted types, or a columnar kind with its layout."""
    name: str
    """Name of the object."""
    version: int = 1
    """Version of the object's schema."""
    value: str = "Any"
    """Type of the object's values."""
    key: str = "Any"
    """Type of the object's keys."""


class Index:
    """Map from names to entries, each in a slot. Not thread-safe: its only owner is the owner of the object space."""

    def __init__(self, store: Store) -> None:
        """Read the index; raise `CorruptStateError` for damage."""
        self._entries: dict[str, tuple[int, Entry]] = {}
        self._free = FreeSlots()
        self._changes = Changes()
        for slot, data in store.scan(_TABLE):
            entry = _decoded_entry(slot, data)
            if entry.name in self._entries:
                raise CorruptStateError(f"expected object {entry.name} once in the object index, was it twice")
            self._entries[entry.name] = slot, entry
        self._free.restore(slot for slot, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for _, entry in self._entries.values())

    def get(self, name: str) -> Entry | None:
        """Return the entry of an object; None if no object has this name."""
        record = self._entries.get(name)
        return None if record is None else record[1]

    def put(self, entry: Entry) -> None:
        """Add an object, or replace its entry."""
        record = self._entries.get(entry.name)
        slot = self._free.take() if record is None else record[0]
        self._entries[entry.name] = slot, entry
        self._changes.put(slot, msgspec.msgpack.encode(entry), is_new=record is None)

    def remove(self, name: str) -> None:
        """Remove an object."""
        slot, _ = self._entries.pop(name)
        self._free.give_back(slot)
        self._changes.drop(slot)

    def save(self, *, full: bool) -> list[Edit]:
        """Return the edits of the changed entries, or with ``full`` of all entries."""
        edits = dict(self._changes.take_off())
        if full:
            edits |= {slot: msgspec.msgpack.encode(entry) for slot, entry in self._entries.values()}
        return [Edit(_TABLE, slot, data) for slot, data in edits.items()]

    def on_saved(self) -> None:
        """Mark the last save as durable."""
        self._changes.on_saved()

    def on_failed(self) -> None:
        """Mark the last save as lost or unknown."""
        self._changes.on_failed()

    def check(self) -> None:
        """Assert every invariant; for tests."""
        slots = {slot for slot, _ in self._entries.values()}
        assert len(slots) == len(self._entries)
        self._free.check(slots)


def _decoded_entry(slot: int, data: bytes) -> Entry:
    try:
        return msgspec.msgpack.decode(data, type=Entry)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptStateError(f"expected entry {slot} of the object index, was {data[:40]!r}: {error}") from None


class StoredPool:
    """Persisted string pool. Not thread-safe: its only owner is the owner of the object space.

    Strings are only added. So a save writes all new strings together, under the number of the first new string.
    """

    def __init__(self, table: str, name: str, store: Store) -> None:
        """Read the pool; raise `CorruptStateError`, which names the object, for damage."""
        self.pool = StringPool()
        self._table = table
        self._parts: list[int] = []  # keys in the store: the number of the first string of each save
        for first, data in store.scan(table):
            if first != len(self.pool):
                raise CorruptStateError(f"object {name}: expected strings from {len(self.pool)} on, was {first}")
            self.pool.extend(_decoded_string(data, name))
            self._parts.append(first)
        self._saved = len(self.pool)
        self._planned: tuple[list[int], int] | None = None

    def save(self, *, full: bool = False) -> list[Edit]:
        """Return the edits of the new strings, or with ``full`` of all strings as one part.

        The caller must call `on_saved` or `on_failed` before the next save.
        """
        first = 0 if full else self._saved
        if len(self.pool) == first:
            return []
        gone = [Edit(self._table, part, None) for part in self._parts if part] if full else []
        self._planned = ([0] if full else [*self._parts, first]), len(self.pool)
        return [*gone, Edit(self._table, first, msgspec.msgpack.encode(self.pool.added_since(first)))]

    def on_saved(self) -> None:
        """Mark the last save as durable."""
        if self._planned is not None:
            (self._parts, self._saved), self._planned = self._planned, None

    def on_failed(self) -> None:
        """Mark the last save as lost: the next save includes its strings, under the same number."""
        self._planned = None


def _decoded_string(data: bytes, name: str) -> list[str]:
    try:
        return msgspec.msgpack.decode(data, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptStateError(f"expected strings of object {name}, was {data[:16]!r}…: {error}") from None


_COLUMNAR: Final = frozenset({"table", "pool", "runs"})
"""First words of the columnar kinds."""
P = TypeVar("P", bound=PersistedObject)


class _Saved(Protocol):
    """Interface of the objects that an object space saves."""

    def save(self, *, full: bool = False) -> Sequence[Edit | LateEdit]: ...

    def on_saved(self) -> None: ...

    def on_failed(self) -> None: ...


class ObjectSpace:
    """Named objects over one store. Not thread-safe: one owner at a time.

    ``space.create(PersistedList, "prices", Schema(int))`` creates an object; `KINDS` has the ten persisted types.
    """

    def __init__(self, store: Store) -> None:
        """Read only the index; raise `CorruptStateError` if it cannot be read."""
        self._store = store
        self._index = Index(store)
        self._saved: dict[str, _Saved] = {}  # name → object that has been used
        self._objects: dict[str, PersistedObject] = {}
        self._homes: dict[str, Home] = {}
        self._gone: set[str] = set()  # names of objects that were deleted since the last save
        self._gone_in_flight: set[str] | None = None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._index.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all objects."""
        return (entry.name for entry in self._index)

    def __len__(self) -> int:
        return len(self._index)

    def kind(self, name: str) -> str:
        """Return the kind of an object; raise `KeyError` if no object has this name."""
        return self._entry(name).kind

    def create(self, kind: type[P], name: str, schema: Schema = PLAIN, *, length: int = 0, initial: object = None) -> P:
        """Create an object.

        ``length`` is the length of an array. ``initial`` is the value of each item of an array, or the value of a
        `PersistedValue`. Raises `NameTakenError` if an object has the name.
        """
        if name in self:
            raise NameTakenError(f"expected no object named {name}, was a {self.kind(name)}")
        home = Home(name, self._store)
        slots = kind.slots_of(home, schema)
        slots.begin()
        made = kind(slots)
        made.begin(length, initial)
        self._index.put(_entry_of(kind, name, schema))
        self._objects[name], self._saved[name], self._homes[name] = made, slots, home
        return made

    def get(self, kind: type[P], name: str, schema: Schema = PLAIN) -> P:
        """Return the object of this name; every call returns the same object.

        The slots of the object are read when they are first used. An object of a lower schema version is read and
        migrated at once. The call raises:

        * `KeyError` if no object has this name;
        * `KindError` (a `TypeError`) if the object is of another kind, or has other types;
        * `UnknownKindError` if this version does not support the kind of the object;
        * `SchemaVersionError` if the object's schema version is higher, or is lower and ``schema`` has no migration.
        """
        entry = self._entry(name)
        if entry.kind != kind.kind:
            if entry.kind not in KINDS and entry.kind.split(":")[0] not in _COLUMNAR:
                raise UnknownKindError(f"expected object {name} to be of a known kind, was {entry.kind!r}")
            raise KindError(f"expected object {name} to be {kind.kind}, was {entry.kind}")
        self._expect_types(entry, schema)
        known = self._objects.get(name)
        if known is not None:
            return cast(P, known)
        home = Home(name, self._store)
        slots = kind.slots_of(home, schema)
        if entry.version < schema.version:
            assert schema.migrate is not None
            slots.migrate(entry.version, schema.migrate)
            self._index.put(_entry_of(kind, name, schema))
        created = kind(slots)
        self._objects[name], self._saved[name], self._homes[name] = created, slots, home
        return created

    def get_or_create(
        self, kind: type[P], name: str, schema: Schema = PLAIN, *, length: int = 0, initial: object = None
    ) -> P:
        """Return the object of this name; create it if it is missing. Raise `get`'s errors except `KeyError`."""
        if name in self:
            return self.get(kind, name, schema)
        return self.create(kind, name, schema, length=length, initial=initial)

    def delete(self, name: str) -> None:
        """Delete an object of any kind; raise `KeyError` if it is missing. The name can be used again at once."""
        self._entry(name)
        self._index.remove(name)
        self._gone.add(name)
        self._saved.pop(name, None)
        self._homes.pop(name, None)
        known = self._objects.pop(name, None)
        if known is not None:
            known._slots.forget()

    def table(self, name: str, width: int, values: Sequence[str]) -> KeyedTable:
        """Return the keyed table of this name; create it if it is missing. Raise `KindError` for another kind."""
        chain = self._columnar(name, f"table:{width}:{','.join(values)}")
        if chain is None:
            runs = TableRuns(name, KeyedTable(width, values))
            chain = self._saved[name] = SweptChain(_table_of(name), name, runs, self._source(name))
        assert isinstance(chain, SweptChain)
        assert isinstance(chain.holder, TableRuns)
        return chain.holder.table

    def pool(self, name: str) -> StringPool:
        """Return the string pool of this name; create it if it is missing. Raise `KindError` for another kind."""
        stored = self._columnar(name, "pool")
        if stored is None:
            stored = self._saved[name] = StoredPool(_table_of(name), name, self._source(name))
        assert isinstance(stored, StoredPool)
        return stored.pool

    def runs(self, name: str, holder: RunHolder) -> None:
        """Restore the holder's state from the runs of this name; later saves write its changes under this name.

        Raise `StateError` if an object of another kind has the name, or if there is a holder for the name already.
        Raise `CorruptStateError` for runs that the holder refuses.
        """
        self._hold(Chain, name, "runs", holder)

    def queue(self, name: str, holder: QueueHolder) -> None:
        """Do the same as `runs` for a holder that evicts in FIFO order."""
        self._hold(QueueChain, name, "runs", holder)

    def swept(self, name: str, kind: str, holder: SweptHolder) -> None:
        """Do the same as `runs` for a holder that is compacted in steps.

        ``kind`` describes the table and its runs.
        """
        self._hold(SweptChain, name, kind, holder)

    def _hold(self, chain: type[Chain], name: str, kind: str, holder: RunHolder) -> None:
        if self._columnar(name, kind) is not None:
            raise StateError(f"expected object {name} to have no holder yet, was held already")
        self._saved[name] = chain(_table_of(name), name, holder, self._source(name))

    def save(self, *, full: bool = False) -> list[Edit]:
        """Capture all changes as `capture` does, and return their edits."""
        return self.capture(full=full)()

    def capture(self, *, full: bool = False) -> Callable[[], list[Edit]]:
        """Capture all changes, or with ``full`` the whole space as for an empty store.

        The returned function encodes and returns the edits; later changes are not among them. The function is called at
        most once, on any thread. The caller must then call `on_saved` or `on_failed`; if it calls neither, the next
        capture counts this capture as failed.
        """
        if self._gone_in_flight is not None:
            self.on_failed()
        gone = self._deletions()
        self._gone_in_flight, self._gone = self._gone, set()
        edits: list[Edit | LateEdit] = [*self._index.save(full=full)]
        for saved in self._saved.values():
            edits += saved.save(full=full)
        if full:
            edits += self._unused()
        if gone:
            places = {(edit.table, edit.key) for edit in edits}
            edits += [edit for edit in gone if (edit.table, edit.key) not in places]
        return partial(encoded, edits)

    def on_saved(self) -> None:
        """Mark the last save as durable."""
        self._gone_in_flight = None
        self._index.on_saved()
        for saved in self._saved.values():
            saved.on_saved()

    def on_failed(self) -> None:
        """Mark the last save as lost or unknown: the next save includes its edits."""
        self._gone |= self._gone_in_flight or set()
        self._gone_in_flight = None
        self._index.on_failed()
        for saved in self._saved.values():
            saved.on_failed()

    def commit(self, also: Sequence[Edit] = (), *, full: bool = False) -> None:
        """Save, and commit the changes and the caller's edits in one transaction; raise the errors of the store."""
        edits = self.save(full=full)
        try:
            self._store.commit([*edits, *also])
        except BaseException:
            self.on_failed()
            raise
        self.on_saved()

    def move_to(self, store: Store) -> None:
        """Write a full checkpoint into an empty store, and use this store from then on.

        Raise `StateError` if the store has objects. After an error of the new store, the space still uses the old one.
        """
        if len(Index(store)):
            raise StateError("expected an empty store to move to, was one with objects")
        edits = self.save(full=True)
        try:
            store.commit(edits)
        except BaseException:
            self.on_failed()
            raise
        self.on_saved()
        self._store = store
        for home in self._homes.values():
            home.store = store

    def _entry(self, name: str) -> Entry:
        entry = self._index.get(name)
        if entry is None:
            raise KeyError(f"expected an object named {name}, was none")
        return entry

    def _expect_types(self, entry: Entry, schema: Schema) -> None:
        if entry.version > schema.version or (entry.version < schema.version and schema.migrate is None):
            hook = "" if entry.version > schema.version else ", and nothing to migrate it with"
            raise SchemaVersionError(
                f"expected object {entry.name} of schema version {schema.version}, was {entry.version}{hook}"
            )
        types = type_name(schema.key), type_name(schema.value)
        if entry.version == schema.version and types != (entry.key, entry.value):
            raise KindError(
                f"expected object {entry.name} to be of key and value types {types}, was {(entry.key, entry.value)}"
            )

    def _columnar(self, name: str, kind: str) -> _Saved | None:
        """Return a columnar object if it has been used before, else None; add a new object to the index.

        Raises `KindError` if an object of another kind has the name.
        """
        known = self._index.get(name)
        if known is None:
            self._index.put(Entry(kind, name))
        elif known.kind != kind:
            raise KindError(f"expected object {name} to be {kind}, was {known.kind}")
        return self._saved.get(name)

    def _source(self, name: str) -> Store:
        """Return the store from which a columnar object is read: an empty store if the name is reused.

        The real store still has the content of the earlier object of this name.
        """
        return MemoryStore() if name in self._gone | (self._gone_in_flight or set()) else self._store

    def _deletions(self) -> list[Edit]:
        """Return edits that delete all stored values of the deleted objects."""
        tables = [table for name in sorted(self._gone | (self._gone_in_flight or set())) for table in _tables_of(name)]
        return [Edit(table, key, None) for table in tables for key in self._store.keys(table)]

    def _unused(self) -> Iterator[Edit]:
        """Yield edits with the stored values of the objects that were not used since the store was opened."""
        for entry in self._index:
            if entry.name not in self._saved:
                for table in _tables_of(entry.name):
                    for key, data in self._store.scan(table):
                        yield Edit(table, key, data)

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._index.check()
        assert self._objects.keys() <= self._saved.keys() <= set(self)
        for persisted in self._objects.values():
            persisted._check()


def _entry_of(kind: type[PersistedObject], name: str, schema: Schema) -> Entry:
    return Entry(kind.kind, name, schema.version, type_name(schema.value), type_name(schema.key))


def _table_of(name: str) -> str:
    return f"object/{name}"


def _tables_of(name: str) -> tuple[str, str, str]:
    """Return the tables that an object of any kind may have."""
    return f"metadata/{name}", f"items/{name}", _table_of(name)
