"""``deltabook restore``: a backup put into an empty place."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._ports import print_json
from deltabook.cli._progress import progress
from deltabook.cli._tables import print_table
from deltabook.cli.backup import words

__all__ = ["command"]


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(source: Path, directory: Path, as_json: bool) -> None:
    """Restore BACKUP into DIR, which must be empty or not exist, and compare every byte with the backup's manifest."""
    from deltabook.backup import restore

    with progress(f"restoring {source}"):
        manifest = restore(source, directory)
    if as_json:
        print_json(manifest)
        return
    rows = [(part.kind, str(directory / part.path), words(part.position)) for part in manifest.parts]
    print_table(f"{source}", ("kind", "directory", "at"), rows, left=("kind", "directory", "at"))
    if any(part.kind == "exchange" for part in manifest.parts):
        click.echo(
            "an exchange was restored: restore its runtimes and strategies from the same backup too, or start them "
            "with empty directories, as they may have received messages that it no longer has"
        )
    click.echo(f"{len(manifest.files)} files, {manifest.size} bytes, equal to the manifest")
