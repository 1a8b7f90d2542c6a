"""Commands that need no running exchange: they read a journal, which may be in use, or hash a password."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import click

from deltabook.cli._options import ConfigFileError, json_option
from deltabook.cli._ports import print_json
from deltabook.cli._terminal import print_table, progress
from deltabook.wire import admin
from deltabook.wire.itch import LARGEST_BROKER

__all__ = ["export_itch", "hash_of", "passwd", "verify"]

_directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))

_ITCH: Final = "itch"
_SHOWN_EVERY: Final = 10_000
"""Number of requests between two updates of the progress on a terminal."""


def hash_of(directory: Path, at: int | None, message: int | None, feed: str) -> admin.StateHash:
    """Return the hash after a number of requests of a journal, after a message of a feed, or else after all
    requests.
    """
    from exchange_server.journal.history import History
    from exchange_server.outputs import all_outputs

    history = History(directory, all_outputs)
    if message is not None:
        moment = history.at_message(message, feed)
    else:
        moment = history.now() if at is None else history.at_input(at)
    return admin.StateHash(moment.inputs, moment.time_ns, moment.state_hash)


@click.command()
@_directory
@json_option
def verify(directory: Path, as_json: bool) -> None:
    """Check the journal in DIR: every checksum, and that snapshots, feeds and private streams follow from the requests.

    The exit code is 1 if the journal has a problem.
    """
    from exchange_server.journal.verification import verify as verify_journal
    from exchange_server.outputs import all_outputs

    with progress("checking the journal"):
        report = verify_journal(directory, all_outputs)
    if as_json:
        print_json(report)
    else:
        rows = [
            ("session", report.session),
            ("requests", f"{report.first} to {report.inputs}"),
            ("hash", report.state_hash),
            *((f"messages as {form}", count) for form, count in report.messages.items()),
            *((f"bytes of {name}", size) for name, size in sorted(report.compared_bytes.items())),
            ("good snapshots", ", ".join(map(str, report.snapshots)) or "none"),
            ("torn bytes at the end", report.torn_bytes),
        ]
        print_table(f"journal in {directory}", ("", "value"), rows, left=("", "value"))
        for problem in report.problems:
            click.echo(problem, err=True)
    if report.problems:
        raise click.exceptions.Exit(1)


@click.command("export-itch")
@_directory
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def export_itch(directory: Path, file: Path, as_json: bool) -> None:
    """Write the feed of the journal in DIR as a daily file of ITCH 5.0, in which each message follows its length.

    The messages are computed from the requests, so the exchange need not have had an ITCH port. If the first requests
    were removed, the messages before the newest snapshot are those in the file of the exchange's ITCH feed.
    """
    from exchange_server.errors import JournalDamagedError
    from exchange_server.journal.history import History
    from exchange_server.journal.numbered_file import damage_before
    from exchange_server.journal.streams import feed_name
    from exchange_server.nasdaq.mold import framed_messages
    from exchange_server.outputs import all_outputs

    history, feed = History(directory, all_outputs), directory / feed_name(_ITCH)
    walk = history.walk(lambda _: history.reader.head.first > 1, forms=(_ITCH,))
    written = walk.begin.streams[feed.name] if walk.begin else None
    if written is not None and (damage := damage_before(written, feed)):
        raise JournalDamagedError(damage)
    try:
        out = file.open("wb")
    except OSError as error:
        raise ConfigFileError(f"expected a file that can be written, was {file}: {error.strerror}") from None
    with out:

        def write(name: str, data: bytes) -> None:
            if name == feed_name(_ITCH):
                out.write(b"".join(framed_messages(data)))

        walk.on_output = write
        if written is not None:
            with feed.open("rb") as packets:
                for begin, end in pairwise((*written.offsets, written.size_bytes)):
                    write(feed.name, packets.read(end - begin))
        with progress("applying the journal's requests") as advance:
            for number, _ in enumerate(walk.each(), 1):
                if not number % _SHOWN_EVERY:
                    advance(number, "")
    messages = walk.messages[_ITCH]
    if as_json:
        print_json({"file": str(file), "messages": messages, "inputs": walk.inputs})
    else:
        click.echo(f"{messages} messages of {walk.inputs} requests in {file}")


def _has_terminal() -> bool:
    return sys.stdin.isatty()


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from the first line of standard input.")
@click.option(
    "--broker", type=click.IntRange(1, LARGEST_BROKER), default=1, help="Broker number of NAME's orders on the feed."
)
@click.option(
    "--protocol", type=click.Choice(["ouch5", "ouch42", "itch"]), default="ouch5", help="Protocol of NAME's sessions."
)
@json_option
def passwd(name: str | None, from_stdin: bool, broker: int, protocol: str, as_json: bool) -> None:
    """Hash a password for the users file; with NAME, print the whole entry."""
    from exchange_server.logins import check_name, hash_password

    known = check_name(name) if name else ""
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif not _has_terminal():
        raise click.UsageError("expected a terminal to ask for the password at, or --stdin, was neither")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    hashed = hash_password(password)
    if as_json:
        entry = {"name": known, "password": hashed, "broker": broker, "protocol": protocol}
        print_json(entry if known else {"password": hashed})
    elif known:
        click.echo(f'[[user]]\nname = "{known}"\npassword = "{hashed}"\nbroker = {broker}\nprotocol = "{protocol}"')
    else:
        click.echo(hashed)
