"""Rows of a view: the full result with its changes applied, and pending changes.

The distinct rows of a full result, with their multiplicities, are in flat arrays, on which a kernel works.
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Collection, Sequence, Sized
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs.consolidating import consolidate
from runtime.native.structures import HashTable, Structure
from runtime.native.tiers import Kernels, MachineKernel, await_kernels, plain_kernel
from runtime.plan import Column
from runtime.state import CorruptStateError, KeyColumn, StringPool, decode_words, encode_words, width_of
from runtime.views import result_kernel as kernel
from runtime.views.rows import WEIGHT, change_schema

__all__ = ["MOST_PIECES", "RESULT_KERNEL_SOURCE", "MaterialisedView", "PendingChanges", "ResultRows", "overdue"]

Words = npt.NDArray[np.int64]

RESULT_KERNEL_SOURCE: Final = inspect.getsource(kernel)
"""Source of the kernel that adds changes to a result."""
_NONE: Final = np.zeros(0, np.int64)


class ResultRows:
    """Rows of ``width`` words, each with its multiplicity, which is never 0. Not thread-safe: one owner at a time.

    A checkpoint is a run, with the layout of `runtime.state.columnar.table.KeyedTable`: the changed rows with their
    multiplicities, and the removed rows.
    """

    def __init__(self, width: int, *, is_saved: bool = False, kernels: Kernels | None = None) -> None:
        """Begin with no rows of ``width`` words.

        With ``is_saved`` changes since the last save are tracked. Without ``kernels`` the kernel is interpreted.
        """
        self._width, self._kernels = width, kernels
        self._compiled: MachineKernel | None = None
        self._table = HashTable(width, 1, is_result=True)
        self._numbers = np.zeros(6, np.int64)
        self._numbers[kernel.IS_SAVED] = is_saved
        self._edits = Structure(4)
        for place in (kernel.MARKS, kernel.EDITED, kernel.GONE):
            self._edits.put(place, _NONE)
        self._counts = np.zeros(2, np.int64)
        self._edits.put(kernel.COUNTS, self._counts)
        self._root = Structure(7)
        self._root.put(kernel.NUMBERS, self._numbers)
        self._root.link(kernel.ROWS, self._table)
        self._root.link(kernel.EDITS, self._edits)
        self._net, self._net_weights = _NONE, _NONE
        if kernels is not None:
            kernels.request([RESULT_KERNEL_SOURCE])

    def __len__(self) -> int:
        """Return the number of distinct rows, including those with a multiplicity below 0."""
        return len(self._table)

    @property
    def shown(self) -> int:
        """Number of distinct rows with a multiplicity above 0."""
        return int(self._numbers[kernel.SHOWN])

    @property
    def total(self) -> int:
        """Sum of the multiplicities that are above 0."""
        return int(self._numbers[kernel.TOTAL])

    def add(self, words: Words, weights: Words) -> tuple[Words, Words]:
        """Add changes, of the shapes (n, width) and (n,); a row may occur several times.

        Returns the net changes: words and weights of each row whose multiplicity has changed, without duplicates.
        """
        self._step(words, weights, sets=False)
        count = int(self._numbers[kernel.NET_COUNT])
        return self._net[: count * self._width].reshape(count, self._width).copy(), self._net_weights[:count].copy()

    def dump(self) -> tuple[Words, Words]:
        """Return all rows, copied: words and multiplicities."""
        records = self._table.dump()
        return records[:, : self._width], records[:, self._width]

    # Saving

    @property
    def dirty(self) -> bool:
        """True if rows changed since the last save."""
        return bool(self._counts.any())

    @property
    def held_bytes(self) -> int:
        """Approximate size of the result of `save_all`, in bytes."""
        return 8 * (self._width + 1) * len(self)

    def save(self) -> pa.RecordBatch:
        """Return the changes since the last save, as a run."""
        slots = self._edits.array(kernel.EDITED)[: self._counts[kernel.EDITED_COUNT]]
        gone = self._edits.array(kernel.GONE)[: self._counts[kernel.GONE_COUNT] * self._width].reshape(-1, self._width)
        records = self._table.records()[slots]
        is_live = records[:, self._width] != 0
        run = self._run(records[is_live], gone)
        self._edits.array(kernel.MARKS)[slots] = np.where(is_live, kernel.STORED, 0)
        self._counts[:] = 0
        return run

    def save_all(self) -> pa.RecordBatch:
        """Return all rows, as a run that needs no other run."""
        self._mark_all_stored()
        return self._run(self._table.dump(), np.zeros((0, self._width), np.int64))

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Apply a run of `save` or `save_all`; no row is dirty afterwards.

        Raises `CorruptStateError` for a run of other columns.
        """
        expected = self._schema()
        if not run.schema.equals(expected):
            raise CorruptStateError(f"expected a run of {expected.names}, was {run.schema.names}")
        columns = [run.column(place).to_numpy() for place in (*range(self._width), self._width + 1)]
        records = np.stack(columns, axis=1) if run.num_rows else np.zeros((0, self._width + 1), np.int64)
        is_held = run.column(self._width).to_numpy(zero_copy_only=False)
        # Removed rows come first, because a row may have been removed and added again.
        removed, live = records[~is_held], records[is_held]
        for part, weights in (
            (removed, np.zeros(len(removed), np.int64)),
            (live, np.ascontiguousarray(live[:, self._width])),
        ):
            self._step(np.ascontiguousarray(part[:, : self._width]), weights, sets=True)
        self._mark_all_stored()

    def _step(self, words: Words, weights: Words, *, sets: bool) -> None:
        count, numbers = len(weights), self._numbers
        if not count:
            numbers[kernel.NET_COUNT] = 0
            return
        self._reserve(count)
        self._root.put(kernel.WORDS, np.ascontiguousarray(words).reshape(-1))
        self._root.put(kernel.WEIGHTS, np.ascontiguousarray(weights))
        numbers[kernel.COUNT], numbers[kernel.IS_SET] = count, sets
        if self._compiled is None and self._kernels is not None:
            await_kernels(self._kernels, [RESULT_KERNEL_SOURCE], count)
            self._compiled = self._kernels.get(RESULT_KERNEL_SOURCE)
        if self._compiled is None:
            plain_kernel(RESULT_KERNEL_SOURCE)(self._root.views)
        else:
            self._compiled(self._root.address)
        self._root.put(kernel.WORDS, _NONE)
        self._root.put(kernel.WEIGHTS, _NONE)

    def _reserve(self, count: int) -> None:
        """Make room for this many rows, edits and net changes."""
        self._table.make_room(count)
        room = len(self._table.records())
        if self._numbers[kernel.IS_SAVED]:
            if room > len(self._edits.array(kernel.MARKS)):
                self._edits.extend(kernel.MARKS, room)
            edited, gone = (int(number) for number in self._counts)
            for place, wanted in ((kernel.EDITED, edited + count), (kernel.GONE, (gone + count) * self._width)):
                capacity = len(self._edits.array(place))
                if wanted > capacity:
                    self._edits.extend(place, max(wanted, 2 * capacity))
        if count > len(self._net_weights):
            self._net, self._net_weights = np.zeros(count * self._width, np.int64), np.zeros(count, np.int64)
            self._root.put(kernel.NET, self._net)
            self._root.put(kernel.NET_WEIGHTS, self._net_weights)

    def _mark_all_stored(self) -> None:
        marks = np.zeros(len(self._table.records()), np.int64)
        marks[self._table.slots()] = kernel.STORED
        self._edits.put(kernel.MARKS, marks)
        self._counts[:] = 0

    def _schema(self) -> pa.Schema:
        words = [(f"k{number}", pa.int64()) for number in range(self._width)]
        return pa.schema([*words, ("held", pa.bool_()), (f"v_{WEIGHT}", pa.int64())])

    def _run(self, records: Words, gone: Words) -> pa.RecordBatch:
        columns = np.zeros((self._width + 1, len(records) + len(gone)), np.int64)
        columns[:, : len(records)] = records.T
        columns[: self._width, len(records) :] = gone.T
        is_held = np.arange(columns.shape[1]) < len(records)
        *words, weights = (pa.array(column) for column in columns)
        return pa.RecordBatch.from_arrays([*words, pa.array(is_held), weights], schema=self._schema())

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._table._check()
        _, weights = self.dump()
        assert weights.all()
        assert (self.shown, self.total) == (int((weights > 0).sum()), int(weights[weights > 0].sum()))


