"""An object space's store in the state of a Spark processor.

`ShardProcessor` keeps the runs of its shard by itself and not as a chain over this store, as it needs what a chain
does not give: a worker that still has a shard in memory reads only the runs behind the one it is at, found by one read
of a head value, where a chain reads all, and Spark lists the keys of a map state only all together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.streaming import StatefulProcessorHandle

from runtime.state import Edit, Store
from runtime.state.stores.checksums import opened, place_seed, sealed

__all__ = ["SparkStore"]

_KEY: Final = "table string, key bigint"
_VALUE: Final = "data binary"


class SparkStore(Store):
    """Tables in one map state, whose schema never changes, of the group that is being processed.

    A processor declares the state once, in ``init``, and makes a store of it each time that it is given rows: the state
    is another group's each time, and a store remembers what it has read. `commit` is atomic with the batch: what it
    puts is durable when Spark has committed the batch, and gone if that fails. A commit that raises may have put some
    of its edits, so the processor must let the batch fail.

    The first `scan` reads the tables of the whole group, since Spark lists a map state only as a whole; `get` reads one
    value. A value is put or got in some 45 µs, so that state with many edits a batch is better kept in runs than item
    by item. Not thread-safe: used by the call that made it.
    """

    @staticmethod
    def declare(handle: StatefulProcessorHandle, name: str = "space") -> Any:
        """The map state to make stores of; for the processor's ``init``."""
        return handle.getMapState(name, _KEY, _VALUE)

    def __init__(self, state: Any) -> None:
        self._state = state
        self._tables: dict[str, dict[int, bytes]] | None = None  # as stored, once anything was scanned

    def commit(self, edits: Sequence[Edit]) -> None:
        tables = self._tables
        for edit in edits:
            place = (edit.table, edit.key)
            if edit.data is None:
                self._state.removeKey(place)
                if tables is not None:
                    tables.get(edit.table, {}).pop(edit.key, None)
                continue
            data = sealed(place_seed(edit.table), edit.key, edit.data)
            self._state.updateValue(place, (data,))
            if tables is not None:
                tables.setdefault(edit.table, {})[edit.key] = data

    def get(self, table: str, key: int) -> bytes | None:
        if self._tables is not None:
            data = self._tables.get(table, {}).get(key)
        else:
            row = self._state.getValue((table, key))
            data = None if row is None else bytes(row[0])
        return None if data is None else opened(place_seed(table), table, key, data)

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        seed = place_seed(table)
        for key, data in sorted(self._read().get(table, {}).items()):
            yield key, opened(seed, table, key, data)

    def keys(self, table: str) -> Iterator[int]:
        yield from sorted(self._read().get(table, {}))

    def close(self) -> None:
        self._tables = {}

    def _read(self) -> dict[str, dict[int, bytes]]:
        if self._tables is None:
            self._tables = {}
            for (table, key), (data,) in self._state.iterator():
                self._tables.setdefault(table, {})[int(key)] = bytes(data)
        return self._tables
