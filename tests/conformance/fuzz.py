"""Random queries over random streams, each pair from a seed.

::

    python -m tests.conformance.fuzz --seeds 10000 [--start 0] [--jobs 2]
    python -m tests.conformance.fuzz --seeds 500 --streams 20 --tiers
                                                        20 streams for each query, also with compiled kernels: both
                                                        tiers must save the same bytes
    python -m tests.conformance.fuzz --seeds 2000 --shape temporal      only queries of one shape of the grammar
    python -m tests.conformance.fuzz --seed 17              one pair, with its query and class
    python -m tests.conformance.fuzz --case joins.triangle --seed 3     a query of the corpus over a seed's stream
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from runtime.compiler import Program
from runtime.native.cache import KernelCache
from tests.conformance.corpus import cases
from tests.conformance.grammar import random_query
from tests.conformance.harness import Question, case_stream, check, compiled, explain_failure
from tests.conformance.oracle import Oracle
from tests.conformance.schema import RELATIONS
from tests.conformance.streams import random_stream
from tests.generators.database import kept

__all__ = ["Report", "question_of", "run_seed", "run_seeds"]

_SKIPPED_SHARE = 0.02
"""Largest share of pairs for which the oracle has no answer."""


@dataclass
class Report:
    """Results of many pairs."""

    classes: Counter[str] = field(default_factory=Counter)
    """Number of pairs by the class of their view."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Number of re-evaluated views by the reason."""
    skipped: int = 0
    """Number of pairs for which the oracle had no answer at some version."""
    answers: int = 0
    """Number of compared versions."""
    rows: int = 0
    """Number of rows in the oracle's answers."""
    failures: list[str] = field(default_factory=list)
    """Failures in words."""

    def add(self, other: Report) -> None:
        """Add another report."""
        self.classes += other.classes
        self.reasons += other.reasons
        self.skipped += other.skipped
        self.answers += other.answers
        self.rows += other.rows
        self.failures += other.failures

    @property
    def pairs(self) -> int:
        """Number of pairs that were run."""
        return self.classes.total()

    def __str__(self) -> str:
        shown = ", ".join(f"{count} {name}" for name, count in self.classes.most_common())
        return (f"{self.pairs} pairs ({shown}), {self.answers} answers with {self.rows} rows, "
                f"{self.skipped} skipped, {len(self.failures)} failed")  # fmt: skip


@kept
def _oracle() -> Oracle:
    return Oracle(RELATIONS)


def question_of(seed: int, shape: str = "") -> Question:
    """Return the query of a seed; with ``shape``, a query of that shape of the grammar."""
    return Question({"view": random_query(seed, shape)}, "dbtoaster" if seed % 7 == 0 else "sql")


def run_seed(
    seed: int,
    report: Report,
    *,
    streams: int = 1,
    shrink: bool = True,
    kernels: KernelCache | None = None,
    shape: str = "",
) -> None:
    """Run the query of a seed over some streams, each of which is a pair; with kernels in both tiers."""
    question = question_of(seed, shape)
    which = f"--seed {seed}" if kernels is None else f"--seeds 1 --start {seed} --tiers"
    again = f"python -m tests.conformance.fuzz {which}" + (f" --streams {streams}" if streams > 1 else "")
    again += f" --shape {shape}" if shape else ""
    try:
        program = compiled(question)
    except Exception as error:  # noqa: BLE001 - every query is valid
        report.classes["refused"] += 1
        report.failures.append(f"{question.queries['view']}\n{type(error).__name__}: {error}\nagain: {again}")
        return
    for number in range(streams):
        _run_pair(seed, question, program, number, report, again, shrink=shrink, kernels=kernels)


def _run_pair(
    seed: int,
    question: Question,
    program: Program,
    number: int,
    report: Report,
    again: str,
    *,
    shrink: bool,
    kernels: KernelCache | None,
) -> None:
    rng = random.Random(f"{seed} {number}" if number else -seed - 1)
    shards = (rng.choice((1, 1, 2, 3)),)
    view = program.views[0]
    report.classes[view.view_class] += 1
    if view.view_class == "reevaluated":
        report.reasons[view.reason] += 1
    stream = random_stream(rng, program.relations, versions=rng.randint(2, 4), rows=4, early=rng.random() < 0.1)
    try:
        outcome = check(question, stream, _oracle(), shards=shards, seed=seed, program=program, kernels=kernels)
    except Exception as error:  # noqa: BLE001 - any failure is reported
        message = f"{type(error).__name__}: {error}\nagain: {again}"
        # A failure of the tiers is reported as it is: to make it smaller, kernels would be compiled many times.
        is_shrunken = shrink and kernels is None
        report.failures.append(
            explain_failure(question, stream, _oracle(), shards, seed, again) if is_shrunken else message
        )
        return
    report.skipped += outcome.limits > 0
    report.answers += outcome.versions
    report.rows += outcome.rows


