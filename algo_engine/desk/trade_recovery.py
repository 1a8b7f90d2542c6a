"""Comparison of a strategy's list of trades with its journal, and recovery of a damaged list from the journal.

The journal's checkpoint has the number of trades up to a message of the private stream; the later records have every
later trade. So the lines after the checkpoint can be restored, while every line before it must be intact.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from algo_engine.desk.blotter import Blotter
from algo_engine.desk.journal import JOURNAL, read_journal
from algo_engine.desk.records import Checkpoint
from algo_engine.desk.trades import SPOOL, FileSpool, Trade, scan_spool, trade_of, write_spool
from algo_engine.errors import JournalDamaged, LoginRefused
from deltabook.wire.directories import set_aside

__all__ = ["ADVICE", "SpoolCheck", "check_spool", "open_spool", "rebuild_spool"]

ADVICE = (
    "restore the strategy's folder from a backup, or move it away: the next start then requests all messages "
    "again, computes their fees by its own --fees, and counts the day's orders from 0"
)
"""Advice for a journal or a list that cannot be restored here."""


class SpoolCheck(msgspec.Struct, frozen=True):
    """Result of comparing a list of trades with its journal."""

    why: str
    """Error of the list, empty if there is none."""
    trades: tuple[Trade, ...] = ()
    """All trades that journal and list contain together, if the list has an error."""
    lost: str = ""
    """Message with the number of trades that neither file has, and what to do; empty if there are none."""


def check_spool(folder: Path, broker_id: int | None = None) -> SpoolCheck:
    """Compare the list of trades in a strategy's folder with the journal; change nothing.

    Raise `JournalDamaged` if the journal cannot be read, and `LoginRefused` if ``broker_id`` is given and the journal
    is that of another broker.
    """
    path = folder / SPOOL
    records, _ = read_journal(folder / JOURNAL)
    first = records[0] if records else Checkpoint(0)
    assert isinstance(first, Checkpoint), "a journal begins with a checkpoint, or reading it fails"
    if records and broker_id not in (None, first.broker_id):
        raise LoginRefused(
            f"expected the journal of the strategy {folder.name} with broker {broker_id} in {folder / JOURNAL}, "
            f"was one of broker {first.broker_id}: the order of the strategies and --broker give their brokers"
        )
    why, at, whole = "", 0, list[Trade]()
    for line, trade in scan_spool(path) if path.exists() else ():
        if trade is not None and (not records or trade.broker_id == first.broker_id):
            whole.append(trade)
        elif not why and trade is not None:
            why = f"expected trades of broker {first.broker_id} in {path}, was one of broker {trade.broker_id}"
        elif not why:
            why = f"expected the trades that were written to {path}, was damage at byte {at}: {line[:80]!r}"
        at += len(line)
    counted = [trade for trade in whole if trade.sequence <= first.sequence]
    count = first.fills + first.void_trades
    if not why and len(counted) != count:
        why = f"expected {count} trades up to message {first.sequence} in {path}, were {len(counted)}"
    if not why:
        return SpoolCheck("")
    if len(counted) != count:
        missing = f"{count - len(counted)} of the {count} trades older than its journal are lost"
        return SpoolCheck(why, lost=f"{missing}: {ADVICE}")
    blotter = Blotter(first.broker_id)
    events = [event for record in records for event in blotter.apply(record) if event.changes_position]
    return SpoolCheck(why, (*counted, *(trade_of(event, folder.name, first.broker_id) for event in events)))


def rebuild_spool(folder: Path, check: SpoolCheck) -> str:
    """Write the list again from a check without lost trades; return the path of the damaged file's copy.

    The path is empty if there was no list. Trades that are not in the journal are left out; the exchange sends them
    again.
    """
    path = folder / SPOOL
    aside = str(set_aside(path)) if path.exists() else ""
    write_spool(path, check.trades)
    return aside


def open_spool(folder: Path, strategy: str, broker_id: int) -> tuple[FileSpool, str]:
    """Open the list of trades of a strategy, restored from the journal if it is damaged.

    Return the list, and a report as text, empty if the list was intact. The journal must be locked. Raise
    `JournalDamaged` if trades are lost, and `LoginRefused` for the journal of another broker.
    """
    words = ""
    check = check_spool(folder, broker_id)
    if check.lost:
        raise JournalDamaged(f"{check.why}; {check.lost}")
    if check.why:
        aside = rebuild_spool(folder, check)
        kept = f"; the damaged list is kept as {aside}" if aside else ""
        words = f"{check.why}: it is recreated from the journal, with {len(check.trades)} trades{kept}"
    return FileSpool(folder / SPOOL, strategy, broker_id), words
