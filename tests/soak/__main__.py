"""The command line of the soak.

::

    python -m tests.soak --seconds 600 --seed 1 [--changes 100] [--rate 40] [--dir FOLDER]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from tests.soak.lanes import soak


@click.command(help="Run views on both lanes while the catalogue changes, and compare the lanes at every version.")
@click.option("--seconds", type=click.FloatRange(1), default=600.0, show_default=True, help="How long.")
@click.option("--seed", default=1, show_default=True, help="Of the changes and of the agents.")
@click.option("--changes", type=click.IntRange(1), default=100, show_default=True, help="Of the catalogue.")
@click.option("--rate", type=click.IntRange(1), default=40, show_default=True, help="Requests a second of all agents.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where to keep what it leaves.")
def main(seconds: float, seed: int, changes: int, rate: int, directory: Path | None) -> None:
    """Run once."""
    with tempfile.TemporaryDirectory() as folder:
        where = directory or Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        click.echo(str(soak(where, seconds=seconds, changes=changes, seed=seed, rate=rate)))


if __name__ == "__main__":
    main()
