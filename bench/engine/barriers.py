"""Duration of a barrier, from its request until every operator has drained."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from bench.engine.plans import PATIENCE_S, QUERY, Counted, ItemSource, PassOn, chain, running
from bench.report import Record, record
from runtime.engine import BarrierFuture, BarrierOutcome, QueryEngine

__all__ = ["OPERATORS", "measure_barriers"]

OPERATORS: Final = (1, 10, 100)
_WORKERS: Final = 2
_ROUNDS: Final = 5
_WARM: Final = 20
_BETWEEN: Final = 200
"""Number of items that pass between two barriers; at most 64 are in flight at a time."""
_FOR_EVER: Final = 1 << 60
_REFERENCE: Final = (
    "concurrent.futures.ThreadPoolExecutor, two threads: a task for each operator, which submits the next, {}"
)


def measure_barriers(quick: bool) -> list[Record]:
    """Measure plans of 1, 10 and 100 operators in a row, without input (idle) and with as much as they
    accept (loaded).
    """
    found: list[Record] = []
    for operators in OPERATORS:
        for suffix, load, count in (("", 0, 60 if quick else 1000), (".loaded", _FOR_EVER, 20 if quick else 200)):
            rounds = _engine_rounds(operators, load, count)
            plain = _executor_rounds(operators, load > 0, count)
            for share in (50, 99):
                ours, theirs = ([float(np.percentile(each, share)) for each in times] for times in (rounds, plain))
                reference = _REFERENCE.format("with others on their way" if load else "alone")
                found.append(record(f"engine.barrier.{operators}.p{share}_us{suffix}", ours, "µs", reference, theirs))
    return found


def _engine_rounds(operators: int, items: int, count: int) -> list[list[float]]:
    """Return the microseconds of each barrier, by round."""
    last = Counted()
    pipelines = [*(PassOn() for _ in range(operators - 1)), last]

    def barrier_us() -> float:
        if items:
            last.wait_for(_BETWEEN)  # until the plan is as full as before the last barrier
        return _barrier_us(engine)

    with running(chain(ItemSource(items, ends=False), pipelines), _WORKERS) as (engine, _):
        _rounds(barrier_us, _WARM, rounds=1)
        return _rounds(barrier_us, count)


def _rounds(measure: Callable[[], float], count: int, rounds: int = _ROUNDS) -> list[list[float]]:
    return [[measure() for _ in range(count)] for _ in range(rounds)]


def _barrier_us(engine: QueryEngine) -> float:
    ends: list[float] = []
    done = threading.Event()

    def on_done(_: BarrierFuture) -> None:
        ends.append(time.perf_counter())
        done.set()

    start = time.perf_counter()
    future = engine.request_barrier(QUERY)
    future.when_done(on_done)
    if not done.wait(PATIENCE_S) or future.outcome is not BarrierOutcome.REACHED:
        raise RuntimeError(f"expected a barrier to be reached within {PATIENCE_S:.0f} s, was {future.outcome}")
    return (ends[0] - start) * 1e6


def _executor_rounds(operators: int, is_loaded: bool, count: int) -> list[list[float]]:
    """Return the microseconds in which a token is passed from task to task; other tokens circulate if ``is_loaded``."""
    stopped = threading.Event()
    with ThreadPoolExecutor(_WORKERS) as pool:

        def step(left: int, on_end: Callable[[], None]) -> None:
            if left:
                pool.submit(step, left - 1, on_end)
            else:
                on_end()

        def again() -> None:
            if not stopped.is_set():
                pool.submit(step, operators - 1, again)

        def token_us() -> float:
            ends: list[float] = []
            done = threading.Event()

            def on_end() -> None:
                ends.append(time.perf_counter())
                done.set()

            start = time.perf_counter()
            pool.submit(step, operators - 1, on_end)
            done.wait()
            return (ends[0] - start) * 1e6

        for _ in range(64 if is_loaded else 0):
            again()
        found = _rounds(token_us, count)
        stopped.set()
    return found
