"""Tasks per second of the engine, for tasks that have nothing to do."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.engine.plans import PATIENCE_S, ItemSource, PassOn, chain, running
from bench.report import Record, record
from runtime.engine import EngineConfig

__all__ = ["measure_tasks"]

_OPERATORS: Final = 4
_REFERENCE: Final = "concurrent.futures.ThreadPoolExecutor, as many threads: the same items through as many submits"


def measure_tasks(quick: bool) -> list[Record]:
    """Measure the rate with two workers and with one."""
    items, runs = (10_000, 3) if quick else (100_000, 5)
    found = []
    for workers, what in ((2, "engine.tasks_per_s"), (1, "engine.tasks_per_s.1")):
        rates, plain = [], []
        for _ in range(runs):
            rates.append(_OPERATORS * items / _seconds(items, workers))
            plain.append(_OPERATORS * items / _executor_seconds(items, workers))
        found.append(record(what, rates, "tasks/s", _REFERENCE, plain))
    return found


def _seconds(items: int, workers: int) -> float:
    """Return the seconds in which items pass through a chain of pipelines, with a task per item and pipeline, until the
    query has ended.
    """
    plan = chain(ItemSource(items, ends=True), [PassOn(workers) for _ in range(_OPERATORS)])
    start = time.perf_counter()
    with running(plan, workers) as (_, ended):
        if not ended.wait(PATIENCE_S):
            raise RuntimeError(f"expected {items} items to go through within {PATIENCE_S:.0f} s, they did not")
        return time.perf_counter() - start


def _executor_seconds(items: int, workers: int) -> float:
    """Return the seconds of the same work on an executor: a task submits the next one, with as many items in flight."""
    room = threading.Semaphore(EngineConfig().in_flight)
    left = items
    done = threading.Event()
    lock = threading.Lock()

    def step(item: int, operator: int) -> None:
        nonlocal left
        if operator < _OPERATORS:
            pool.submit(step, item, operator + 1)
            return
        room.release()
        with lock:
            left -= 1
            if not left:
                done.set()

    with ThreadPoolExecutor(workers) as pool:
        start = time.perf_counter()
        for item in range(items):
            room.acquire()
            pool.submit(step, item, 1)
        done.wait()
        return time.perf_counter() - start
