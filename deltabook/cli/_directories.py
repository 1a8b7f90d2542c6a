"""`deltabook backup`, `restore`, `inspect` and `repair`: commands on run directories."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from deltabook.cli._options import json_option
from deltabook.cli._ports import print_json
from deltabook.cli._terminal import print_table, progress

__all__ = ["backup_command", "inspect_command", "repair_command", "restore_command"]


def _words(position: dict[str, str | int]) -> str:
    """Return the position of a part as one line."""
    return ", ".join(f"{name} {value}" for name, value in position.items())


@click.command("backup")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@json_option
def backup_command(directory: Path, target: Path, as_json: bool) -> None:
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
    rows = [(part.kind, part.path or ".", _words(part.position)) for part in made.manifest.parts]
    print_table(f"{made.target}", ("kind", "part", "at"), rows, left=("kind", "part", "at"))
    files = len(made.manifest.files)
    click.echo(f"{files} files, {made.manifest.size} bytes, {made.stored_bytes} stored, checked, in {seconds:.1f} s")


@click.command("restore")
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def restore_command(source: Path, directory: Path, as_json: bool) -> None:
    """Restore BACKUP into DIR, which must be empty or not exist, and compare every byte with the backup's manifest."""
    from deltabook.backup import restore

    with progress(f"restoring {source}"):
        manifest = restore(source, directory)
    if as_json:
        print_json(manifest)
        return
    rows = [(part.kind, str(directory / part.path), _words(part.position)) for part in manifest.parts]
    print_table(f"{source}", ("kind", "directory", "at"), rows, left=("kind", "directory", "at"))
    if any(part.kind == "exchange" for part in manifest.parts):
        click.echo(
            "an exchange was restored: restore its runtimes and strategies from the same backup too, or start them "
            "with empty directories, as they may have received messages that the exchange no longer has"
        )
    click.echo(f"{len(manifest.files)} files, {manifest.size} bytes, equal to the manifest")


@click.command("inspect")
@click.argument("path", metavar="DIR|BACKUP", type=click.Path(path_type=Path))
@json_option
def inspect_command(path: Path, as_json: bool) -> None:
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


@click.command("repair")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--dry-run", "is_dry", is_flag=True, help="Change nothing; print what would be done.")
@json_option
def repair_command(directory: Path, is_dry: bool, as_json: bool) -> None:
    """Check every file of the run directory DIR, or of those directly below DIR, and rebuild damaged ones.

    The processes must have ended. A file that can be computed from others is written again: the snapshots and streams
    of an exchange, the list of trades of a strategy, the relation snapshots and results of a runtime. The damaged file
    is kept beside the new one, as NAME.damaged-1. For any other damaged file, the command prints what to do and exits
    with 1.
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
