"""`deltabook exchange`: run the simulated exchange, look at it and change it while it runs, and read its journal."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "accounts": ("_exchange_changes:accounts", "List accounts; stop or revive one, cancel its orders."),
    "auction": ("_exchange_changes:auction", "Begin an auction."),
    "book": ("_exchange_reports:book", "Show a symbol's book."),
    "bust": ("_exchange_changes:bust", "Declare a trade void."),
    "close": ("_exchange_changes:close", "End the day."),
    "export-itch": ("_exchange_files:export_itch", "Write a journal's feed as a file of ITCH 5.0."),
    "halt": ("_exchange_changes:halt", "Halt trading."),
    "hash": ("_exchange_reports:show_hash", "Show the hash of the market's state, live or of a journal."),
    "passwd": ("_exchange_files:passwd", "Hash a password for the file of users."),
    "pause": ("_exchange_changes:pause", "Pause trading."),
    "replay": ("_exchange_changes:replay", "Show, pause, resume or seek the recording that is played."),
    "resume": ("_exchange_changes:resume", "Trade again, uncrossing an auction."),
    "run": ("_exchange_run:run", "Run the exchange: what happens if no command is named."),
    "sessions": ("_exchange_changes:sessions", "List connections; cut one."),
    "snapshot": ("_exchange_changes:snapshot", "Write a snapshot now."),
    "statistics": ("_exchange_reports:statistics", "Show what has happened, and every symbol in a line."),
    "status": ("_exchange_reports:status", "Say how a running exchange does."),
    "verify": ("_exchange_files:verify", "Check a journal and everything that follows from it."),
}
"""Command → where it is, and what it does."""


@click.group("exchange", cls=LazyGroup, places=_PLACES, default="run", options_metavar="[OPTIONS of run]")
def command() -> None:
    """Run the simulated exchange, or look at it and change it while it runs.

    `deltabook exchange --dir DIR ...` is short for `deltabook exchange run --dir DIR ...`; the --help of that has the
    options. The other commands ask the admin port of an exchange that runs (--admin HOST:PORT, or --dir DIR on its
    machine), or read the journal in a directory.
    """
