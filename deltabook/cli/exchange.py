"""`deltabook exchange`: run the simulated exchange, inspect and control it while it runs, and read its journal."""

from __future__ import annotations

from typing import Final

import click

from deltabook.cli._groups import LazyGroup

__all__ = ["command"]

_PLACES: Final = {
    "accounts": ("_exchange_changes:accounts", "List accounts; stop or revive one, cancel its orders."),
    "auction": ("_exchange_changes:auction", "Start an auction."),
    "book": ("_exchange_reports:book", "Show a symbol's book."),
    "bust": ("_exchange_changes:bust", "Declare a trade void."),
    "close": ("_exchange_changes:close", "End the day."),
    "export-itch": ("_exchange_files:export_itch", "Write a journal's feed as a file of ITCH 5.0."),
    "halt": ("_exchange_changes:halt", "Halt trading."),
    "hash": ("_exchange_reports:show_hash", "Show the hash of the market's state, live or of a journal."),
    "passwd": ("_exchange_files:passwd", "Hash a password for the users file."),
    "pause": ("_exchange_changes:pause", "Pause trading."),
    "replay": ("_exchange_changes:replay", "Show, pause, resume or seek the replay of a recording."),
    "resume": ("_exchange_changes:resume", "Resume trading, uncrossing an auction."),
    "run": ("_exchange_run:run", "Run the exchange; this is the default command."),
    "sessions": ("_exchange_changes:sessions", "List connections; close one."),
    "snapshot": ("_exchange_changes:snapshot", "Write a snapshot."),
    "statistics": ("_exchange_reports:statistics", "Show the totals of the session and of each symbol."),
    "status": ("_exchange_reports:status", "Show the state of a running exchange."),
    "verify": ("_exchange_files:verify", "Check a journal and everything computed from it."),
}
"""Command → its location and its summary."""


@click.group("exchange", cls=LazyGroup, places=_PLACES, default="run", options_metavar="[OPTIONS of run]")
def command() -> None:
    """Run the simulated exchange, or inspect and control it while it runs.

    `deltabook exchange --dir DIR ...` is short for `deltabook exchange run --dir DIR ...`, whose --help has the
    options. The other commands use the admin port of a running exchange (--admin HOST:PORT, or --dir DIR on its
    machine), or read the journal in a directory.
    """
