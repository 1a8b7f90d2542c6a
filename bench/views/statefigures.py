"""Further costs of state and kernels: the largest batch, checkpoints, memory, compilation."""

from __future__ import annotations

import gc
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.views.cases import Case, program_of
from bench.views.hosted import Hosted
from bench.views.market import Market
from bench.views.plan import MAIN
from runtime.native.cache import KernelCache
from runtime.views.shard import ShardState

__all__ = ["Checkpoints", "Compilation", "Stalls", "checkpoints_of", "compilation_of", "held_bytes", "stalls_of"]

_CHECKPOINTS: Final = 10


class Stalls(msgspec.Struct, frozen=True):
    """Thread times in milliseconds of single batches of `MAIN` events, in the order in which they were applied."""

    milliseconds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Ratio of the largest time to the median."""
        return max(self.milliseconds) / statistics.median(self.milliseconds)


class Checkpoints(msgspec.Struct, frozen=True):
    """Cost of `ShardState.save` after each batch of `MAIN` events."""

    bytes_per_event: tuple[float, ...]
    microseconds: tuple[float, ...]
    """Thread time of each save in microseconds."""
    base_bytes: int
    """Size of `ShardState.save_all` at the end."""


class Compilation(msgspec.Struct, frozen=True):
    """Cost of compiling all kernels of a program into an empty cache."""

    kernels: int
    seconds: float
    """Wall-clock seconds, including the start of the compile process."""
    cpu_seconds: float
    """Processor seconds of the compile process."""
    cache_bytes: int


def stalls_of(case: Case, live_orders: int, batches: int) -> Stalls:
    """Apply batches and time each alone; the first few, which warm up, are not counted."""
    market, hosted = Market(live_orders), Hosted(program_of(case))
    hosted.apply(market.first(case.relations))
    found: list[float] = []
    for number in range(batches + 3):
        tables = market.batch(MAIN, case.relations)
        gc.collect()
        start = time.thread_time()
        hosted.apply(tables)
        if number >= 3:
            found.append(1000 * (time.thread_time() - start))
    return Stalls(tuple(found))


def checkpoints_of(case: Case, live_orders: int) -> Checkpoints:
    """Measure a save after each of some batches."""
    market, hosted = Market(live_orders), Hosted(program_of(case), keeps_taken=True)
    hosted.apply(market.first(case.relations))
    hosted.shard.save_all()
    sizes, times = [], []
    for _ in range(_CHECKPOINTS):
        hosted.apply(market.batch(MAIN, case.relations))
        start = time.thread_time()
        run = hosted.shard.save()
        times.append(1e6 * (time.thread_time() - start))
        sizes.append(len(run) / MAIN)
    return Checkpoints(tuple(sizes), tuple(times), len(hosted.shard.save_all()))


def held_bytes(cases: Sequence[Case], live_orders: int) -> int:
    """Return the bytes of all structures of the views of these queries together."""
    market, hosted = Market(live_orders), Hosted(program_of(*cases))
    hosted.apply(market.first())
    hosted.apply(market.batch(MAIN))
    return hosted.shard.nbytes()


def compilation_of(cases: Sequence[Case]) -> Compilation:
    """Compile the kernels of the views of these queries together."""
    sources = ShardState(program_of(*cases), inputs="relations").sources()
    with tempfile.TemporaryDirectory() as folder:
        cache = KernelCache(Path(folder) / "kernels")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = cache.compile_now(sources)
        cache.close()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Compilation(len(sources), report.seconds, cpu_seconds, report.size_bytes)
