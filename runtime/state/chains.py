"""State that is stored as a chain of runs: a base, and behind it the edits of each checkpoint.

When the runs outweigh the base they are compacted into a new one, so that both a checkpoint and the chain follow what
changes and what is held, never the history. A compaction writes everything that is held: its cost is spread over the
edits that made it necessary, but falls on one checkpoint.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, Protocol

import pyarrow as pa

from runtime.state.columnar.table import KeyedTable
from runtime.state.errors import CorruptStateError
from runtime.state.stores.store import Edit, Store

__all__ = ["Chain", "RunHolder", "TableRuns", "decode_run", "encode_run"]

_SMALLEST_BASE_BYTES: Final = 64 * 1024
_CHECKSUM: Final = struct.Struct("<I")


class RunHolder(Protocol):
    """What a chain keeps: state that can say what changed, as bytes, and take it over again."""

    @property
    def dirty(self) -> bool:
        """Whether anything changed since the last `save`."""

    def save(self) -> bytes:
        """What changed since the last save that was followed by `on_saved`, as a run."""

    def save_all(self) -> bytes:
        """Everything held, as a run that stands alone; also what `save` would give is in it."""

    def on_saved(self) -> None:
        """The last save is durable."""

    def on_failed(self) -> None:
        """The last save is lost: its edits go out with the next."""

    def apply_run(self, data: bytes) -> None:
        """Take over a run; leaves nothing dirty. Raises `CorruptStateError`."""


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


class TableRuns:
    """The runs of a keyed table as bytes. Not thread-safe: one owner at a time, the table's."""

    def __init__(self, name: str, table: KeyedTable) -> None:
        self.table = table
        self._name = name

    @property
    def dirty(self) -> bool:
        return self.table.dirty

    def save(self) -> bytes:
        return encode_run(self.table.save())

    def save_all(self) -> bytes:
        return encode_run(self.table.save_all())

    def on_saved(self) -> None:
        self.table.on_saved()

    def on_failed(self) -> None:
        self.table.on_failed()

    def apply_run(self, data: bytes) -> None:
        self.table.apply_run(decode_run(data, self._name))


class Chain:
    """The runs of a holder in a table of a store, under ascending keys of which the lowest is the base.

    Not thread-safe: one owner at a time, the object space's.
    """

    def __init__(self, table: str, name: str, holder: RunHolder, store: Store) -> None:
        """Restore the holder; raises `CorruptStateError` that names the object."""
        self.holder = holder
        self._table = table
        self._sizes: dict[int, int] = {}  # key → bytes, ascending
        for key, data in store.scan(table):
            try:
                holder.apply_run(data)
            except CorruptStateError as error:
                raise CorruptStateError(f"object {name}, run {key}: {error}") from None
            self._sizes[key] = len(data)
        self._next = max(self._sizes, default=-1) + 1
        self._edits = sum(self._sizes.values()) - self._base_bytes  # bytes of the runs behind the base
        self._planned: tuple[int, int, bool] | None = None  # key, bytes, whether it is a base

    @property
    def _base_bytes(self) -> int:
        return next(iter(self._sizes.values()), 0)

    def save(self, *, full: bool = False) -> list[Edit]:
        """The edits that store what changed; `on_saved` or `on_failed` must follow before the next."""
        if not self.holder.dirty and not (full and self._sizes):
            return []
        run = self.holder.save()
        key = self._next
        is_heavy = self._edits + len(run) > max(self._base_bytes, _SMALLEST_BASE_BYTES)
        if self._sizes and (full or is_heavy):
            run = self.holder.save_all()
            self._planned = key, len(run), True
            return [*(Edit(self._table, old, None) for old in self._sizes), Edit(self._table, key, run)]
        self._planned = key, len(run), False
        return [Edit(self._table, key, run)]

    def on_saved(self) -> None:
        """The last save is durable."""
        if self._planned is not None:
            key, size, is_base = self._planned
            if is_base:
                self._sizes, self._edits = {}, 0
            elif self._sizes:
                self._edits += size
            self._sizes[key] = size
            self._next, self._planned = key + 1, None
        self.holder.on_saved()

    def on_failed(self) -> None:
        """The last save is lost, or nobody knows: its edits go out with the next, under the same key."""
        self._planned = None
        self.holder.on_failed()
