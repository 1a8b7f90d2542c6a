"""Random files in random pieces: the formatter must return what the library reads from the whole file.

::

    python -m tests.conformance.formats.fuzz --seconds 300 [--start 0] [--jobs 2] [--case csv.broken]
    python -m tests.conformance.formats.fuzz --seed 17 [--case csv.broken]     one case, with its traceback

Kind and seed determine a case, except for the interleaving of its threads. Cases run in separate processes: a process
that ends without an answer, or gives none within a time limit, is a failure too.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection, wait
from typing import Any

import click

from tests.conformance.formats.cases import KINDS, Report, kind_of, run_case

__all__ = ["again", "default_jobs", "guarded", "run_seed"]

CASE_SECONDS = 60.0
"""Time limit of a case in seconds; most cases take a few milliseconds."""
_DONE = "done"
RunCase = Callable[[str, int, Report], None]


def default_jobs() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def again(kind: str, seed: int) -> str:
    """Return the command that repeats a case."""
    return f"again: python -m tests.conformance.formats.fuzz --seed {seed} --case {kind}"


def run_seed(kind: str, seed: int, report: Report, run: RunCase = run_case) -> None:
    """Run one case, and add a failure to the report."""
    try:
        run(kind, seed, report)
    except Exception as error:  # noqa: BLE001 - any failure is reported
        last = traceback.extract_tb(error.__traceback__)[-1]
        report.failures.append(
            f"{kind} {seed}: {type(error).__name__} at {last.name}:{last.lineno}: {error}\n{again(kind, seed)}"
        )


def _work(connection: Connection, run: RunCase, case: str, start: int, step: int, until: float, most: int) -> None:
    """Run cases in a process until the time is over, and announce each before it runs."""
    faulthandler.enable()
    for seed in count(start, step):
        if time.monotonic() >= until or seed >= most:
            break
        kind = case or kind_of(seed)
        connection.send((kind, seed))
        report = Report()
        run_seed(kind, seed, report, run)
        connection.send(report)
    connection.close()


class _Guarded:
    """Process that runs cases, and the case that it runs now."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.busy: tuple[str, int] | None = None
        self.since = time.monotonic()

    def receive(self, total: Report) -> bool:
        """Process one message; return False if the process has ended."""
        try:
            message = self.connection.recv()
        except EOFError:
            return False
        self.since = time.monotonic()
        if isinstance(message, Report):
            self.busy = None
            total.add(message)
        else:
            self.busy = message
        return True

    def farewell(self) -> str:
        """Return how the process ended."""
        self.process.join()
        return f"the process ended with code {self.process.exitcode}" if self.process.exitcode else _DONE

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def guarded(
    run: RunCase,
    *,
    case: str = "",
    start: int = 0,
    most: int = 1 << 60,
    seconds: float,
    jobs: int,
    case_seconds: float = CASE_SECONDS,
    report: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run cases from the seed ``start`` on, in processes, until the time is over or the seed ``most`` is reached.

    A process that ends or hangs within a case is replaced by one that continues after that case. ``report`` is called
    with each failure.
    """
    total, reported = Report(), 0
    until = time.monotonic() + seconds
    workers = {job: _Guarded((run, case, start + job, jobs, until, most)) for job in range(jobs)}
    while workers:
        ready = wait([worker.connection for worker in workers.values()], timeout=0.5)
        for job, worker in list(workers.items()):
            if worker.connection in ready:
                wrong = "" if worker.receive(total) else worker.farewell()
            elif worker.busy is not None and time.monotonic() - worker.since > case_seconds:
                wrong = f"no end within {case_seconds:g} s"
            else:
                continue
            if not wrong:
                continue
            worker.end()
            del workers[job]
            if worker.busy is not None:
                kind, seed = worker.busy
                total.failures.append(f"{kind} {seed}: {wrong}\n{again(kind, seed)}")
                workers[job] = _Guarded((run, case, seed + jobs, jobs, until, most))
            elif wrong != _DONE:
                total.failures.append(wrong)
        for failure in total.failures[reported:]:
            report(failure)
        reported = len(total.failures)
    return total


@click.command()
@click.option("--seconds", default=300.0, show_default=True, help="Duration in seconds.")
@click.option("--start", default=0, show_default=True, help="First seed.")
@click.option("--jobs", default=default_jobs(), help="Number of processes.")
@click.option("--seed", type=int, help="Only the case of this seed, with its traceback.")
@click.option("--case", default="", type=click.Choice(["", *KINDS]), help="Kind of case, in place of the seed's own.")
@click.option("--repeat", default=1, show_default=True, help="With --seed: number of repetitions, since threads vary.")
def main(seconds: float, start: int, jobs: int, seed: int | None, case: str, repeat: int) -> None:
    """Compare the formatters' output for random files in random pieces with that of the libraries."""
    if seed is not None:
        report = Report()
        for _ in range(repeat):
            run_case(case or kind_of(seed), seed, report)
        click.echo(str(report))
        return
    begun = time.monotonic()
    total = guarded(run_case, case=case, start=start, seconds=seconds, jobs=jobs, report=_print)
    click.echo(f"{total}; {time.monotonic() - begun:.0f} s with {jobs} processes")
    sys.exit(1 if total.failures else 0)


def _print(failure: str) -> None:
    click.echo(f"{failure}\n{'-' * 100}")


if __name__ == "__main__":
    main()
