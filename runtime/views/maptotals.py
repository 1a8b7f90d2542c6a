"""Adds up deltas of a relation by a map's keys in a kernel: exact for any values, where numpy's integers do not reach.

The kernel is that of the totals in a graph that is given relations, so a sum has one meaning and one limit wherever it
is made. While it is not compiled it is interpreted, a few microseconds a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.plan import Map, Relation
from runtime.state import ARROW_TYPES
from runtime.views.emission.values import Field
from runtime.views.feeds import ColumnBatch, MapFeed
from runtime.views.kernels import Kernels, await_kernels
from runtime.views.nodes.totals import Totals, totals_node
from runtime.views.payload import payload_schema
from runtime.views.rows import record_arrays
from runtime.views.strings import Strings

__all__ = ["MapTotals"]


class MapTotals:
    """The totals of one map over a batch of rows. Not thread-safe."""

    def __init__(self, map_: Map, relation: Relation) -> None:
        self._map = map_
        self._strings = Strings()
        self._batch = ColumnBatch([Field(column.name, column.type, column.nullable) for column in relation.columns])
        feed = MapFeed(map_, relation, self._batch, self._strings)
        self._table = Totals(feed.keys, feed.sums)
        keys = [key.name for key in map_.keys]
        self._node = totals_node(feed, self._table, keys, self._strings, [])

    @property
    def source(self) -> str:
        """The kernel source."""
        return self._node.text

    def payload(self, deltas: pa.Table, kernels: Kernels | None) -> pa.Table:
        """Return one row per key that the deltas change, see `payload.payload_schema`.

        Raises `ViewError` for a value that does not fit its column, and for a sum past 126 bits.
        """
        self._look_for_kernel(deltas.num_rows, kernels)
        try:
            self._fill(deltas)
            self._node.run()
            return self._read()
        finally:
            self._fill(deltas.slice(0, 0))  # neither the rows nor their totals stay in memory

    def _look_for_kernel(self, rows: int, kernels: Kernels | None) -> None:
        if kernels is not None and not self._node.is_compiled:
            await_kernels(kernels, [self.source], rows)
            kernel = kernels.get(self.source)
            if kernel is not None:
                self._node.use(kernel)

    def _fill(self, deltas: pa.Table) -> None:
        """Hold these rows and nothing else."""
        self._table.load(np.zeros((0, self._table.stride), np.int64))
        self._strings.replace([])
        self._batch.fill_arrow(deltas, self._strings)
        self._node.resolve()
        self._strings.refresh()

    def _read(self) -> pa.Table:
        records = self._table.dump()
        arrays = record_arrays(self._table.keys, records, self._strings)
        at = self._table.key_words
        arrays.append(pa.array(np.ascontiguousarray(records[:, at])))
        wide = set()
        for place, total in enumerate(self._map.sums):
            low, high = (records[:, at + 1 + 2 * place + half] for half in (0, 1))
            if (high == low >> 63).all():
                arrays.append(pa.array(np.ascontiguousarray(low)))
                continue
            wide.add(total.name)
            words = pa.py_buffer(np.stack([low, high], axis=1))
            arrays.append(pa.Array.from_buffers(ARROW_TYPES["int128"], len(records), [None, words]))
        return pa.Table.from_arrays(arrays, schema=payload_schema(self._map, wide))