MOST_PIECES: Final = 256
"""Number of pieces at which an owner joins pending changes, or adds them to the rows."""

T = TypeVar("T", bound=Sized)


class MaterialisedView:
    """The rows of one view, with their multiplicities. One owner at a time.

    If a row is removed before it is added, as in relations whose deletions may arrive first, its multiplicity is below
    0 until it is added; such a row is stored but not shown. Changes are pending until the rows are read or `settle` is
    called.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        pool: StringPool | None = None,
        *,
        is_saved: bool = False,
        kernels: Kernels | None = None,
    ) -> None:
        """Begin with no rows of these columns.

        ``pool`` has the strings of the rows; by default it is a new pool. For the other arguments see `ResultRows`.
        """
        self.columns = tuple(columns)
        self._schema = change_schema(columns)
        self._keys = tuple(KeyColumn(c.name, c.type, nullable=True) for c in columns)
        self._pool = StringPool() if pool is None else pool
        self.waiting = PendingChanges(self._schema)
        """Changes that are not in `table` yet."""
        self.table = ResultRows(width_of(self._keys), is_saved=is_saved, kernels=kernels)
        """Row → multiplicity, without pending changes."""
        self.changes = 0
        """Total number of rows of the changes that were passed to `apply`."""

    def __len__(self) -> int:
        """Return the number of distinct rows that are shown."""
        self.settle()
        return self.table.shown

    def total(self) -> int:
        """Return the number of rows that are shown, counting repeated rows."""
        self.settle()
        return self.table.total

    def apply(self, changes: pa.Table | None) -> None:
        """Add a version's changes, which may be None, to the pending changes; these are applied when rows are read."""
        if changes is not None and changes.num_rows:
            self.changes += changes.num_rows
            self.waiting.add(changes)

    def settle(self) -> None:
        """Apply the pending changes."""
        if self.waiting:
            self.add(self.waiting.take())

    def add(self, changes: pa.Table) -> pa.Table:
        """Add changes to `table`, and return their sum: no two rows are equal, and none has the weight 0."""
        *columns, weight = (column.combine_chunks() for column in changes.columns)
        words, weights = self.table.add(encode_words(self._keys, columns, self._pool), weight.to_numpy())
        return self._decoded(words, weights)

    def rows(self) -> pa.Table:
        """Return columns and ``weight``, unordered, including rows that are not shown, which count in later changes."""
        self.settle()
        return self._decoded(*self.table.dump())

    def shown(self) -> pa.Table:
        """Return columns and ``weight`` without rows that are not shown."""
        rows = self.rows()
        return rows.filter(pc.greater(rows.column(rows.num_columns - 1), 0))

    def _decoded(self, words: Words, weights: Words) -> pa.Table:
        arrays = decode_words(self._keys, words, self._pool)
        return pa.Table.from_arrays([*arrays, pa.array(weights)], schema=self._schema)


