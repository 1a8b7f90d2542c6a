"""The object space: named state that is checkpointed by its edits.

``save`` collects what changed, ``commit`` makes it durable together with whatever else belongs to the same moment (the
epoch's cut and its segment's checksum), ``on_saved`` forgets it; a failed commit loses nothing, its edits go out with
the next. A keyed table is stored as a chain of runs; when the runs outweigh the base they are compacted into a new
one, so that both a checkpoint and the chain follow what changes and what is held, never the history.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa

from runtime.state.columns import StringPool
from runtime.state.errors import CorruptStateError, StateError
from runtime.state.store import Edit, Store
from runtime.state.table import KeyedTable

__all__ = ["ObjectSpace", "decode_run", "encode_run"]

_INDEX: Final = "index"
_SMALLEST_BASE_BYTES: Final = 64 * 1024
_CHECKSUM: Final = struct.Struct("<I")


class _Kind(msgspec.Struct, frozen=True):
    """An entry of the index: what an object is."""

    kind: str
    name: str
    number: int


def encode_run(run: pa.RecordBatch) -> bytes:
    """A run as an Arrow IPC stream and, behind it, the stream's CRC-32."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, run.schema) as writer:
        writer.write_batch(run)
    data: bytes = sink.getvalue().to_pybytes()
    return data + _CHECKSUM.pack(zlib.crc32(data))


def decode_run(data: bytes, name: str) -> pa.RecordBatch:
    """The run of these bytes; raises `CorruptStateError` that names the object."""
    stream = memoryview(data)[: -_CHECKSUM.size]
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack(data[len(stream) :])[0] != zlib.crc32(stream):
        raise CorruptStateError(f"expected a run of object {name}, was {data[:16]!r}… with another checksum")
    try:
        return pa.ipc.open_stream(pa.py_buffer(stream)).read_next_batch()
    except (pa.ArrowInvalid, StopIteration, OSError) as error:
        raise CorruptStateError(f"expected a run of object {name}, was {data[:16]!r}…: {error}") from None


class _TableObject:
    """A keyed table and the chain of runs that stores it."""

    def __init__(self, name: str, table: KeyedTable, store: Store) -> None:
        self.table = table
        self._name = f"object/{name}"
        self._runs: dict[int, int] = {}  # key → bytes; the lowest key is the base
        for key, data in store.scan(self._name):
            self._apply(decode_run(data, name), name)
            self._runs[key] = len(data)
        self._planned: dict[int, int] = {}

    def _apply(self, run: pa.RecordBatch, name: str) -> None:
        try:
            self.table.apply_run(run)
        except CorruptStateError as error:
            raise CorruptStateError(f"object {name}: {error}") from None

    def save(self) -> list[Edit]:
        if not self.table.dirty and not self.table._in_flight:
            return []
        run = encode_run(self.table.save())
        key = max(self._runs, default=-1) + 1
        sizes = [self._runs[k] for k in sorted(self._runs)]
        if sizes and sum(sizes[1:]) + len(run) > max(sizes[0], _SMALLEST_BASE_BYTES):
            base = encode_run(self.table.save_all())
            self._planned = {key: len(base)}
            return [Edit(self._name, k, None) for k in self._runs] + [Edit(self._name, key, base)]
        self._planned = self._runs | {key: len(run)}
        return [Edit(self._name, key, run)]

    def on_saved(self) -> None:
        if self._planned:
            self._runs, self._planned = self._planned, {}
        self.table.on_saved()

    def on_failed(self) -> None:
        self._planned = {}
        self.table.on_failed()


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


_Object = _TableObject | _PoolObject | _ValueObject


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
        if not isinstance(held, _TableObject):
            held = self._objects[name] = _TableObject(name, KeyedTable(width, values), self._store)
        return held.table

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
