"""A keyed table of integers: the columnar dictionary in which operators and views keep their state.

Keys are int64 words (`columns.py`), values are int64 columns, and every call takes a whole batch. What was touched
since the last save is tracked by slot, so that a differential checkpoint writes a *run*: the present value of every
touched key and the keys that are gone. A table is its runs, applied in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.errors import CorruptStateError

__all__ = ["KeyedTable"]

Words = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]


class KeyedTable:
    """Keys of ``width`` words → one int64 per value column.

    Not thread-safe: one owner at a time. A batch's keys must not repeat where a method changes the table.
    """

    def __init__(self, width: int, values: Sequence[str]) -> None:
        self._width = width
        self._names = tuple(values)
        self._index = KeyIndex(width)
        self._values = np.zeros((len(self._names), self._index.capacity), np.int64)
        self._touched: list[Words] = []
        self._in_flight: list[Words] = []

    def __len__(self) -> int:
        return len(self._index)

    @property
    def value_names(self) -> tuple[str, ...]:
        """The value columns, in order."""
        return self._names

    @property
    def width(self) -> int:
        """Words per key."""
        return self._width

    @property
    def dirty(self) -> bool:
        """Whether anything was touched since the last save."""
        return bool(self._touched)

    def lookup(self, keys: Words) -> Slots:
        """The slot of each key, -1 where there is none; keys may repeat."""
        return self._index.lookup(keys)

    def get(self, slots: Slots) -> Words:
        """Values of live slots, shape (value columns, n); undefined where a slot is -1."""
        return self._values[:, slots]

    def keys_of(self, slots: Slots) -> Words:
        """Keys of live slots, shape (n, width)."""
        return self._index.keys_of(slots)

    def live_slots(self) -> Slots:
        """Slots of all keys held."""
        return self._index.live_slots()

    def put(self, keys: Words, values: Words) -> None:
        """Set the values (shape (value columns, n)) of these keys, made where they were not there."""
        if not len(keys):
            return
        slots, _ = self._index.insert(keys)
        self._grow()
        self._values[:, slots] = values
        self._touched.append(keys)

    def delete(self, keys: Words) -> None:
        """Take away these keys, which must be held."""
        if not len(keys):
            return
        slots = self._index.lookup(keys)
        if (slots < 0).any():
            raise KeyError(f"expected keys that are held, was {keys[slots < 0][:5].tolist()}")
        self._index.remove(slots)
        self._touched.append(keys)

    def save(self) -> pa.RecordBatch:
        """What changed since the last save, as a run; `on_saved` or `on_failed` must follow before the next."""
        self._in_flight += self._touched
        self._touched = []
        if not self._in_flight:
            return self._run(np.zeros((0, self._width), np.int64))
        keys = np.concatenate(self._in_flight)
        return self._run(_distinct(keys))

    def save_all(self) -> pa.RecordBatch:
        """Everything held, as one run: the base of a compacted chain."""
        return self._run(self._index.keys_of(self._index.live_slots()))

    def on_saved(self) -> None:
        """The last save is durable."""
        self._in_flight = []

    def on_failed(self) -> None:
        """The last save is lost: its edits go out with the next."""
        self._touched = self._in_flight + self._touched
        self._in_flight = []

    def forget_edits(self) -> None:
        """What changed need not be saved, as the table follows from another."""
        self._touched = []

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Take over a run written by `save`; leaves nothing dirty."""
        keys, held = self._rows_of(run)
        values = np.stack([c.to_numpy() for c in run.columns[self._width + 1 :]] or [np.zeros(len(keys), np.int64)])
        gone = self._index.lookup(keys[~held])
        self._index.remove(gone[gone >= 0])
        slots, _ = self._index.insert(keys[held])
        self._grow()
        self._values[:, slots] = values[: len(self._names), held]

    def _rows_of(self, run: pa.RecordBatch) -> tuple[Words, npt.NDArray[np.bool_]]:
        """The keys of a run, and which of them are held after it."""
        expected = self._schema()
        if not run.schema.equals(expected):
            raise CorruptStateError(f"expected a run of {expected.names}, was {run.schema.names}")
        return _matrix(run, self._width), run.column(self._width).to_numpy(zero_copy_only=False)

    def _schema(self) -> pa.Schema:
        names = [f"k{i}" for i in range(self._width)]
        return pa.schema(
            [(n, pa.int64()) for n in names] + [("held", pa.bool_())] + [(f"v_{n}", pa.int64()) for n in self._names]
        )

    def _run(self, keys: Words) -> pa.RecordBatch:
        slots = self._index.lookup(keys)
        held = slots >= 0
        values = np.where(held, self._values[:, np.where(held, slots, 0)], 0)
        arrays = [pa.array(np.ascontiguousarray(keys[:, i])) for i in range(self._width)]
        arrays.append(pa.array(held))
        arrays += [pa.array(v) for v in values]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema())

    def _grow(self) -> None:
        if self._values.shape[1] < self._index.capacity:
            values = np.zeros((len(self._names), self._index.capacity), np.int64)
            values[:, : self._values.shape[1]] = self._values
            self._values = values

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._index._check()
        assert self._values.shape == (len(self._names), self._index.capacity)


def _distinct(keys: Words) -> Words:
    if keys.shape[1] == 1:
        return np.unique(keys[:, 0])[:, None]
    if keys.shape[1] == 0:
        return keys[:1]
    return np.unique(keys, axis=0)


def _matrix(run: pa.RecordBatch, width: int) -> Words:
    if not width:
        return np.zeros((run.num_rows, 0), np.int64)
    return np.stack([run.column(i).to_numpy() for i in range(width)], axis=1)
