"""Memory and time of tuple queues with one copy of each item for all queries, and with a copy for each query.

A burst of items of one source waits for 1, 10 or 100 queries, and then every query takes all of them one by one. There
are three variants:

* the shared queue (case B);
* a queue for each query with a copy of each item (case A as intended, where a query may change its items);
* a queue for each query in which the items are the same objects (case A as Python allows it, because items are never
  changed).

Memory is what Python allocates while the burst is queued, measured by `tracemalloc`, without the burst's own items.
Times are of bursts without `tracemalloc`.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Final

from bench.report import Record, record
from runtime.tuples import OwnQueues, SharedQueue, TupleQueue

__all__ = ["measure_tuple_queues"]

_QUERIES: Final = (1, 10, 100)
_ITEM_BYTES: Final = 96
"""Size of an item in bytes: about that of a text feed message, or of the row of such a message."""


def _copied(item: bytes) -> bytes:
    return bytes(memoryview(item))


_CASES: Final[dict[str, Callable[[int], TupleQueue[bytes]]]] = {
    "shared": lambda capacity: SharedQueue(capacity, at_limit="refuse"),
    "own": lambda capacity: OwnQueues(capacity, at_limit="refuse", copy=_copied),
    "own_uncopied": lambda capacity: OwnQueues(capacity, at_limit="refuse"),
}


def measure_tuple_queues(quick: bool) -> list[Record]:
    """Measure ``tuples.CASE.QUERIES.*``; ratios are of the shared queue to the copies."""
    items, runs = (500, 3) if quick else (5_000, 5)
    records: list[Record] = []
    for queries in _QUERIES:
        found = {case: _measured(case, items, queries, runs) for case in _CASES}
        copies = found["own"]
        for case, figures in found.items():
            reference = f"a queue and a copy for each of {queries} queries" if case == "shared" else ""
            for name, unit in (("bytes_per_item", "bytes"), ("add_ns", "ns"), ("get_ns", "ns")):
                beside = copies[name] if case == "shared" else ()
                records.append(record(f"tuples.{case}.{queries}.{name}", figures[name], unit, reference, beside))
    return records


def _measured(case: str, items: int, queries: int, runs: int) -> dict[str, list[float]]:
    """Return figures per item: its memory while it waits for all queries, the time to add it, and the time to get
    it."""
    figures: dict[str, list[float]] = {"bytes_per_item": [_memory(case, items, queries) / items]}
    figures |= {"add_ns": [], "get_ns": []}
    for _ in range(runs):
        burst = _burst(items)
        queue = _joined(case, items, queries)
        start = time.perf_counter_ns()
        for item in burst:
            queue.add(item)
        added = time.perf_counter_ns()
        for query in range(queries):
            for _ in range(items):
                queue.get(query)
        taken = time.perf_counter_ns()
        figures["add_ns"].append((added - start) / items)
        figures["get_ns"].append((taken - added) / items / queries)
    return figures


def _memory(case: str, items: int, queries: int) -> int:
    """Return the bytes that the queue has allocated beyond the items, all of which wait for all queries."""
    burst = _burst(items)
    queue = _joined(case, items, queries)
    tracemalloc.start()
    try:
        for item in burst:
            queue.add(item)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _burst(items: int) -> list[bytes]:
    return [str(number).encode().rjust(_ITEM_BYTES) for number in range(items)]


def _joined(case: str, capacity: int, queries: int) -> TupleQueue[bytes]:
    queue = _CASES[case](capacity)
    for query in range(queries):
        queue.join(query)
    return queue
