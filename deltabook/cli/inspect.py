"""``deltabook inspect``: what a run directory or a backup holds."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._ports import print_json
from deltabook.cli._tables import print_table

__all__ = ["command"]


@click.command()
@click.argument("path", metavar="DIR|BACKUP", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
def command(path: Path, as_json: bool) -> None:
    """Say what a run directory holds, or all of them right below DIR, or a backup. Processes may run."""
    from deltabook.backup import inspect

    reports = inspect(path)
    if as_json:
        print_json(reports)
        return
    for report in reports:
        print_table(f"{report.kind} {report.path}", ("", "value"), report.facts.items(), left=("", "value"))
