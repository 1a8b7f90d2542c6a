"""Random input for operators, cut into batches and epochs at random, and what DuckDB makes of the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from runtime.engine.operators import Stream, Task

Epoch = dict[str, pa.RecordBatch]
"""The rows of each scan."""

STRINGS = [None, "a", "b", "ß", ""]
FLOATS = [None, 0.0, -0.0, 1.5, -2.25, float("inf")]
LISTS = [None, [], [1], [2, None, 3], [4, 5, 6, 7, 8]]
SCHEMA = pa.schema(
    [("k", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("v", pa.int64()), ("l", pa.list_(pa.int64()))]
)


def random_rows(random: Random, most: int, prefix: str = "", *, huge: bool = False) -> pa.RecordBatch:
    """Up to so many rows of `SCHEMA`, its names with something in front; ``v`` tells rows apart unless it is huge."""
    count = random.randint(0, most)
    numbers: list[int | None] = list(range(count))
    if huge:
        numbers = [random.choice([None, 2**62, -(2**62), 2**63 - 1, 7]) for _ in range(count)]
    columns = [
        pa.array([random.choice([None, *range(6)]) for _ in range(count)], pa.int64()),
        pa.array([random.choice(STRINGS) for _ in range(count)], pa.string()),
        pa.array([random.choice(FLOATS) for _ in range(count)], pa.float64()),
        pa.array(numbers, pa.int64()),
        pa.array([random.choice(LISTS) for _ in range(count)], pa.list_(pa.int64())),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[prefix + name for name in SCHEMA.names])


def sorted_rows(batch: pa.RecordBatch, *keys: str) -> pa.RecordBatch:
    """The rows in the order of these columns, NULL last."""
    return batch.take(pc.sort_indices(batch, [(key, "ascending") for key in keys]))


def slices(random: Random, batch: pa.RecordBatch, most: int = 7) -> list[pa.RecordBatch]:
    """The batch in pieces."""
    found, start = [], 0
    while start < batch.num_rows:
        found.append(batch.slice(start, random.randint(1, most)))
        start += found[-1].num_rows
    return found


def run_epochs(random: Random, task: Task, epochs: Sequence[Epoch]) -> list[list[pa.RecordBatch]]:
    """What a task gives out in each epoch; its scans' batches are mixed at random, and nothing may be held after."""
    outputs = []
    for epoch in epochs:
        waiting = {name: slices(random, batch) for name, batch in epoch.items()}
        found = []
        while any(waiting.values()):
            name = random.choice([name for name, batches in waiting.items() if batches])
            task.add_input(name, waiting[name].pop(0))
            if random.random() < 0.5:
                found += task.outputs()
        found += task.drain()
        assert task.held_rows() == 0
        outputs.append(found)
    assert task.barriers == len(epochs)
    return outputs


def by_epoch(random: Random, stream: Stream, epochs: Sequence[Epoch]) -> list[list[tuple[Any, ...]]]:
    """The rows that a new task for this plan gives out in each epoch, sorted."""
    return [rows_of(batches) for batches in run_epochs(random, Task(stream), epochs)]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The rows, sorted, to be compared."""
    return _sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def _sorted(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(value) for value in row) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal) and value == int(value):
        return int(value)
    return 0.0 if isinstance(value, float) and value == 0 else value


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all tests of a process: a connection takes longer than a query."""
    return duckdb.connect(config={"threads": 1})


def from_scratch(sql: str, tables: Mapping[str, pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """What DuckDB says, sorted."""
    for name, batch in tables.items():
        _database().register(name, pa.Table.from_batches([batch]))
    try:
        return _sorted(_database().execute(sql).fetchall())
    finally:
        for name in tables:
            _database().unregister(name)
