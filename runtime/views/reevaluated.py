"""Changes of a re-evaluated view: the query again over the maps, and the difference to the last result."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Reevaluated, View
from runtime.state import KeyColumn, KeyedTable, StringPool, decode_words, encode_words, width_of
from runtime.views.errors import ViewError
from runtime.views.linear import as_column, change_schema
from runtime.views.maps import MapState

__all__ = ["LastResult", "evaluate_query"]

Integers = npt.NDArray[np.int64]


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One empty database a process: opening one takes 15 ms, a cursor 1 ms; registered tables are a cursor's own."""
    atexit.register(_close)
    return duckdb.connect(config={"threads": 1})


def _close() -> None:
    """Left open, DuckDB's binding complains on standard error when the process ends."""
    _database().close()
    _database.cache_clear()


def evaluate_query(view: View, body: Reevaluated, maps: Mapping[int, MapState]) -> pa.Table:
    """The view's result from scratch; raises `ViewError` with DuckDB's reason."""
    with _database().cursor() as connection:
        for given in body.inputs:
            connection.register(given.table, maps[given.map].expanded())
        try:
            result = connection.sql(body.query).to_arrow_table()
        except duckdb.Error as error:
            raise ViewError(f"expected to evaluate view {view.name}, was {str(error).splitlines()[0]}") from None
    arrays = [
        as_column(column.combine_chunks(), described)
        for column, described in zip(result.columns, view.columns, strict=True)
    ]
    names = [c.name for c in view.columns]
    return pa.Table.from_arrays([_whole(array) for array in arrays], names=names)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


class LastResult:
    """The rows that a re-evaluated view has now, with their multiplicities."""

    def __init__(self, view: View, pool: StringPool) -> None:
        self._view = view
        self._pool = pool
        self._columns = tuple(KeyColumn(c.name, c.type, nullable=True) for c in view.columns)
        self.table = KeyedTable(width_of(self._columns), ["weight"])

    def replace(self, result: pa.Table) -> pa.Table:
        """Take the new result; gives the rows removed (-) and added (+)."""
        words = encode_words(self._columns, [c.combine_chunks() for c in result.columns], self._pool)
        keys, counts = np.unique(words, axis=0, return_counts=True) if len(words) else (words, np.zeros(0, np.int64))
        live = self.table.live_slots()
        slots = self.table.lookup(keys)
        before = np.where(slots >= 0, self.table.get(np.maximum(slots, 0))[0], 0)
        gone = live[~np.isin(live, slots)]
        gone_keys, gone_weight = self.table.keys_of(gone), self.table.get(gone)[0]
        changed = counts != before
        self.table.put(keys[changed], counts[changed][None, :])
        self.table.delete(gone_keys)
        return self._changes(
            np.concatenate([gone_keys, keys[changed]]), np.concatenate([-gone_weight, (counts - before)[changed]])
        )

    def _changes(self, keys: Integers, weight: Integers) -> pa.Table:
        arrays = decode_words(self._columns, keys, self._pool)
        return pa.Table.from_arrays([*arrays, pa.array(weight)], schema=change_schema(self._view.columns))
