"""Random queries over random streams, each pair from a seed.

::

    python -m tests.conformance.fuzz --seeds 10000 [--start 0] [--jobs 2]
    python -m tests.conformance.fuzz --seeds 500 --streams 20 --tiers
                                                        compiled too, each query once for its 20 streams: the tiers
                                                        must save the same bytes
    python -m tests.conformance.fuzz --seeds 2000 --shape temporal      of one shape of the grammar alone
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
"""At most this share of the pairs may be without an answer of the oracle's."""


@dataclass
class Report:
    """What many pairs have shown."""

    classes: Counter[str] = field(default_factory=Counter)
    """Pairs by the class of their view."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Re-evaluated ones by the reason."""
    skipped: int = 0
    """Pairs in which the oracle could not say, at some version."""
    answers: int = 0
    """Versions compared."""
    rows: int = 0
    """Rows of the oracle's answers."""
    failures: list[str] = field(default_factory=list)
    """In words."""

    def add(self, other: Report) -> None:
        """Take over another report."""
        self.classes += other.classes
        self.reasons += other.reasons
        self.skipped += other.skipped
        self.answers += other.answers
        self.rows += other.rows
        self.failures += other.failures

    @property
    def pairs(self) -> int:
        """How many were run."""
        return self.classes.total()

    def __str__(self) -> str:
        shown = ", ".join(f"{count} {name}" for name, count in self.classes.most_common())
        return (f"{self.pairs} pairs ({shown}), {self.answers} answers with {self.rows} rows, "
                f"{self.skipped} skipped, {len(self.failures)} failed")  # fmt: skip


@kept
def _oracle() -> Oracle:
    return Oracle(RELATIONS)


def question_of(seed: int, shape: str = "") -> Question:
    """The query of a seed; of one shape of the grammar alone if it is named."""
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
    """The query of a seed over so many streams, each a pair; with kernels in both tiers."""
    question = question_of(seed, shape)
    which = f"--seed {seed}" if kernels is None else f"--seeds 1 --start {seed} --tiers"
    again = f"python -m tests.conformance.fuzz {which}" + (f" --streams {streams}" if streams > 1 else "")
    again += f" --shape {shape}" if shape else ""
    try:
        program = compiled(question)
    except Exception as error:  # noqa: BLE001 - every query is a good one
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
    except Exception as error:  # noqa: BLE001 - whatever it is, the report is about it
        said = f"{type(error).__name__}: {error}\nagain: {again}"
        # The tiers are compared as they are: a smaller stream would be compiled again and again.
        is_shrunken = shrink and kernels is None
        report.failures.append(
            explain_failure(question, stream, _oracle(), shards, seed, again) if is_shrunken else said
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
    """The seeds from ``start`` on, in processes; a report every so many. With a folder for kernels: in both tiers."""
    chunks: Sequence[range] = [range(at, min(at + 50, start + count)) for at in range(start, start + count, 50)]
    run = functools.partial(_run_range, streams=streams, folder=folder, shape=shape)
    if jobs == 1:
        yield from map(run, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run, chunks)


@click.command()
@click.option("--seeds", default=10000, show_default=True, help="How many queries.")
@click.option("--streams", default=1, show_default=True, help="How many streams for each query.")
@click.option("--start", default=0, show_default=True, help="The first seed.")
@click.option(
    "--jobs", default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2, help="Processes."
)
@click.option("--seed", type=int, help="This query alone.")
@click.option("--shape", default="", help="Queries of this shape of the grammar alone, such as temporal.")
@click.option("--case", help="A query of the corpus in place of the seed's own.")
@click.option("--tiers", is_flag=True, help="Run compiled kernels beside interpreted ones, and compare their bytes.")
@click.option("--reasons", is_flag=True, help="Say why views are re-evaluated.")
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
        sys.exit(_one(seed, streams, case, shape))
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


def _one(seed: int, streams: int, case: str | None, shape: str) -> int:
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
        except Exception:  # noqa: BLE001 - whatever it is, the report is about it
            report.failures.append(explain_failure(question, stream, _oracle(), shards, seed, "the same"))
    for failure in report.failures:
        click.echo(failure)
    click.echo(str(report))
    return 1 if report.failures else 0


if __name__ == "__main__":
    main()
