"""Runs seeds and adds up their results."""

from __future__ import annotations

import gc
import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from twisted.logger import globalLogBeginner

from tests.simulation.trace import Trace
from tests.simulation.world import World

__all__ = ["Report", "SeedWorld", "Worlds", "run_seed", "run_seeds"]

_CHUNK = 25
_FIRST = ("events", "messages", "epochs", "versions", "barriers", "crashes", "starts")


class SeedWorld(Protocol):
    """World of one seed; made from the seed and a trace."""

    __module__: str

    def run(self) -> None:
        """Run the seed from beginning to end; raise the first error."""

    def figures(self) -> Counter[str]:
        """Return the number of events of each kind."""


Worlds = Callable[[int, Trace], SeedWorld]
"""Function that makes the world of a seed."""


@dataclass
class Report:
    """Result of many seeds."""

    seeds: int = 0
    """Number of seeds that were run."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of events of each kind."""
    failures: list[str] = field(default_factory=list)
    """Failures in words, each with the command that shows it again."""
    failed: list[int] = field(default_factory=list)
    """Seeds that failed."""

    def add(self, other: Report) -> None:
        """Add another report."""
        self.seeds += other.seeds
        self.counts += other.counts
        self.failures += other.failures
        self.failed += other.failed

    def __str__(self) -> str:
        first = [name for name in _FIRST if name in self.counts]
        others = sorted(set(self.counts) - set(first))
        figures = ", ".join(f"{self.counts[name]:,} {name}" for name in (*first, *others))
        return f"{self.seeds:,} seeds: {figures}; {len(self.failures)} bugs"


def run_seed(seed: int, report: Report, *, worlds: Worlds = World, write: Callable[[str], None] | None = None) -> None:
    """Run one seed of a kind of world; ``write`` is called with the lines of its trace."""
    report.seeds += 1
    world = worlds(seed, Trace(write))
    try:
        world.run()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        report.failed.append(seed)
        report.failures.append(
            f"seed {seed}: {type(error).__name__}: {error}\n"
            f"  at {_place(error)}\n"
            f"  again: python -m {world.__module__.rpartition('.')[0]} --seed {seed} -v"
        )
        if write is not None:
            write(traceback.format_exc())
    finally:
        report.counts += world.figures()


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[:-7:-1])


def _run_chunk(worlds: Worlds, seeds: Sequence[int]) -> Report:
    report = Report()
    for seed in seeds:
        run_seed(seed, report, worlds=worlds)
    gc.collect()
    return report


def _begin_worker() -> None:
    # Garbage is collected between seeds: within one, collections take a tenth of the time.
    gc.disable()
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)


def run_seeds(start: int, count: int, jobs: int, chunk: int = _CHUNK, *, worlds: Worlds = World) -> Iterator[Report]:
    """Run the seeds from ``start`` on, in processes; yield a report for each chunk."""
    run_chunk = partial(_run_chunk, worlds)
    chunks = [range(at, min(at + chunk, start + count)) for at in range(start, start + count, chunk)]
    if jobs == 1:
        yield from map(run_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _begin_worker) as pool:
        yield from pool.imap_unordered(run_chunk, chunks)
