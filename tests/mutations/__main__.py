"""`python -m tests.mutations LIST [--row N] [--only WORDS] [--start 0] [--breaks N]`: break the code, run its tests."""

from __future__ import annotations

import sys

import click

from tests.mutations.breaks import LISTS
from tests.mutations.running import run_breaks


@click.command()
@click.argument("name", metavar="LIST", type=click.Choice(sorted(LISTS)))
@click.option("--row", type=int, help="Only the breaks of this row.")
@click.option("--only", default="", metavar="TEXT", help="Only breaks whose file or tests contain this text.")
@click.option(
    "--start",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of the first of these breaks, from 0.",
)
@click.option("--breaks", "most", type=click.IntRange(min=1), help="Largest number of breaks; by default all.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Number of breaks at once.")
def main(name: str, row: int | None, only: str, start: int, most: int | None, jobs: int) -> None:
    """Break the code in every way that the tables of LIST contain, and check that its tests fail each time."""
    chosen = LISTS[name]
    breaks = [
        broken
        for broken in chosen.breaks()
        if row in {None, broken.row} and (only in broken.file or only in broken.tests)
    ]
    breaks = breaks[start:][:most]
    wrong = 0
    for broken, verdict in run_breaks(chosen.tests, breaks, jobs):
        wrong += bool(verdict)
        where = f"row {broken.row:2}" if broken.row else broken.tests
        click.echo(f"{'GREEN' if verdict else 'red  '} {where} {broken.file}: {broken.what}")
        if verdict:
            click.echo(verdict)
    click.echo(f"{len(breaks)} breaks, {len(breaks) - wrong} with failing tests, {wrong} without")
    sys.exit(1 if wrong or not breaks else 0)


if __name__ == "__main__":
    main()
