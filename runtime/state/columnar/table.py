"""Keyed table: a dictionary from int64 words to int64 columns, in which operators of the engine have their state.

`runtime.state.columnar.columns` converts keys to words. Every call processes a whole batch. Changes since the last save
are tracked by slot, so that a differential checkpoint writes only a *run*: the changed keys with their present values,
and the deleted keys. All runs of a table, applied in order, restore the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.errors import CorruptStateError

__all__ = ["KeyedTable"]

Words = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]

_CHANGED: Final = np.uint8(1)
"""Mark of a slot that changed since the last save."""
_STORED: Final = np.uint8(2)
"""Mark of a slot whose key the saved state contains, or may contain."""
_NONE: Final = np.zeros(0, np.int64)


class KeyedTable:
    """Table from keys of ``width`` words to one int64 per value column.

    Not thread-safe: one owner at a time. If a method changes the table, no key or slot of its batch may occur twice.
    """

    def __init__(self, width: int, values: Sequence[str]) -> None:
        self._width = width
        self._names = tuple(values)
        self._index = KeyIndex(width)
        self._values = np.zeros((len(self._names), self._index.capacity), np.int64)
        self._marks = np.zeros(self._index.capacity, np.uint8)  # by slot: _CHANGED, _STORED; 0 for a free slot
        self._changed: list[Slots] = []  # slots changed since the last save; slots without the mark are ignored
        self._gone: list[Words] = []  # keys of the saved state that were deleted since the last save
        self._in_flight: tuple[Slots, Words] | None = None  # content of the last save: changed slots and deleted keys

    def __len__(self) -> int:
        return len(self._index)

    @property
    def width(self) -> int:
        """Number of words per key."""
        return self._width

    @property
    def dirty(self) -> bool:
        """True if the table changed since the last save."""
        return bool(self._changed or self._gone)

    def lookup(self, keys: Words) -> Slots:
        """Return the slot of each key, -1 for a missing key; keys may repeat."""
        return self._index.lookup(keys)

    def get(self, slots: Slots) -> Words:
        """Return the values of live slots, shape (value columns, n); undefined for a slot of -1."""
        return self._values.take(slots, axis=1)

    def keys_of(self, slots: Slots) -> Words:
        """Return the keys of live slots, shape (n, width)."""
        return self._index.keys_of(slots)

    def live_slots(self) -> Slots:
        """Return the slots of all keys."""
        return self._index.live_slots()

    def put(self, keys: Words, values: Words) -> None:
        """Set the values (shape (value columns, n)) of these keys, and insert missing keys."""
        if not len(keys):
            return
        slots = self._index.insert(keys)
        self._grow()
        self.put_at(slots, values)

    def put_at(self, slots: Slots, values: Words) -> None:
        """Set the values of live slots."""
        for column, given in zip(self._values, values, strict=True):
            column[slots] = given
        self._mark_changed(slots)

    def delete(self, keys: Words) -> None:
        """Delete these keys; raise `KeyError` if one does not exist."""
        if not len(keys):
            return
        slots = self._index.lookup(keys)
        if (slots < 0).any():
            raise KeyError(f"expected keys that exist, was {keys[slots < 0][:5].tolist()}")
        self.delete_at(slots)

    def delete_at(self, slots: Slots) -> None:
        """Delete the keys of live slots; a key that was inserted after the last save is not part of the next save."""
        stored = slots.compress(self._marks.take(slots) & _STORED)
        if len(stored):
            self._gone.append(self._index.keys_of(stored))
        self._index.remove(slots)
        self._marks[slots] = 0

    def _mark_changed(self, slots: Slots) -> None:
        marks = self._marks.take(slots)
        again = marks & _CHANGED
        if not again.all():
            self._marks[slots] = marks | _CHANGED
            self._changed.append(slots.compress(again == 0))

    @property
    def held_bytes(self) -> int:
        """Size in bytes of the keys and values of all rows."""
        return len(self) * 8 * (self._width + len(self._names))

    def save(self) -> pa.RecordBatch:
        """Return the changes since the last save, as a run.

        The caller must call `on_saved` or `on_failed` before the next save.
        """
        return self._run(*self._take_off())

    def save_swept(self, start: int, least: int, factor: int) -> tuple[pa.RecordBatch, int | None]:
        """Return a run with the changes and the keys of the next slots, and the slot at which to resume.

        The next slots begin at ``start``; their number is ``factor`` times the number of changes, but at least
        ``least``. The slot at which to resume is None after the last slot. The runs of a complete sweep from 0 to the
        end have the whole state, even if keys change meanwhile: each key that is live at the end was swept, or was
        changed after the sweep had passed its slot.
        """
        slots, gone = self._take_off()
        stop = start + max(least, factor * (len(slots) + len(gone)))
        run = self._run(np.union1d(slots, self._index.live_slots_in(start, stop)), gone)
        return run, stop if stop < self._index.capacity else None

    def _take_off(self) -> tuple[Slots, Words]:
        """Return the changed slots and the deleted keys, and mark them as in flight."""
        if self._in_flight is not None:
            self.on_failed()
        slots = np.concatenate([_NONE, *self._changed])
        slots = slots.compress(self._marks.take(slots) & _CHANGED)
        if len(self._changed) > 1:  # a slot that was freed and reused occurs twice
            slots = _once(slots)
        gone = np.concatenate([np.zeros((0, self._width), np.int64), *self._gone])
        if len(gone):
            gone = gone.compress(self._index.lookup(gone) < 0, axis=0)  # without keys that were inserted again
            gone = _distinct(gone)
        self._marks[slots] = _STORED
        self._changed, self._gone, self._in_flight = [], [], (slots, gone)
        return slots, gone

    def save_all(self) -> pa.RecordBatch:
        """Return all rows as one run: the base of a compacted chain."""
        return self._run(self._index.live_slots(), np.zeros((0, self._width), np.int64))

    def on_saved(self) -> None:
        """Mark the last save as durable."""
        self._in_flight = None

    def on_failed(self) -> None:
        """Mark the last save as lost: the next save includes its edits."""
        if self._in_flight is None:
            return
        slots, gone = self._in_flight
        self._in_flight = None
        # The slots stay marked as stored; at worst, a key that was never stored is reported as deleted.
        slots = slots.compress(self._marks.take(slots) == _STORED)
        if len(slots):
            self._marks[slots] |= _CHANGED
            self._changed.append(slots)
        if len(gone):
            self._gone.append(gone)

    def apply_run(self, run: pa.RecordBatch) -> None:
        """Restore a run written by `save`; afterwards the table is not dirty."""
        keys, is_live = self._rows_of(run)
        values = np.stack([c.to_numpy() for c in run.columns[self._width + 1 :]] or [np.zeros(len(keys), np.int64)])
        gone = self._index.lookup(keys[~is_live])
        gone = gone[gone >= 0]
        self._index.remove(gone)
        self._marks[gone] = 0
        slots = self._index.insert(keys[is_live])
        self._grow()
        self._values[:, slots] = values[: len(self._names), is_live]
        self._marks[slots] = _STORED

    def _rows_of(self, run: pa.RecordBatch) -> tuple[Words, npt.NDArray[np.bool_]]:
        """Return the keys of a run, and which of them are live after the run."""
        expected = self._schema()
        if not run.schema.equals(expected):
            raise CorruptStateError(f"expected a run of {expected.names}, was {run.schema.names}")
        return _matrix(run, self._width), run.column(self._width).to_numpy(zero_copy_only=False)

    def _schema(self) -> pa.Schema:
        names = [f"k{i}" for i in range(self._width)]
        return pa.schema(
            [(n, pa.int64()) for n in names] + [("held", pa.bool_())] + [(f"v_{n}", pa.int64()) for n in self._names]
        )

    def _run(self, slots: Slots, gone: Words) -> pa.RecordBatch:
        """Return a run of slots with their present values, followed by deleted keys."""
        keys = self._index.keys_of(slots)
        is_live = np.ones(len(slots) + len(gone), np.bool_)
        is_live[len(slots) :] = False
        values = self.get(slots)
        if len(gone):
            keys = np.concatenate([keys, gone])
            values = np.concatenate([values, np.zeros((len(values), len(gone)), np.int64)], axis=1)
        arrays = [pa.array(np.ascontiguousarray(keys[:, i])) for i in range(self._width)]
        arrays.append(pa.array(is_live))
        arrays += [pa.array(v) for v in values]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema())

    def _grow(self) -> None:
        if self._values.shape[1] < self._index.capacity:
            values = np.zeros((len(self._names), self._index.capacity), np.int64)
            values[:, : self._values.shape[1]] = self._values
            marks = np.zeros(self._index.capacity, np.uint8)
            marks[: len(self._marks)] = self._marks
            self._values, self._marks = values, marks

    def _check(self) -> None:
        """Assert every invariant; for tests."""
        self._index._check()
        assert self._values.shape == (len(self._names), self._index.capacity)
        marked = np.flatnonzero(self._marks)
        assert np.isin(marked, self._index.live_slots()).all()
        changed = np.concatenate([_NONE, *self._changed])
        assert set(np.flatnonzero(self._marks & _CHANGED).tolist()) <= set(changed.tolist())


def _distinct(keys: Words) -> Words:
    if keys.shape[1] == 1:
        return _once(keys[:, 0])[:, None]
    if keys.shape[1] == 0:
        return keys[:1]
    return np.unique(keys, axis=0)


def _once(words: Words) -> Words:
    """Return each word once, ascending; `np.unique` hashes the words first, and takes ten times as long."""
    words = np.sort(words)
    differs = np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=differs[1:])
    return words.compress(differs)


def _matrix(run: pa.RecordBatch, width: int) -> Words:
    if not width:
        return np.zeros((run.num_rows, 0), np.int64)
    return np.stack([run.column(i).to_numpy() for i in range(width)], axis=1)
