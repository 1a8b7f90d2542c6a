"""Adds up the deltas of a relation by each map's keys, before any other stage reads them.

This stage reduces the volume: its output is one row per changed key, whatever the number of events.

```
deltas of a relation ──▶ one batch of columns ──▶ one kernel for all maps with the same keys ──▶ totals ──▶ payloads
```

The kernel is the one with which a graph over relations maintains totals (`nodes.totals`), so that sums have the same
meaning and the same limit here as in a graph. Until it is compiled it is interpreted, which takes a few microseconds
per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.tiers import Kernels, await_kernels
from runtime.plan import Map, Relation, Sum
from runtime.state import ARROW_TYPES
from runtime.views.arrow_columns import BIND_SOURCE, ColumnBinding
from runtime.views.emission.values import Field
from runtime.views.errors import reason_of
from runtime.views.feeds import ColumnBatch, MapFeed
from runtime.views.nodes.totals import Totals, totals_node
from runtime.views.rows import payload_schema, record_arrays
from runtime.views.strings import Strings

__all__ = ["Preaggregation"]

_KEPT_RECORDS: Final = 1 << 15
"""Greatest capacity, in records, that a table retains from one batch to the next."""
_KEPT_STRINGS: Final = 1 << 16
"""Number of strings above which all strings are dropped between two batches."""

Words = npt.NDArray[np.int64]


class Preaggregation:
    """Adds up the deltas of one relation for its maps. Not thread-safe.

    Maps with the same condition and keys have one table. If one of these maps fails, each of them has a table of its
    own from then on, so that the others continue.
    """

    def __init__(self, relation: Relation, maps: Sequence[Map]) -> None:
        self._relation, self._maps = relation, tuple(maps)
        self._strings = Strings()
        self._batch = ColumnBatch([Field(column.name, column.type, column.nullable) for column in relation.columns])
        self._refused: dict[int, str] = {}
        """Map → reason why there is no kernel for it."""
        groups: dict[object, list[Map]] = {}
        for map_ in maps:
            groups.setdefault((map_.where, tuple((key.expr, key.type) for key in map_.keys)), []).append(map_)
        self._tables = [table for group in groups.values() for table in self._tables_of(group)]

    def _tables_of(self, maps: Sequence[Map]) -> Iterator[_KeyTotals]:
        try:
            yield _KeyTotals(maps, self._relation, self._batch, self._strings)
        except Exception as error:  # noqa: BLE001 (see reason_of)
            if len(maps) == 1:
                self._refused[maps[0].id] = reason_of(error)
                return
            for map_ in maps:
                yield from self._tables_of([map_])

    def sources(self) -> list[str]:
        """Return the kernel sources."""
        return [*(table.node.text for table in self._tables), BIND_SOURCE]

    def payloads(self, deltas: pa.Table, kernels: Kernels | None = None) -> dict[int, pa.Table | str]:
        """Return a dict from each map to its deltas, or to the reason for its failure.

        ``deltas`` are those of the relation: its columns, then ``weight``. The deltas of a map (`rows.payload_schema`)
        have one row per key that changed, and their order depends only on the order of the relation's deltas. A map
        that does not change has no rows. Without ``kernels`` all kernels are interpreted.
        """
        if kernels is not None:
            self._look_for_kernels(kernels, deltas.num_rows)
        results: dict[int, pa.Table | str] = dict(self._refused)
        try:
            self._fill(deltas)
            for table in list(self._tables):
                results |= self._added(table, deltas)
        except Exception as error:  # noqa: BLE001 (see reason_of)
            results |= dict.fromkeys([map_.id for map_ in self._maps], reason_of(error))
        finally:
            self._batch.forget()
            if len(self._strings) > _KEPT_STRINGS:
                self._strings.replace([])
                for table in self._tables:
                    table.node.resolve()
        return results

    def _fill(self, deltas: pa.Table) -> None:
        self._batch.fill_arrow(deltas, self._strings)
        self._strings.refresh()

    def _added(self, table: _KeyTotals, deltas: pa.Table) -> dict[int, pa.Table | str]:
        try:
            return dict(table.payloads())
        except Exception as error:  # noqa: BLE001 (see reason_of)
            reason = reason_of(error)
        if len(table.maps) == 1:
            return {table.maps[0].id: reason}
        self._tables.remove(table)
        singles = [single for map_ in table.maps for single in self._tables_of([map_])]
        self._tables += singles
        self._batch.binding = None  # the new kernels are interpreted at first: they read arrays, not addresses
        self._fill(deltas)
        results: dict[int, pa.Table | str] = {}
        for single in singles:
            results |= self._added(single, deltas)
        return results

    def _look_for_kernels(self, kernels: Kernels, rows: int) -> None:
        """Use the kernels that are compiled by now; with many rows, wait for the others."""
        if self._batch.binding is not None:
            return
        missing = [table.node for table in self._tables if not table.node.is_compiled]
        if missing:
            await_kernels(kernels, [node.text for node in missing], rows)
        for node in missing:
            kernel = kernels.get(node.text)
            if kernel is not None:
                node.use(kernel)
        bind = kernels.get(BIND_SOURCE)
        if bind is not None and all(table.node.is_compiled for table in self._tables):
            self._batch.binding = ColumnBinding(self._batch, self._batch.read_fields(), bind)


class _KeyTotals:
    """Totals of maps that differ only in their sums, over one batch of rows."""

    def __init__(self, maps: Sequence[Map], relation: Relation, batch: ColumnBatch, strings: Strings) -> None:
        self.maps = tuple(maps)
        exprs = {total.expr: None for map_ in maps for total in map_.sums}
        sums = tuple(Sum(f"s{number}", expr) for number, expr in enumerate(exprs))
        feed = MapFeed(msgspec.structs.replace(maps[0], sums=sums), relation, batch, strings)
        self._table, self._strings = Totals(feed.keys, feed.sums), strings
        self.node = totals_node(feed, self._table, [key.name for key in feed.keys], strings, [])
        places = {expr: place for place, expr in enumerate(exprs)}
        self._places = [[places[total.expr] for total in map_.sums] for map_ in maps]
        self._schemas = [payload_schema(map_) for map_ in maps]
        self._table.clear(_KEPT_RECORDS)

    def payloads(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield each map with its deltas; raise `ViewOverflowError` if a key does not fit, or a sum passes 126 bits."""
        table = self._table
        try:
            self.node.run()
            columns = table.dump_columns()
        finally:
            table.clear(_KEPT_RECORDS)
        keys, words = columns[: table.key_words], columns[table.key_words :]
        shared = [*record_arrays(table.keys, keys.T, self._strings), _array("int64", words[0])]
        low, high = words[1::2], words[2::2]
        is_narrow = (high == low >> 63).all(axis=1).tolist()
        sums = [
            _array("int64", low[place]) if narrow else _array("int128", words[1 + 2 * place : 3 + 2 * place].T.copy())
            for place, narrow in enumerate(is_narrow)
        ]
        for map_, places, schema in zip(self.maps, self._places, self._schemas, strict=True):
            wide = [total.name for total, place in zip(map_.sums, places, strict=True) if not is_narrow[place]]
            arrays = [*shared, *(sums[place] for place in places)]
            payload = pa.Table.from_arrays(arrays, schema=payload_schema(map_, wide) if wide else schema)
            yield map_.id, payload if len(places) == len(sums) else _effective(payload, words, places)


def _effective(payload: pa.Table, words: Words, places: Sequence[int]) -> pa.Table:
    """Return the rows of a payload in which the weight, or a sum at one of these places, is not 0."""
    stays = words[0] != 0
    for place in places:
        if stays.all():
            return payload
        stays |= words[1 + 2 * place : 3 + 2 * place].any(axis=0)
    return payload if stays.all() else payload.filter(pa.array(stays))


def _array(kind: str, words: Words) -> pa.Array:
    return pa.Array.from_buffers(ARROW_TYPES[kind], len(words), [None, pa.py_buffer(words)])
