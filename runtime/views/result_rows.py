"""The distinct rows of a view's full result with their multiplicities, in flat arrays that a kernel works on."""

from __future__ import annotations

import inspect
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.structures import HashTable, Structure
from runtime.native.tiers import Kernels, MachineKernel, await_kernels, plain_kernel
from runtime.state import CorruptStateError
from runtime.views import result_kernel as kernel
from runtime.views.rows import WEIGHT

__all__ = ["RESULT_KERNEL_SOURCE", "ResultRows"]

Words = npt.NDArray[np.int64]

RESULT_KERNEL_SOURCE: Final = inspect.getsource(kernel)
"""Source of the kernel that adds changes to a result."""
_NONE: Final = np.zeros(0, np.int64)


class ResultRows:
    """Rows of ``width`` words → multiplicity, which is never 0. Not thread-safe: one owner at a time.

    A checkpoint is a run, see `runtime.state.columnar.table.KeyedTable`, whose layout this has: the rows that changed
    with their multiplicities, and the rows that are gone.
    """

    def __init__(self, width: int, *, is_saved: bool = False, kernels: Kernels | None = None) -> None:
        """``is_saved``: track what changed since the last save; without ``kernels`` the kernel is interpreted."""
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
        """Distinct rows, those with a multiplicity below 0 included."""
        return len(self._table)

    @property
    def shown(self) -> int:
        """Distinct rows with a multiplicity above 0."""
        return int(self._numbers[kernel.SHOWN])

    @property
    def total(self) -> int:
        """Sum of the multiplicities that are above 0."""
        return int(self._numbers[kernel.TOTAL])

    def add(self, words: Words, weights: Words) -> tuple[Words, Words]:
        """Add changes, shapes (n, width) and (n,), whose rows may repeat.

        Returns the net changes: words and weights of each row whose multiplicity is another than before, once.
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
        """True if anything changed since the last save."""
        return bool(self._counts.any())

    @property
    def held_bytes(self) -> int:
        """About what `save_all` takes up."""
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
        """Return all rows, as a run that stands alone."""
        self._mark_all_stored()
        return self._run(self._table.dump(), np.zeros((0, self._width), np.int64))

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run that `save` or `save_all` gave; leaves nothing dirty. Raises `CorruptStateError`."""
        expected = self._schema()
        if not run.schema.equals(expected):
            raise CorruptStateError(f"expected a run of {expected.names}, was {run.schema.names}")
        columns = [run.column(place).to_numpy() for place in (*range(self._width), self._width + 1)]
        records = np.stack(columns, axis=1) if run.num_rows else np.zeros((0, self._width + 1), np.int64)
        is_held = run.column(self._width).to_numpy(zero_copy_only=False)
        for part, weights in (
            (records[~is_held], np.zeros(int((~is_held).sum()), np.int64)),  # a row may be gone and come back
            (records[is_held], np.ascontiguousarray(records[is_held, self._width])),
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
        """Make room for so many rows, edits and net changes."""
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
