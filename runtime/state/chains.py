"""State that is stored as a chain of runs, each of which has the edits of one checkpoint.

A chain is compacted when its runs are larger than the live state. So the size of the chain and the cost of a checkpoint
depend on the live state and the changes, never on the history. A chain is compacted in one of three ways:

* A `Chain` replaces its runs by a *base*, a run of the whole state. The cost of a base is in proportion to the edits
  before the base, but a single checkpoint has all of this cost.
* A `SweptChain` has a holder that can save its state part by part. Each checkpoint also saves a part of the unchanged
  state, in proportion to the changes. When all parts have been written, the runs before the first part are useless. So
  no checkpoint costs more than about three times its edits.
* A `QueueChain` has a holder that evicts in FIFO order. A run is deleted when none of its rows is live.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import partial
from itertools import islice, takewhile
from typing import Final, Protocol

import msgspec
import pyarrow as pa

from runtime.state.columnar.table import KeyedTable
from runtime.state.errors import CorruptStateError
from runtime.state.stores import Edit, LateEdit, Store

__all__ = [
    "Chain",
    "QueueChain",
    "QueueHolder",
    "Run",
    "RunHolder",
    "SweptChain",
    "SweptHolder",
    "TableRuns",
    "decode_run",
    "encode_run",
]

_SMALLEST_BASE_BYTES: Final = 64 * 1024
"""A smaller base counts as this many bytes, so that a small chain is not compacted at every checkpoint."""
_LEAST_SWEPT: Final = 256
"""Least number of slots that a checkpoint sweeps while a sweep is in progress."""
_SWEEP_FACTOR: Final = 2
"""Number of items that a sweep saves for each changed item: n items are swept after n / 2 changes."""
_COMPRESSION: Final = 4
"""Assumed ratio of uncompressed to stored size; if the actual ratio is lower, sweeps are only more frequent."""
_MOST_DROPPED: Final = 256
"""Greatest number of old runs that one checkpoint deletes; because each checkpoint adds only one run, this suffices."""
_CHECKSUM: Final = struct.Struct("<I")
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Options of compressed runs. Because most words have leading zeros, compression saves three quarters of a run's size.
It takes less time than SQLite's log would take to write these three quarters.
"""


class Run(msgspec.Struct, frozen=True):
    """Edits of one save, which can be encoded later; subsequent edits belong to the next run."""

    nbytes: int
    """Approximate length of the run's bytes."""
    encode: Callable[[], bytes]
    """Function that returns the run's bytes; any thread may call it."""


class RunHolder(Protocol):
    """Interface of state in a chain: it can save its changes as bytes, and restore them."""

    @property
    def dirty(self) -> bool:
        """True if the state changed since the last `save`."""

    @property
    def wants_base(self) -> bool:
        """True if the next run is to be a base, because `save_all` costs less than `save` or a run was lost."""

    def save(self) -> Run:
        """Return, as a run, the changes since the last save for which `on_saved` was called."""

    def save_all(self) -> Run:
        """Return the whole state as a run that needs no other run.

        This method is called after a `save` whose run is discarded, or without a `save` if `wants_base` is True.
        """

    def on_saved(self) -> None:
        """Mark the last save as durable."""

    def on_failed(self) -> None:
        """Mark the last save as lost: the next save includes its edits."""

    def apply_run(self, data: bytes) -> None:
        """Restore a run; afterwards the state is not dirty. Raise `CorruptStateError` for damage."""


class SweptHolder(RunHolder, Protocol):
    """Holder that can save parts of its unchanged state."""

    @property
    def held_bytes(self) -> int:
        """Approximate size in bytes of the run of `save_all`."""

    def save_swept(self, start: int, least: int, factor: int) -> tuple[Run, int | None]:
        """Return a run with the changes and a part of the unchanged state, and the start of the next part.

        The part begins at ``start``, and has ``factor`` items for each changed item, but at least ``least`` items. The
        start of the next part is None after the last part.
        """


