"""A generated market: deltas of the relations bids and asks with a steady number of live orders.

A side is a fixed number of slots with an order in each. A step removes the order of a random slot and puts a new order
there. Thus after the warm-up every other event is a removal. All live orders are removed with equal probability,
including orders that the same batch added. To find the removed rows, the steps are sorted by slot: a step removes the
row that the previous step of the slot has put there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.epochs import EpochLog, Footer

__all__ = [
    "BROKERS",
    "DELTA_SCHEMA",
    "LEVELS",
    "LOWEST",
    "MID",
    "MOST_VOLUME",
    "SIDES",
    "Market",
    "Sealer",
]

Integers = npt.NDArray[np.int64]

SIDES: Final = ("bids", "asks")
BROKERS: Final = 10
LEVELS: Final = 2000
"""Number of price levels of a side, over which prices are spread evenly."""
MID: Final = 10_000
LOWEST: Final = {"bids": MID - LEVELS, "asks": MID + 1}
"""The lowest price of a side: bids are 8,000 to 9,999, asks 10,001 to 12,000."""
MOST_VOLUME: Final = 1000
"""Largest volume; volumes are distributed evenly from 1."""
_COLUMNS: Final = ("t", "id", "broker_id", "volume", "price")
_LONGEST_GAP: Final = 20
DELTA_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in (*_COLUMNS, "weight")])


class _Side:
    """One relation: its live orders by slot, and the next events."""

    def __init__(self, number: int, live_orders: int, seed: int) -> None:
        self._rng = np.random.default_rng([seed, number])
        self._lowest = LOWEST[SIDES[number]]
        self._time = 0
        self._next_id = number
        self._slots = np.zeros((len(_COLUMNS), live_orders), np.int64)
        self._hole = -1  # the slot whose order is removed and whose new order is still to come
        self._slots[:] = self._orders(live_orders)

    def live(self) -> pa.Table:
        """Return the rows of the relation."""
        rows = self._slots if self._hole < 0 else np.delete(self._slots, self._hole, axis=1)
        return pa.table({name: pa.array(rows[i].copy()) for i, name in enumerate(_COLUMNS)})

    def first(self) -> pa.Table:
        """Return the initial rows, as insertions."""
        return _deltas(self._slots.copy(), np.ones(self._slots.shape[1], np.int64))

    def next(self, events: int) -> pa.Table:
        """Return the next ``events`` events; a step may be cut between its removal and its insertion."""
        begins_inside = self._hole >= 0
        steps = (events + begins_inside + 1) // 2
        ends_inside = (events + begins_inside) % 2 == 1
        slots = self._rng.integers(0, self._slots.shape[1], steps)
        if begins_inside and steps:
            slots[0] = self._hole
        added = self._orders(steps - ends_inside)
        before = _step_before(slots)
        removed = self._slots[:, slots]
        again = np.flatnonzero(before >= 0)
        removed[:, again] = added[:, before[again]]
        rows = np.empty((len(_COLUMNS), 2 * steps), np.int64)
        rows[:, 0::2] = removed
        rows[:, 1 : 2 * added.shape[1] : 2] = added
        self._slots[:, slots[: added.shape[1]]] = added  # for a slot that occurs again, the last assignment counts
        self._hole = int(slots[-1]) if ends_inside else -1
        weight = np.empty(2 * steps, np.int64)
        weight[0::2], weight[1::2] = -1, 1
        begin = int(begins_inside)
        return _deltas(rows[:, begin : begin + events], weight[begin : begin + events])

    def _orders(self, count: int) -> Integers:
        """Return new orders: times increase, ids are unique over both sides."""
        rng, rows = self._rng, np.empty((len(_COLUMNS), count), np.int64)
        np.cumsum(rng.integers(1, _LONGEST_GAP, count), out=rows[0])
        rows[0] += self._time
        rows[1] = np.arange(self._next_id, self._next_id + 2 * count, 2)
        rows[2] = rng.integers(0, BROKERS, count)
        rows[3] = rng.integers(1, MOST_VOLUME + 1, count)
        rows[4] = rng.integers(self._lowest, self._lowest + LEVELS, count)
        if count:
            self._time = int(rows[0, -1])
        self._next_id += 2 * count
        return rows


def _step_before(slots: Integers) -> Integers:
    """Return for each step the last earlier step in the same slot, -1 for none."""
    places = np.sort((slots << 32) | np.arange(len(slots)))  # one quick sort of plain integers instead of an argsort
    steps = places & 0xFFFFFFFF
    same = (places[1:] >> 32) == (places[:-1] >> 32)
    before = np.full(len(slots), -1, np.int64)
    before[steps[1:]] = np.where(same, steps[:-1], -1)
    return before


def _deltas(rows: Integers, weight: Integers) -> pa.Table:
    arrays = [*(pa.array(np.ascontiguousarray(row)) for row in rows), pa.array(np.ascontiguousarray(weight))]
    return pa.Table.from_arrays(arrays, schema=DELTA_SCHEMA)


class Market:
    """Both sides, each with the same number of live orders; equal seeds and sizes of batches give equal events."""

    def __init__(self, live_orders: int, seed: int = 1) -> None:
        self._sides = {name: _Side(number, live_orders, seed) for number, name in enumerate(SIDES)}
        self._turn = 0  # the relation that gets more events if they cannot be divided evenly

    def first(self, relations: Sequence[str] = SIDES) -> dict[str, pa.Table]:
        """Return the warm-up: insertions of the initial live orders."""
        return {name: self._sides[name].first() for name in relations}

    def batch(self, events: int, relations: Sequence[str] = SIDES) -> dict[str, pa.Table]:
        """Return the next ``events`` events, divided evenly over these relations."""
        share, rest = divmod(events, len(relations))
        counts = [share + ((place - self._turn) % len(relations) < rest) for place in range(len(relations))]
        self._turn += rest
        return {name: self._sides[name].next(count) for name, count in zip(relations, counts, strict=True) if count}

    def live(self, relations: Sequence[str] = SIDES) -> dict[str, pa.Table]:
        """Return the present rows of the relations."""
        return {name: self._sides[name].live() for name in relations}


class Sealer:
    """Writer of batches into an epoch log, each batch as a number of segments."""

    def __init__(self, directory: Path, program: bytes) -> None:
        self._log = EpochLog(directory)
        self.epoch = -1
        self._seal({}, program)

    def seal(self, tables: Mapping[str, pa.Table], segments: int) -> int:
        """Write the rows in order into the next ``segments`` epochs; return the last of them."""
        for place in range(segments):
            self._seal({name: _slice(table, place, segments) for name, table in tables.items()}, b"")
        return self.epoch

    def _seal(self, tables: Mapping[str, pa.Table], control: bytes) -> None:
        messages = sum(table.num_rows for table in tables.values())
        footer = Footer(self.epoch, self.epoch + 1, messages=messages, time_ns=time.time_ns(), control=control)
        self._log.publish(self._log.prepare(footer, {name: _batches(table) for name, table in tables.items()}))
        self.epoch += 1


def _slice(table: pa.Table, place: int, parts: int) -> pa.Table:
    begin, end = (table.num_rows * p // parts for p in (place, place + 1))
    return table.slice(begin, end - begin)


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches() if table.num_rows else ())
