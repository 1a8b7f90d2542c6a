"""`python -m tests.mutations formats|engine|state [--row N] [--jobs 2]`: see the rows' tests turn red."""

from __future__ import annotations

import sys

import click

from tests.mutations.breaks import LISTS
from tests.mutations.running import run_breaks


@click.command()
@click.argument("name", metavar="LIST", type=click.Choice(sorted(LISTS)))
@click.option("--row", type=int, help="The breaks of this row alone.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="How many at once.")
def main(name: str, row: int | None, jobs: int) -> None:
    """Break the code in every way that is written down for LIST, and see the rows' tests turn red.

    LIST is formats, engine or state.
    """
    chosen = LISTS[name]
    breaks = [broken for broken in chosen.breaks() if row in {None, broken.row}]
    wrong = 0
    for broken, verdict in run_breaks(chosen.tests, breaks, jobs):
        wrong += bool(verdict)
        click.echo(f"{'GREEN' if verdict else 'red  '} row {broken.row:2} {broken.file}: {broken.what}")
        if verdict:
            click.echo(verdict)
    click.echo(f"{len(breaks)} breaks, {len(breaks) - wrong} seen red, {wrong} not")
    sys.exit(1 if wrong or not breaks else 0)


if __name__ == "__main__":
    main()
