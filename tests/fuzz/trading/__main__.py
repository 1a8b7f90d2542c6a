"""Fuzzes the WebSocket of the results service until the time is over.

::

    python -m tests.fuzz.trading --seconds 300 [--start 0] [--jobs 2]
    python -m tests.fuzz.trading --seed 17        one round, with its traceback
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

import click

from tests.fuzz.trading.driver import Done, run_round


def _rounds(first: int, step: int, seconds: float) -> tuple[list[Done], list[str]]:
    done: list[Done] = []
    failures: list[str] = []
    seed, end = first, time.monotonic() + seconds
    while time.monotonic() < end and len(failures) < 10:
        try:
            done.append(run_round(seed))
        except Exception:  # noqa: BLE001 (that is what is looked for)
            failures.append(f"seed {seed}\n{traceback.format_exc()}")
        seed += step
    return done, failures


@click.command()
@click.option("--seconds", default=300.0, show_default=True, help="How long.")
@click.option("--start", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=os.cpu_count() or 1, help="Processes.")
@click.option("--seed", type=int, help="This round alone, with its traceback.")
def main(seconds: float, start: int, jobs: int, seed: int | None) -> None:
    """Send broken messages to the WebSocket, and see that no other page notices."""
    if seed is not None:
        click.echo(str(run_round(seed)))
        return
    with ProcessPoolExecutor(jobs) as pool:
        parts = list(pool.map(_rounds, range(start, start + jobs), [jobs] * jobs, [seconds] * jobs))
    done = [one for rounds, _ in parts for one in rounds]
    failures = [one for _, found in parts for one in found]
    for failure in failures:
        click.echo(f"{failure}\n{'-' * 100}")
    click.echo(
        f"{len(done):,} rounds, {sum(d.messages for d in done):,} messages, {sum(d.frames for d in done):,} answers, "
        f"{sum(d.closed for d in done):,} connections closed, {len(failures)} failures"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
