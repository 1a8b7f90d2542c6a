"""A map's state: keyed sums that deltas are added to."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Map
from runtime.state import KeyColumn, KeyedTable, StringPool, decode_words, encode_words, width_of
from runtime.views import limbs
from runtime.views.preaggregate import WEIGHT, payload_weight

__all__ = ["MapChange", "MapState"]

Integers = npt.NDArray[np.int64]


class MapChange(msgspec.Struct, frozen=True):
    """What a merge did, one entry per key that changed."""

    keys: Integers
    """Key words, shape (n, width)."""
    old: Integers
    """Values before, shape (1 + 2 × sums, n); zeros where the key was not held."""
    new: Integers
    """Values after."""


class MapState:
    """The rows of one map: key → weight and sums.

    A key is held as long as its weight or one of its sums is not 0. Nothing is emitted for a key whose weight is not
    positive: a deletion may arrive before the insertion that it undoes.
    """

    def __init__(self, map_: Map, pool: StringPool) -> None:
        self._map = map_
        self._pool = pool
        self._columns = tuple(KeyColumn(k.name, k.type, nullable=True) for k in map_.keys)
        values = [WEIGHT, *(f"{part}_{s.name}" for s in map_.sums for part in ("high", "low"))]
        self.table = KeyedTable(width_of(self._columns), values)

    def __len__(self) -> int:
        return len(self.table)

    def merge(self, deltas: pa.Table) -> MapChange:
        """Add deltas with one row per key; raises `ViewOverflowError` before anything is changed."""
        arrays = [deltas[c.name].combine_chunks() for c in self._columns]
        keys = encode_words(self._columns, arrays, self._pool) if arrays else np.zeros((deltas.num_rows, 0), np.int64)
        added = np.stack([payload_weight(deltas), *self._parts(deltas)])
        slots = self.table.lookup(keys)
        old = np.where(slots >= 0, self.table.get(np.maximum(slots, 0)), 0)
        new = old + added
        for row in range(1, len(new), 2):
            new[row], new[row + 1] = limbs.normalise(new[row], new[row + 1])
        stays = (new != 0).any(axis=0)
        self.table.put(keys[stays], new[:, stays])
        self.table.delete(keys[~stays & (slots >= 0)])
        return MapChange(keys, old, new)

    def _parts(self, deltas: pa.Table) -> list[Integers]:
        return [part for total in self._map.sums for part in limbs.split(deltas[total.name].combine_chunks())]

    def columns(self, keys: Integers, values: Integers) -> dict[str, pa.Array]:
        """Keys, ``weight`` and sums as Arrow columns by name."""
        named = dict(zip((c.name for c in self._columns), decode_words(self._columns, keys, self._pool), strict=True))
        named[WEIGHT] = pa.array(values[0])
        for place, total in enumerate(self._map.sums):
            named[total.name] = limbs.join(values[1 + 2 * place], values[2 + 2 * place])
        return named

    def expanded(self) -> pa.Table:
        """The keys as a table with as many equal rows as each one's weight."""
        slots = self.table.live_slots()
        weight = self.table.get(slots)[0]
        present = slots[weight > 0]
        times = self.table.get(present)[0]
        arrays = decode_words(self._columns, self.table.keys_of(present), self._pool)
        if not arrays:  # a query that needs no column still needs the number of rows
            return pa.table({"one": pa.array(np.ones(int(times.sum()), np.int8))})
        table = pa.Table.from_arrays(arrays, names=[c.name for c in self._columns])
        return table if (times == 1).all() else table.take(pa.array(np.repeat(np.arange(len(present)), times)))
