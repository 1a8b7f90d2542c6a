"""The simulation's command line.

::

    python -m tests.simulation --seeds 20000 [--start 0] [--jobs 2]
    python -m tests.simulation --seed 17 -v                     one seed, with its events
"""

from __future__ import annotations

import os
import sys
import time

import click
from twisted.logger import globalLogBeginner

from tests.simulation.report import Report, Worlds, run_seed, run_seeds
from tests.simulation.world import World

__all__ = ["simulation"]

_SHOWN = 10


def simulation(what: str, worlds: Worlds) -> click.Command:
    """Return the command line of a simulation."""

    @click.command(help=what)
    @click.option("--seeds", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of seeds.")
    @click.option("--start", default=0, show_default=True, help="First seed.")
    @click.option("--jobs", default=min(2, os.cpu_count() or 1), show_default=True, help="Number of processes.")
    @click.option("--seed", type=int, help="Only this seed.")
    @click.option("--until-found", is_flag=True, help="End with the first seed that fails.")
    @click.option("-v", "--verbose", is_flag=True, help="Print the events of the seed.")
    def run(seeds: int, start: int, jobs: int, seed: int | None, until_found: bool, verbose: bool) -> None:
        globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)
        total = Report()
        begun = time.monotonic()
        if seed is not None or seeds == 1:
            write = click.echo if verbose or seeds == 1 else None
            run_seed(start if seed is None else seed, total, worlds=worlds, write=write)
            for failure in total.failures:
                click.echo(failure)
        else:
            for report in run_seeds(start, seeds, jobs, *((2,) if until_found else ()), worlds=worlds):
                for failure in report.failures[: max(0, _SHOWN - len(total.failures))]:
                    click.echo(failure)
                total.add(report)
                if until_found and total.failures:
                    break
        elapsed = time.monotonic() - begun
        click.echo(f"{total}; {total.seeds / elapsed:.1f} seeds/s by {1 if seed is not None else jobs} processes")
        sys.exit(1 if total.failures else 0)

    return run


if __name__ == "__main__":
    simulation(
        "Drive the runtime through random interleavings, faults and crashes, and compare its views with plain Python.",
        World,
    )()
