"""``deltabook backup``: a copy of run directories, also while their processes run."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from deltabook.cli._ports import print_json
from deltabook.cli._progress import progress
from deltabook.cli._tables import print_table

__all__ = ["command", "words"]


def words(position: dict[str, str | int]) -> str:
    """Position of a part, as one line."""
    return ", ".join(f"{name} {value}" for name, value in position.items())


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(directory: Path, target: Path, as_json: bool) -> None:
    """Copy the run directory DIR, or every run directory directly below DIR, to TARGET, and verify the copy.

    TARGET is a directory, or a file with the extension .tar or .tar.zst, and must not exist yet. The processes may be
    running: the copy is the state that a crash at that moment would have left. Locks, claims, addresses, logs, Spark's
    checkpoint, and files that do not belong to a run are not copied.
    """
    from deltabook.backup import back_up

    began = time.monotonic()
    with progress(f"copying {directory}"):
        made = back_up(directory, target)
    seconds = time.monotonic() - began
    if as_json:
        print_json({**msgspec.to_builtins(made), "seconds": round(seconds, 3)})
        return
    rows = [(part.kind, part.path or ".", words(part.position)) for part in made.manifest.parts]
    print_table(f"{made.target}", ("kind", "part", "at"), rows, left=("kind", "part", "at"))
    files = len(made.manifest.files)
    click.echo(f"{files} files, {made.manifest.size} bytes, {made.stored_bytes} stored, checked, in {seconds:.1f} s")
