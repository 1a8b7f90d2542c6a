"""Fuzzes the sessions of the exchange until the time is over.

::

    python -m tests.fuzz.exchange --seconds 300 [--start 0] [--jobs 2] [--target ouch5]
    python -m tests.fuzz.exchange --target ouch5 --seed 17        one round, with its traceback

Rounds run in processes of their own; one that ends without an answer, or gives none in time, is a failure too.
"""

from __future__ import annotations

import os
import sys
import time

import click

from tests.fuzz.exchange.driver import fuzz, run_round, target_of
from tests.fuzz.exchange.floor import TARGETS


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
    rounds, failures = fuzz(target, start, seconds, jobs)
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
