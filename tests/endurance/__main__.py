"""The command line of the long runs: all nets in rotation, resumable.

::

    python -m tests.endurance --hours 12 --dir runs/endurance [--only runtime --only pairs] [--slice-minutes 3]

Ctrl-C ends it; the next start with the same folder goes on behind the last whole slice.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import click

from runtime.epochs.disk import LOCAL_DISK
from tests.endurance.nets import NETS, Net
from tests.endurance.report import report
from tests.endurance.rotation import REPORT, Rotation
from tests.endurance.running import ROOT, Outcome


def commit_of_tree() -> str:
    """The commit of the code, with a + if it was changed since."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--abbrev=10", "--dirty=+"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


@click.command()
@click.option("--hours", type=click.FloatRange(0, min_open=True), default=12.0, show_default=True, help="How long.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/endurance"),
    show_default=True,
    help="Where the state, the report and the logs are.",
)
@click.option("--only", multiple=True, type=click.Choice(list(NETS)), help="This net alone; repeatable.")
@click.option("--slice-minutes", type=click.FloatRange(0.05), default=3.0, show_default=True, help="Of one slice.")
@click.option("--mended", is_flag=True, help="First take the failures of earlier runs off the record.")
def main(hours: float, directory: Path, only: tuple[str, ...], slice_minutes: float, *, mended: bool) -> None:
    """Run all nets in rotation for HOURS, and write a report; exit code 1 if any failure is on record."""
    commit = commit_of_tree()
    chosen = {name: net for name, net in NETS.items() if not only or name in only}
    try:
        rotation = Rotation(chosen, directory, commit, slice_s=round(60 * slice_minutes))
    except ValueError as error:
        raise click.ClickException(str(error)) from None

    if mended:
        rotation.forget_failures()

    def write_report() -> None:
        page = report(NETS, rotation.state, rotation.before, commit)
        LOCAL_DISK.write(directory / REPORT, [page.encode()])

    def after_slice(net: Net, outcome: Outcome) -> None:
        write_report()
        state = rotation.state.nets[net.name]
        ended = "ended at its limit" if outcome.code is None else f"exit code {outcome.code}"
        click.echo(f"{net.name}: {ended} after {outcome.seconds:.0f} s, {state.done:,} {net.unit} in all")

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        rotation.run(3600 * hours, after_slice)
    except KeyboardInterrupt:
        click.echo("interrupted; the next start goes on behind the last whole slice")
    write_report()
    click.echo(f"report: {directory / REPORT}")
    sys.exit(1 if rotation.has_failures else 0)


if __name__ == "__main__":
    main()
