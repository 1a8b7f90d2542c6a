"""Live orders of a feed, in flat arrays that a kernel reads and changes; a checkpoint saves the changed orders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.structures import HashTable, Structure
from runtime.relations import book_kernel as kernel
from runtime.state import CorruptStateError, ObjectSpace, Run, decode_run, encode_run

__all__ = ["LiveOrders"]

Words = npt.NDArray[np.int64]

_VALUES: Final = ("t", "broker_id", "volume", "price", "symbol", "side")
_SCHEMA: Final = pa.schema([("k0", pa.int64()), ("held", pa.bool_()), *((f"v_{name}", pa.int64()) for name in _VALUES)])
"""Columns of a run (a saved part of the orders, see `runtime.state`): the number of an order, a flag that is true if
the order is live, and the words of the order.
"""
_NONE: Final = np.zeros((0, kernel.WORDS), np.int64)


class LiveOrders:
    """Live orders, by their numbers, as a `runtime.state.chains.SweptHolder` of an object space.

    A saved run has the changed orders, and may also have a part of the unchanged orders.

    Not thread-safe: one owner at a time.
    """

    def __init__(self, space: ObjectSpace, name: str) -> None:
        """Restore the orders of this name; if they are damaged, raise `CorruptStateError` with the name."""
        self.table = HashTable(1, kernel.WORDS - 1, is_result=True)
        """Words of each order by its number, for the kernel."""
        self.edits = Structure(4)
        """Changes since the last save, for the kernel."""
        self._restored: list[tuple[Words, Words]] = []  # orders, and numbers of removed orders, by run
        self.wants_base = False
        """True if the next run must have all orders, because the changes since the saved runs are not known."""
        space.swept(name, f"table:1:{','.join(_VALUES)}", self)
        self._load(_merged(self._restored))
        self._restored = []

    def __len__(self) -> int:
        return len(self.table)

    def reserve(self, orders: int) -> None:
        """Make room for this many orders in addition to the live ones."""
        self.table.make_room(orders)
        room = len(self.table.records())
        if room > len(self.edits.array(kernel.MARKS)):
            for place in (kernel.MARKS, kernel.EDITED, kernel.GONE):
                self.edits.extend(place, room)

    def clear(self) -> Words:
        """Drop all orders; return their words, shape (orders, words)."""
        orders = self.table.dump()
        self._load(_NONE)
        self.wants_base = True
        return orders

    def _load(self, orders: Words) -> None:
        """Replace the orders; all of them count as saved."""
        self.table.load(orders)
        room = len(self.table.records())
        marks = np.zeros(room, np.int64)
        marks[: len(orders)] = kernel.STORED
        self.edits.put(kernel.MARKS, marks)
        for place in (kernel.EDITED, kernel.GONE):
            self.edits.put(place, np.zeros(room, np.int64))
        self.edits.put(kernel.COUNTS, np.zeros(2, np.int64))

    # Implementation of `SweptHolder`

    @property
    def dirty(self) -> bool:
        """True if orders changed since the last `save`."""
        return self.wants_base or bool(self.edits.array(kernel.COUNTS).any())

    @property
    def held_bytes(self) -> int:
        """Approximate size of the result of `save_all`, in bytes."""
        return 8 * kernel.WORDS * len(self.table)

    def save(self) -> Run:
        """Return the changes since the last save."""
        return self._run(*self._take_off())

    def save_swept(self, start: int, least: int, factor: int) -> tuple[Run, int | None]:
        """Return a run with the changes and with the orders in the next slots, and the slot at which to resume.

        The slot at which to resume is None after the last slot.
        """
        slots, gone = self._take_off()
        stop = start + max(least, factor * (len(slots) + len(gone)))
        room = len(self.table.records())
        is_listed = np.zeros(room, np.bool_)
        is_listed[slots] = True
        swept = start + np.flatnonzero(~is_listed[start:stop])
        return self._run(np.concatenate([slots, swept]), gone), stop if stop < room else None

    def save_all(self) -> Run:
        """Return all orders."""
        self._take_off()
        self.wants_base = False
        return self._run(self.table.slots(), _NONE[:, 0])

    def on_saved(self) -> None:
        """Do nothing: the last save is durable."""

    def on_failed(self) -> None:
        """Require a new base, as the last save is lost."""
        self.wants_base = True

    def apply_run(self, data: bytes) -> None:
        """Add a run to the runs that `__init__` restores; raise `CorruptStateError` if the run is damaged."""
        run = decode_run(data, "live orders")
        if not run.schema.equals(_SCHEMA):
            raise CorruptStateError(f"expected a run of {_SCHEMA.names}, was {run.schema.names}")
        is_live = run.column("held").to_numpy(zero_copy_only=False)
        words = np.stack([run.column(place).to_numpy() for place in (0, *range(2, 1 + kernel.WORDS))], axis=1)
        self._restored.append((words[is_live], words[~is_live, 0]))

    def _take_off(self) -> tuple[Words, Words]:
        """Return the changed slots and the numbers of removed orders, and mark all of these changes as saved."""
        counts, marks = self.edits.array(kernel.COUNTS), self.edits.array(kernel.MARKS)
        slots = self.edits.array(kernel.EDITED)[: counts[kernel.EDITED_COUNT]].copy()
        gone = self.edits.array(kernel.GONE)[: counts[kernel.GONE_COUNT]].copy()
        marks[slots] = np.where(self._is_live(slots), kernel.STORED, 0)
        counts[:] = 0
        return slots, gone

    def _is_live(self, slots: Words) -> npt.NDArray[np.bool_]:
        return np.asarray(self.table.records()[slots, kernel.VOLUME] > 0)

    def _run(self, slots: Words, gone: Words) -> Run:
        orders = self.table.records()[slots]
        return Run(orders.nbytes + gone.nbytes, partial(_encoded, orders, gone))


def _encoded(orders: Words, gone: Words) -> bytes:
    """Return a run as bytes: the live orders among ``orders``, and the numbers of removed orders."""
    orders = orders[orders[:, kernel.VOLUME] > 0]
    words = np.zeros((kernel.WORDS, len(orders) + len(gone)), np.int64)
    words[:, : len(orders)] = orders.T
    words[0, len(orders) :] = gone
    is_live = np.arange(words.shape[1]) < len(orders)
    columns = [pa.array(each) for each in words]
    return encode_run(pa.RecordBatch.from_arrays([columns[0], pa.array(is_live), *columns[1:]], schema=_SCHEMA))


def _merged(runs: Sequence[tuple[Words, Words]]) -> Words:
    """Return the orders that are live after all of these runs; within a run, removals precede additions."""
    numbers = [_NONE[:, 0]]
    for stored, gone in runs:
        numbers += [gone, stored[:, 0]]
    orders = np.concatenate([_NONE, *(stored for stored, _ in runs)])
    if not len(orders):
        return _NONE
    is_live = np.concatenate([np.zeros(len(each), np.bool_) if place % 2 else np.ones(len(each), np.bool_)
                              for place, each in enumerate(numbers)])  # fmt: skip
    everything = np.concatenate(numbers)
    _, last = np.unique(everything[::-1], return_index=True)
    last = len(everything) - 1 - last  # place of the last occurrence of each order
    place_of = np.cumsum(is_live) - 1
    return np.asarray(orders[place_of[last[is_live[last]]]])
