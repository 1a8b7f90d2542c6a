"""``deltabook repair``: damaged files of run directories, made again from what they follow from."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._ports import print_json
from deltabook.cli._progress import progress

__all__ = ["command"]


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--dry-run", "is_dry", is_flag=True, help="Change nothing; print what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(directory: Path, is_dry: bool, as_json: bool) -> None:
    """Check every file of the run directory DIR, or of those directly below DIR, and make damaged ones again.

    The processes must have ended. A file that follows from others is made again from them: the snapshots and streams of
    an exchange, the list of trades of a strategy, the relation snapshots and results of a runtime. A damaged file is
    kept beside the new one, as NAME.damaged-1. For each other file, what to do is printed, and the exit code is 1.
    """
    from deltabook.repair import repair

    with progress(f"checking {directory}"):
        parts = repair(directory, is_dry=is_dry)
    if as_json:
        print_json(parts)
    else:
        for part in parts:
            click.echo(f"{part.kind} {part.path}: {_count(len(part.findings))}")
            for finding in part.findings:
                click.echo(f"  {finding.problem}")
                click.echo(f"    {'would be: ' if is_dry and finding.is_repairable else ''}{finding.remedy}")
                for path in finding.kept:
                    click.echo(f"    kept as {path}")
    if not all(finding.is_repairable for part in parts for finding in part.findings):
        raise click.exceptions.Exit(1)


def _count(problems: int) -> str:
    return f"{problems or 'no'} problem{'' if problems == 1 else 's'}"
