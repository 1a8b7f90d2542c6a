"""Runs seeds and adds up what they have shown."""

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
    """Everything of one seed; made of the seed and where to say what happens."""

    __module__: str

    def run(self) -> None:
        """From nothing to the end; raises what is wrong."""

    def figures(self) -> Counter[str]:
        """How often what has happened."""


Worlds = Callable[[int, Trace], SeedWorld]
"""Makes the world of a seed."""


@dataclass
class Report:
    """What many seeds have shown."""

    seeds: int = 0
    """How many were run."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often what happened."""
    failures: list[str] = field(default_factory=list)
    """In words, each with the command that shows it again."""
    failed: list[int] = field(default_factory=list)
    """Their seeds."""

    def add(self, other: Report) -> None:
        """Take over another report."""
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
    """One seed of a kind of world; ``write`` is given the lines of its trace."""
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
    # Collections of garbage are due between seeds: within one they cost a tenth.
    gc.disable()
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)


def run_seeds(start: int, count: int, jobs: int, chunk: int = _CHUNK, *, worlds: Worlds = World) -> Iterator[Report]:
    """The seeds from ``start`` on, in processes; a report every so many."""
    run_chunk = partial(_run_chunk, worlds)
    chunks = [range(at, min(at + chunk, start + count)) for at in range(start, start + count, chunk)]
    if jobs == 1:
        yield from map(run_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _begin_worker) as pool:
        yield from pool.imap_unordered(run_chunk, chunks)
