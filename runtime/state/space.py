"""The object space: named state that is checkpointed by its edits.

``save`` collects what changed, ``commit`` makes it durable together with whatever else belongs to the same moment (the
epoch's cut and its segment's checksum), ``on_saved`` forgets it; a failed commit loses nothing, its edits go out with
the next. A keyed table is stored as a chain of runs; when the runs outweigh the base they are compacted into a new
one, so that both a checkpoint and the chain follow what changes and what is held, never the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from runtime.state.chains import Chain, RunHolder, TableRuns
from runtime.state.columnar.columns import StringPool
from runtime.state.columnar.table import KeyedTable
from runtime.state.errors import CorruptStateError, StateError
from runtime.state.store import Edit, Store

__all__ = ["ObjectSpace"]

_INDEX: Final = "index"


class _Kind(msgspec.Struct, frozen=True):
    """An entry of the index: what an object is."""

    kind: str
    name: str
    number: int


class _PoolObject:
    """A string pool; strings are only ever added, so a save writes the new ones under the number of the first."""

    def __init__(self, name: str, store: Store) -> None:
        self.pool = StringPool()
        self._name = f"object/{name}"
        for _, data in store.scan(self._name):
            self.pool.extend(_decode_strings(data, name))
        self._saved = self._saving = len(self.pool)

    def save(self) -> list[Edit]:
        self._saving = len(self.pool)
        if self._saving == self._saved:
            return []
        return [Edit(self._name, self._saved, msgspec.msgpack.encode(self.pool.added_since(self._saved)))]

    def on_saved(self) -> None:
        self._saved = self._saving

    def on_failed(self) -> None:
        self._saving = self._saved


class _ValueObject:
    """One MessagePack value."""

    def __init__(self, name: str, store: Store) -> None:
        self._name = f"object/{name}"
        self.data = store.get(self._name, 0)
        self._saved = self._saving = self.data

    def save(self) -> list[Edit]:
        self._saving = self.data
        return [] if self._saving == self._saved else [Edit(self._name, 0, self._saving)]

    def on_saved(self) -> None:
        self._saved = self._saving

    def on_failed(self) -> None:
        self._saving = self._saved


_Object = Chain | _PoolObject | _ValueObject


class ObjectSpace:
    """Named objects over one store. Not thread-safe: one owner at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._objects: dict[str, _Object] = {}
        self._kinds = {k.name: k for k in (_decode_kind(data) for _, data in store.scan(_INDEX))}
        self._new_kinds: list[_Kind] = []

    def table(self, name: str, width: int, values: Sequence[str]) -> KeyedTable:
        """The keyed table of this name, made if it was not there; raises `StateError` if it is another kind."""
        held = self._get(name, f"table:{width}:{','.join(values)}")
        if not isinstance(held, Chain):
            held = self._objects[name] = self._chain(name, TableRuns(name, KeyedTable(width, values)))
        assert isinstance(held.holder, TableRuns)
        return held.holder.table

    def runs(self, name: str, holder: RunHolder) -> None:
        """Keep this holder under this name from now on, restored from what was saved of it.

        Raises `StateError` if the name is of another kind or has a holder already, `CorruptStateError` for runs that
        the holder does not take.
        """
        if self._get(name, "runs") is not None:
            raise StateError(f"expected object {name} to have no holder yet, was held already")
        self._objects[name] = self._chain(name, holder)

    def _chain(self, name: str, holder: RunHolder) -> Chain:
        return Chain(f"object/{name}", name, holder, self._store)

    def pool(self, name: str) -> StringPool:
        """The string pool of this name, made if it was not there; raises `StateError` if it is another kind."""
        held = self._get(name, "pool")
        if not isinstance(held, _PoolObject):
            held = self._objects[name] = _PoolObject(name, self._store)
        return held.pool

    def get_value(self, name: str) -> bytes | None:
        """The bytes under this name, None before the first `set_value`."""
        return self._value(name).data

    def set_value(self, name: str, data: bytes) -> None:
        """Set the bytes under this name."""
        self._value(name).data = data

    def save(self) -> list[Edit]:
        """Everything that changed; `on_saved` or `on_failed` must follow before the next save."""
        edits = [Edit(_INDEX, k.number, msgspec.msgpack.encode(k)) for k in self._new_kinds]
        for held in self._objects.values():
            edits += held.save()
        return edits

    def commit(self, also: Sequence[Edit] = ()) -> None:
        """Save and make durable in one transaction, with edits of the caller's own; raises what the store raises."""
        edits = self.save()
        try:
            self._store.commit([*edits, *also])
        except BaseException:
            for held in self._objects.values():
                held.on_failed()
            raise
        self._new_kinds = []
        for held in self._objects.values():
            held.on_saved()

    def _value(self, name: str) -> _ValueObject:
        held = self._get(name, "value")
        if not isinstance(held, _ValueObject):
            held = self._objects[name] = _ValueObject(name, self._store)
        return held

    def _get(self, name: str, kind: str) -> _Object | None:
        known = self._kinds.get(name)
        if known is None:
            known = self._kinds[name] = _Kind(kind, name, len(self._kinds))
            self._new_kinds.append(known)
        if known.kind != kind:
            raise StateError(f"expected object {name} to be {kind}, was {known.kind}")
        return self._objects.get(name)


def _decode_strings(data: bytes, name: str) -> list[str]:
    try:
        return msgspec.msgpack.decode(data, type=list[str])
    except msgspec.DecodeError as error:
        raise CorruptStateError(f"expected strings of object {name}, was {data[:16]!r}…: {error}") from None


def _decode_kind(data: bytes) -> _Kind:
    try:
        return msgspec.msgpack.decode(data, type=_Kind)
    except msgspec.DecodeError as error:
        raise CorruptStateError(f"expected an entry of the object index, was {data[:40]!r}: {error}") from None
