"""``deltabook upstream``: list the consumers and feeds of a runtime's log, and release stale ones.

The commands work on files, whether or not the runtimes run.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from deltabook.cli._options import ConfigFileError, json_option
from deltabook.cli._terminal import print_table
from runtime.upstreams import Consumers, SessionClaims

__all__ = ["command"]

_DIRECTORY: Final = click.argument(
    "directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True)
)


@click.group()
def command() -> None:
    """Show and remove the links of a runtime to runtimes that read its epochs, and to the feeds that it reads.

    DIR is the run directory of the runtime.
    """


@command.command()
@_DIRECTORY
@json_option
def consumers(directory: Path, as_json: bool) -> None:
    """List the runtimes that read the log in DIR. Epochs that they have not committed are kept for them."""
    registered = Consumers(directory).list()
    if as_json:
        click.echo(msgspec.json.encode(registered))
        return
    rows = [(each.identity, each.directory, each.host, each.epoch, _time(each.written_ns)) for each in registered]
    title = f"{len(rows)} consumers of {directory}"
    print_table(title, ("consumer", "directory", "host", "epoch", "reported at"), rows, left=("consumer", "directory"))


@command.command()
@_DIRECTORY
@click.argument("consumer")
def forget(directory: Path, consumer: str) -> None:
    """Remove CONSUMER, so that DIR keeps no epochs for it.

    Use the command for a consumer that does not exist any more. A consumer that is still running registers again. A
    consumer that returns later and lacks epochs is refused.
    """
    if not Consumers(directory).forget(consumer):
        known = ", ".join(each.identity for each in Consumers(directory).list()) or "none"
        raise ConfigFileError(f"expected a consumer of {directory} out of {known}, was {consumer!r}")
    click.echo(f"{directory} keeps no epochs for {consumer} any more")


@command.command()
@_DIRECTORY
@json_option
def sessions(directory: Path, as_json: bool) -> None:
    """List feed sessions that runtimes with --system DIR read."""
    claims = SessionClaims(directory).list()
    if as_json:
        click.echo(msgspec.json.encode(claims))
        return
    rows = [(each.session, each.directory, str(each.holder)) for each in claims]
    columns = ("session", "log", "claimed by")
    print_table(f"{len(rows)} sessions of {directory}", columns, rows, left=columns)


@command.command()
@_DIRECTORY
@click.argument("session")
def release(directory: Path, session: str) -> None:
    """Release SESSION of a feed, so that another log may read it. A session with data in DIR cannot be released."""
    if not SessionClaims(directory).release(session):
        known = ", ".join(each.session for each in SessionClaims(directory).list()) or "none"
        raise ConfigFileError(f"expected a session in {directory} out of {known}, was {session!r}")
    click.echo(f"session {session} is released in {directory}")


def _time(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}" if ns else ""
