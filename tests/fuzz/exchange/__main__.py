"""Fuzzes the sessions of the exchange until the time is over.

::

    python -m tests.fuzz.exchange --seconds 300 [--start 0] [--jobs 2] [--target ouch5]
    python -m tests.fuzz.exchange --target ouch5 --seed 17        one round, with its traceback

Rounds run in processes of their own; one that ends without an answer, or gives none in time, is a failure too.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import count

import click

from tests.fuzz.exchange.driver import Round, run_round, target_of
from tests.fuzz.exchange.floor import TARGETS

_ROUND_SECONDS = 120.0
"""How long a round may take; most take one or two."""


def _guarded(target: str, seed: int) -> Round | str:
    """A round in a process; what went wrong in words. A hang ends the process with a traceback."""
    faulthandler.dump_traceback_later(_ROUND_SECONDS, exit=True)
    try:
        return run_round(target, seed)
    except Exception:  # noqa: BLE001 - whatever it is, the report is about it
        return traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()


def _fuzz(target: str, start: int, seconds: float, jobs: int) -> tuple[list[Round], list[str]]:
    rounds: list[Round] = []
    failures: list[str] = []
    until, seeds = time.monotonic() + seconds, count(start)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        busy: dict[Future[Round | str], tuple[str, int]] = {}
        while True:
            while len(busy) < jobs and time.monotonic() < until:
                seed = next(seeds)
                which = target or target_of(seed)
                busy[pool.submit(_guarded, which, seed)] = which, seed
            if not busy:
                return rounds, failures
            done, _ = wait(busy, return_when=FIRST_COMPLETED)
            for future in done:
                which, seed = busy.pop(future)
                try:
                    found = future.result()
                except BrokenProcessPool:
                    failures.append(f"{which} {seed}: its process ended, or another's: {sorted(busy.values())}")
                    return rounds, failures
                if isinstance(found, Round):
                    rounds.append(found)
                else:
                    failures.append(found)


@click.command()
@click.option("--seconds", default=300.0, show_default=True, help="How long.")
@click.option("--start", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=os.cpu_count() or 1, help="Processes.")
@click.option("--target", default="", type=click.Choice(["", *TARGETS]), help="One alone.")
@click.option("--seed", type=int, help="This round alone, with its traceback.")
def main(seconds: float, start: int, jobs: int, target: str, seed: int | None) -> None:
    """Send broken messages to the exchange's sessions, and see that no other session notices."""
    if seed is not None:
        click.echo(str(run_round(target or target_of(seed), seed)))
        return
    begun = time.monotonic()
    rounds, failures = _fuzz(target, start, seconds, jobs)
    for failure in failures:
        click.echo(f"{failure}\n{'-' * 100}")
    for which in TARGETS:
        of_it = [found for found in rounds if found.target == which]
        if of_it:
            click.echo(
                f"{which:8} {len(of_it):6,} rounds {sum(r.messages for r in of_it):12,} messages "
                f"{sum(r.closed for r in of_it):10,} sessions closed {sum(r.trades for r in of_it):10,} trades"
            )
    sent = sum(found.messages for found in rounds)
    click.echo(f"{sent:,} messages, {len(failures)} failures; {time.monotonic() - begun:.0f} s, {jobs} processes")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
