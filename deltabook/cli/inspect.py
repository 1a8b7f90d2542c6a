"""``deltabook inspect``: the contents of a run directory or a backup."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._ports import print_json
from deltabook.cli._progress import progress
from deltabook.cli._tables import print_table

__all__ = ["command"]


@click.command()
@click.argument("path", metavar="DIR|BACKUP", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(path: Path, as_json: bool) -> None:
    """Show what a run directory, every run directory directly below DIR, or a backup contains.

    The processes that write to them may be running.
    """
    from deltabook.backup import inspect

    with progress(f"reading {path}"):
        reports = inspect(path)
    if as_json:
        print_json(reports)
        return
    for report in reports:
        print_table(f"{report.kind} {report.path}", ("", "value"), report.facts.items(), left=("", "value"))