class QueueHolder(RunHolder, Protocol):
    """Holder that evicts in FIFO order."""

    @property
    def held_bytes(self) -> int:
        """Uncompressed size in bytes of the live state.

        The size must not be smaller than the run of `save_all`; otherwise every checkpoint would write a new base.
        """

    @property
    def runs_in_use(self) -> int:
        """Number of the newest runs that contain live rows, including the run of the last `save`."""


def encode_run(run: pa.RecordBatch) -> bytes:
    """Return a run as an Arrow IPC stream followed by the stream's CRC-32."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, run.schema, options=_COMPRESSED) as writer:
        writer.write_batch(run)
    data: bytes = sink.getvalue().to_pybytes()
    return data + _CHECKSUM.pack(zlib.crc32(data))


def _run_of(batch: pa.RecordBatch) -> Run:
    return Run(batch.nbytes, partial(encode_run, batch))


def decode_run(data: bytes, name: str) -> pa.RecordBatch:
    """Return the run of these bytes; raise `CorruptStateError`, which names the object, for damage."""
    stream = memoryview(data)[: -_CHECKSUM.size]
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack(data[len(stream) :])[0] != zlib.crc32(stream):
        raise CorruptStateError(f"expected a run of object {name}, was {data[:16]!r}… with another checksum")
    try:
        return pa.ipc.open_stream(pa.py_buffer(stream)).read_next_batch()
    except (pa.ArrowInvalid, StopIteration, OSError) as error:
        raise CorruptStateError(f"expected a run of object {name}, was {data[:16]!r}…: {error}") from None


class TableRuns:
    """Runs of a keyed table as bytes. Not thread-safe: its only owner is the owner of the table."""

    def __init__(self, name: str, table: KeyedTable) -> None:
        self.table = table
        self._name = name

    @property
    def dirty(self) -> bool:
        return self.table.dirty

    @property
    def wants_base(self) -> bool:
        return False  # the table must save first; the chain compares the sizes

    def save(self) -> Run:
        return _run_of(self.table.save())

    def save_all(self) -> Run:
        return _run_of(self.table.save_all())

    @property
    def held_bytes(self) -> int:
        return self.table.held_bytes

    def save_swept(self, start: int, least: int, factor: int) -> tuple[Run, int | None]:
        run, following = self.table.save_swept(start, least, factor)
        return _run_of(run), following

    def on_saved(self) -> None:
        self.table.on_saved()

    def on_failed(self) -> None:
        self.table.on_failed()

    def apply_run(self, data: bytes) -> None:
        self.table.apply_run(decode_run(data, self._name))


class _Plan(msgspec.Struct):
    """Effect on a chain of a save whose outcome is not known yet."""

    key: int
    """Key of the new run."""
    run: Run | None
    """New run; None once it is encoded."""
    dropped: tuple[int, ...]
    """Keys of the runs that are deleted."""
    size: int = 0
    """Length of the run's bytes, once they are made."""
    start: int | None = None
    """Place at which a sweep resumes after the save; None if no sweep is in progress."""
    began: int = 0
    """Key of the first run of the sweep."""
    useless: int = 0
    """Key below which all runs are useless after the save."""

    def encode(self) -> bytes:
        """Return the run's bytes, and drop the run, which may be large; called once."""
        assert self.run is not None
        run, self.run = self.run, None
        data = run.encode()
        self.size = len(data)
        return data


