"""``deltabook restore``: a backup put into an empty place."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._ports import print_json
from deltabook.cli._tables import print_table
from deltabook.cli.backup import words

__all__ = ["command"]


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
def command(source: Path, directory: Path, as_json: bool) -> None:
    """Put BACKUP into DIR, which must be empty or not there; every byte is compared with the backup's manifest."""
    from deltabook.backup import restore

    manifest = restore(source, directory)
    if as_json:
        print_json(manifest)
        return
    rows = [(part.kind, str(directory / part.path), words(part.position)) for part in manifest.parts]
    print_table(f"{source}", ("kind", "directory", "at"), rows, left=("kind", "directory", "at"))
    if any(part.kind == "exchange" for part in manifest.parts):
        click.echo(
            "an exchange comes back: runtimes and strategies that have heard more than it knows have to come back from "
            "the same backup, or begin anew"
        )
    click.echo(f"{len(manifest.files)} files, {manifest.size} bytes, as they were")