@functools.cache
def _kernels(folder: Path) -> KernelCache:
    return KernelCache(folder)


def _run_range(seeds: range, streams: int, folder: Path | None, shape: str) -> Report:
    report = Report()
    kernels = None if folder is None else _kernels(folder)
    for seed in seeds:
        run_seed(seed, report, streams=streams, shrink=len(report.failures) < 2, kernels=kernels, shape=shape)
    return report


def run_seeds(
    start: int, count: int, jobs: int, folder: Path | None = None, *, streams: int = 1, shape: str = ""
) -> Iterator[Report]:
    """Run the seeds from ``start`` on, in processes; yield a report for every 50 of them.

    With a folder for kernels the pairs run in both tiers.
    """
    chunks: Sequence[range] = [range(at, min(at + 50, start + count)) for at in range(start, start + count, 50)]
    run = functools.partial(_run_range, streams=streams, folder=folder, shape=shape)
    if jobs == 1:
        yield from map(run, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run, chunks)


@click.command()
@click.option("--seeds", default=10000, show_default=True, help="Number of queries.")
@click.option("--streams", default=1, show_default=True, help="Number of streams for each query.")
@click.option("--start", default=0, show_default=True, help="First seed.")
@click.option(
    "--jobs",
    default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2,
    help="Number of processes.",
)
@click.option("--seed", type=int, help="Only the query of this seed.")
@click.option("--shape", default="", help="Only queries of this shape of the grammar, such as temporal.")
@click.option("--case", help="Query of the corpus, in place of the seed's own.")
@click.option("--tiers", is_flag=True, help="Also run compiled kernels, and compare the saved bytes of both tiers.")
@click.option("--reasons", is_flag=True, help="Print the reasons why views are re-evaluated.")
def main(
    seeds: int,
    streams: int,
    start: int,
    jobs: int,
    seed: int | None,
    shape: str,
    case: str | None,
    tiers: bool,
    reasons: bool,
) -> None:
    """Compare random queries over random streams with DuckDB."""
    if seed is not None:
        sys.exit(_run_one(seed, streams, case, shape))
    begun, total = time.monotonic(), Report()
    with tempfile.TemporaryDirectory() as folder:
        for report in run_seeds(start, seeds, jobs, Path(folder) if tiers else None, streams=streams, shape=shape):
            for failure in report.failures[: max(0, 10 - len(total.failures))]:
                click.echo(f"{failure}\n{'-' * 100}")
            total.add(report)
    elapsed = time.monotonic() - begun
    click.echo(f"{total}; {total.pairs / elapsed:.1f} pairs/s by {jobs} processes")
    if reasons:
        for reason, count in total.reasons.most_common(40):
            click.echo(f"{count:6} {reason}")
    if total.skipped > _SKIPPED_SHARE * total.pairs:
        click.echo(f"expected at most {_SKIPPED_SHARE:.0%} skipped, was {total.skipped / total.pairs:.1%}")
        sys.exit(1)
    sys.exit(1 if total.failures else 0)


def _run_one(seed: int, streams: int, case: str | None, shape: str) -> int:
    report = Report()
    if case is None:
        click.echo(question_of(seed, shape).queries["view"])
        run_seed(seed, report, streams=streams, shape=shape)
    else:
        question = cases()[case].question
        program = compiled(question)
        stream, shards = case_stream(program, seed)
        report.classes[program.views[0].view_class] += 1
        try:
            check(question, stream, _oracle(), shards=shards, seed=seed, program=program)
        except Exception:  # noqa: BLE001 - any failure is reported
            report.failures.append(explain_failure(question, stream, _oracle(), shards, seed, "the same"))
    for failure in report.failures:
        click.echo(failure)
    click.echo(str(report))
    return 1 if report.failures else 0


if __name__ == "__main__":
    main()