class Chain:
    """Runs of a holder in a table of a store, under consecutive keys; the first run is the base.

    Not thread-safe: its only owner is the owner of the object space.
    """

    def __init__(self, table: str, name: str, holder: RunHolder, store: Store) -> None:
        """Restore the holder; raise `CorruptStateError`, which names the object, for damage."""
        self.holder = holder
        self._table = table
        self._sizes: dict[int, int] = {}  # key → bytes, ascending
        for key, data in store.scan(table):
            expected = next(reversed(self._sizes), key - 1) + 1  # the oldest runs are deleted first
            if key != expected:
                raise CorruptStateError(f"object {name}: expected run {expected}, was run {key}")
            try:
                holder.apply_run(data)
            except CorruptStateError as error:
                raise CorruptStateError(f"object {name}, run {key}: {error}") from None
            self._sizes[key] = len(data)
        self._next = max(self._sizes, default=-1) + 1
        self._bytes = sum(self._sizes.values())
        self._planned: _Plan | None = None

    def save(self, *, full: bool = False) -> list[Edit | LateEdit]:
        """Return the edits that store the changes. With ``full`` a new base replaces all runs, even without changes.

        The caller must call `on_saved` or `on_failed` before the next save.
        """
        if not self.holder.dirty and not (full and self._sizes):
            return []
        if full:
            self.holder.save()
            return self._rebased()
        if self.holder.wants_base:
            return self._rebased()
        return self._differential()

    def _differential(self) -> list[Edit | LateEdit]:
        run = self.holder.save()
        base = next(iter(self._sizes.values()), 0)
        if self._sizes and self._bytes - base + run.nbytes > max(base, _SMALLEST_BASE_BYTES):
            return self._rebased()
        return self._plan(_Plan(self._next, run, ()))

    def _rebased(self) -> list[Edit | LateEdit]:
        return self._plan(_Plan(self._next, self.holder.save_all(), tuple(self._sizes)))

    def _plan(self, plan: _Plan) -> list[Edit | LateEdit]:
        self._planned = plan
        dropped = [Edit(self._table, key, None) for key in plan.dropped]
        return [LateEdit(self._table, plan.key, plan.encode), *dropped]

    def on_saved(self) -> None:
        """Mark the last save as durable."""
        if self._planned is not None:
            for key in self._planned.dropped:
                self._bytes -= self._sizes.pop(key)
            self._sizes[self._planned.key] = self._planned.size
            self._bytes += self._planned.size
            self._next = self._planned.key + 1
            self._arrived(self._planned)
            self._planned = None
        self.holder.on_saved()

    def _arrived(self, plan: _Plan) -> None:
        """Apply further effects of a save that is durable."""

    def on_failed(self) -> None:
        """Mark the last save as lost or unknown: the next save includes its edits, under the same key."""
        self._planned = None
        self.holder.on_failed()


class SweptChain(Chain):
    """Chain that is compacted in steps. Not thread-safe: its only owner is the owner of the object space."""

    holder: SweptHolder

    def __init__(self, table: str, name: str, holder: SweptHolder, store: Store) -> None:
        super().__init__(table, name, holder, store)
        self._start: int | None = None  # place at which the sweep resumes; None if no sweep is in progress
        self._began = 0  # key of the first run of the sweep
        self._useless = 0  # key below which all runs are useless

    def _differential(self) -> list[Edit | LateEdit]:
        start, began, useless = self._start, self._began, self._useless
        if start is None and self._bytes > 2 * max(self.holder.held_bytes // _COMPRESSION, _SMALLEST_BASE_BYTES):
            start, began = 0, self._next
        if start is None:
            run = self.holder.save()
        else:
            run, start = self.holder.save_swept(start, _LEAST_SWEPT, _SWEEP_FACTOR)
            useless = began if start is None else useless
        # The oldest runs are deleted first. The sweep has saved again what the remaining runs lack.
        dropped = tuple(takewhile(lambda key: key < useless, islice(self._sizes, _MOST_DROPPED)))
        return self._plan(_Plan(self._next, run, dropped, 0, start, began, useless))

    def _arrived(self, plan: _Plan) -> None:
        self._start, self._began, self._useless = plan.start, plan.began, plan.useless


class QueueChain(Chain):
    """Chain that deletes its oldest runs. Not thread-safe: its only owner is the owner of the object space.

    When many small runs are together larger than the live state, a new base replaces them.
    """

    holder: QueueHolder

    def _differential(self) -> list[Edit | LateEdit]:
        run = self.holder.save()
        if self._bytes > 2 * max(self.holder.held_bytes, _SMALLEST_BASE_BYTES):
            return self._rebased()
        gone = len(self._sizes) + 1 - self.holder.runs_in_use
        return self._plan(_Plan(self._next, run, tuple(islice(self._sizes, min(max(0, gone), _MOST_DROPPED)))))
