"""Cost of a differential checkpoint by the size of the state: 1,000 edits at 1 k, 100 k and 10 M entries.

Three things are measured separately:

* `state.differential.HELD`: the object space alone, with a dictionary of integers over a store that discards all data;
* `state.differential.table.HELD`: a keyed table in the same way, its compaction included;
* `state.differential.sqlite.HELD`: the dictionary over SQLite, including edits and fsync. There 1,000 scattered edits
  write 1,000 pages once the dictionary has that many.
"""

from __future__ import annotations

import gc
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bench.report import Record, record
from runtime.state import Edit, KeyedTable, ObjectSpace, PersistedDictionary, SqliteStore, Store

__all__ = ["measure_state"]

_EDITS: Final = 1_000
_CHUNK: Final = 250_000
_RUNS: Final = 31
_HELD: Final = {"1k": 1_000, "100k": 100_000, "1m": 1_000_000, "10m": 10_000_000}


class _Sink(Store):
    """Store that counts the bytes of each commit and discards the data."""

    def __init__(self) -> None:
        self.bytes = 0

    def commit(self, edits: Sequence[Edit]) -> None:
        self.bytes = sum(len(edit.data or b"") for edit in edits)

    def get(self, table: str, key: int) -> bytes | None:
        return None

    def scan(self, table: str) -> Iterator[tuple[int, bytes]]:
        return iter(())

    def close(self) -> None:
        return


def measure_state(quick: bool) -> list[Record]:
    """Measure time and bytes of commits of 1,000 scattered edits; quick: up to 1 M entries, otherwise up to 10 M."""
    sizes = ("1k", "100k", "1m") if quick else ("1k", "100k", "10m")
    records: list[Record] = []
    for name, measure in (("", _dictionary), ("table.", _table), ("sqlite.", _sqlite)):
        least: list[float] = []
        for held in sizes:
            millis, sizes_bytes = measure(_HELD[held])
            least = least or millis
            what = f"state.differential.{name}{held}"
            records.append(record(f"{what}.ms", millis, "ms", "at 1k held", least))
            if sizes_bytes:
                records.append(record(f"{what}.bytes", sizes_bytes, "bytes"))
            gc.collect()
    return records


def _dictionary(held: int) -> tuple[list[float], list[float]]:
    sink = _Sink()
    space, entries = _filled(sink, held)
    return _timed(space, lambda: _edit(entries, held), lambda: sink.bytes)


def _sqlite(held: int) -> tuple[list[float], list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "state.db")
        try:
            space, entries = _filled(store, held)
            return _timed(space, lambda: _edit(entries, held), None)
        finally:
            store.close()


def _filled(store: Store, held: int) -> tuple[ObjectSpace, PersistedDictionary[int, int]]:
    space = ObjectSpace(store)
    entries = space.create(PersistedDictionary[int, int], "entries")
    for first in range(0, held, _CHUNK):
        for key in range(first, min(held, first + _CHUNK)):
            entries[key] = key
        space.commit()
    return space, entries


def _edit(entries: PersistedDictionary[int, int], held: int) -> None:
    for key in random.sample(range(held), _EDITS):
        entries[key] = key + 1


def _table(held: int) -> tuple[list[float], list[float]]:
    sink = _Sink()
    space = ObjectSpace(sink)
    table: KeyedTable = space.table("entries", 1, ["value"])
    table.put(np.arange(held)[:, None], np.arange(held)[None, :])
    space.commit()
    chance = np.random.default_rng(1)

    def edit() -> None:
        keys = (
            chance.choice(held, _EDITS, replace=False) if held < _CHUNK else np.unique(chance.integers(0, held, _EDITS))
        )
        table.put(keys[:, None], keys[None, :])

    return _timed(space, edit, lambda: sink.bytes)


def _timed(
    space: ObjectSpace, edit: Callable[[], None], written: Callable[[], int] | None
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of edits and commit, and the bytes written, of each run."""
    millis, sizes = [], []
    for _ in range(_RUNS):
        begun = time.perf_counter()
        edit()
        space.commit()
        millis.append((time.perf_counter() - begun) * 1e3)
        if written is not None:
            sizes.append(float(written()))
    return millis, sizes