class PendingChanges:
    """Changes of a view that are not added to its rows yet; equal rows may be in several pieces."""

    __slots__ = ("_joined", "_pieces", "_schema")

    def __init__(self, schema: pa.Schema) -> None:
        """Begin with no changes. ``schema`` has the columns and then the weights."""
        self._schema = schema
        self._joined: list[pa.Table] = []
        self._pieces: list[pa.Table] = []

    def __len__(self) -> int:
        """Return the number of pieces that are not joined."""
        return len(self._pieces)

    def __bool__(self) -> bool:
        return bool(self._joined or self._pieces)

    def add(self, changes: pa.Table) -> None:
        """Add changes; the table is not copied."""
        self._pieces.append(changes)

    def join(self) -> None:
        """Add up the pieces into one.

        Most rows that a step adds are removed by the next step. Without joining, the end of an epoch would have to read
        all of them, which would delay the steps for which subscribers wait.
        """
        if self._pieces:
            self._joined.append(consolidate(pa.concat_tables(self._pieces)))
            self._pieces = []

    def rows(self) -> pa.Table:
        """Return all changes without dropping them; rows may repeat, and only their total weights are meaningful."""
        return pa.concat_tables([self._schema.empty_table(), *self._joined, *self._pieces])

    def take(self) -> pa.Table:
        """Return all changes and drop them."""
        rows = self.rows()
        self._joined, self._pieces = [], []
        return rows


def overdue(changed: Collection[T], views: int) -> list[T]:
    """Return the longest of the changed collections that have `MOST_PIECES` pieces or more; called after each version.

    Views change together, and joining takes a fraction of a millisecond. So only one collection is returned if there
    are up to 254 ``views``. If there are more, enough of them are returned that none grows beyond 2 × `MOST_PIECES`.
    """
    long = [each for each in changed if len(each) >= MOST_PIECES]
    if len(long) > 1:
        long = heapq.nlargest(1 + views // (MOST_PIECES - 1), long, key=len)
    return long
