"""The command line of the soak.

::

    python -m tests.soak --seconds 600 --seed 1 [--changes 100] [--rate 40] [--restarts 4] [--cuts 10] [--dir FOLDER]

8 hours of a market of 2 requests a second, 20 times as fast, are ``--seconds 1440 --rate 40``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from tests.soak.lanes import Plan, soak
from tests.soak.resources import RULE, USES, growths, read_samples


@click.command(help="Run views on both lanes while the catalogue changes, and compare the lanes at every version.")
@click.option("--seconds", type=click.FloatRange(1), default=600.0, show_default=True, help="Duration in seconds.")
@click.option("--seed", default=1, show_default=True, help="Seed of the changes, the disturbances and the agents.")
@click.option(
    "--changes", type=click.IntRange(1), default=100, show_default=True, help="Number of changes of the catalogue."
)
@click.option(
    "--rate", type=click.IntRange(1), default=40, show_default=True, help="Requests per second of all agents."
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=4,
    show_default=True,
    help="Number of restarts of the runtime, in the first half.",
)
@click.option(
    "--cuts", type=click.IntRange(0), default=10, show_default=True, help="Number of cuts of the feed's connection."
)
@click.option(
    "--sample-seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between two samples."
)
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Directory for the files of the run.")
def main(
    *,
    seconds: float,
    seed: int,
    changes: int,
    rate: int,
    restarts: int,
    cuts: int,
    sample_seconds: float,
    directory: Path | None,
) -> None:
    """Run once; with a directory also draw the runtime's use of resources, as ``resources.png``."""
    plan = Plan(seconds, changes, seed, rate, restarts, cuts, sample_seconds)
    for option, number, most in (("--restarts", restarts, plan.restartable), ("--cuts", cuts, changes)):
        if number > most:
            raise click.UsageError(f"expected at most {most} for {option} with {changes} changes, was {number}")
    with tempfile.TemporaryDirectory() as folder:
        where = directory or Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        if any(where.iterdir()):
            raise click.UsageError(f"expected an empty folder, was {where}")
        try:
            click.echo(str(soak(where, plan)))
        except AssertionError as error:
            click.echo(f"failed: {error}")
            sys.exit(1)
        finally:
            _report(where, is_drawn=directory is not None)


def _report(directory: Path, *, is_drawn: bool) -> None:
    """Write the uses in the second half, and draw them."""
    path = directory / "resources.csv"
    samples = read_samples(path) if path.exists() else []
    click.echo(f"{len(samples)} samples. {RULE}")
    for growth in growths(samples):
        verdict = {None: "too few samples", True: "flat", False: "GROWS"}[growth.is_flat]
        medians = " -> ".join("-" if value is None else f"{value:14,.0f}" for value in (growth.third, growth.last))
        click.echo(f"{growth.use:22} {medians}  allowance {USES[growth.use]:12,}  {verdict}")
    if is_drawn and samples:
        from tests.soak.drawing import draw

        draw(samples, directory / "resources.png")
        click.echo(f"picture: {directory / 'resources.png'}")


if __name__ == "__main__":
    main()
