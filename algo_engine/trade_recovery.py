"""A strategy's list of trades beside its journal: whether it has every trade that the journal counts, and from what the
journal holds a list that is damaged is made again.

The journal's checkpoint says how many trades there were up to a message of the private stream; the records behind it
say every later one. So of a damaged list the lines behind the checkpoint can be made again, and of those before it
every one must be whole.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from algo_engine.blotter import Blotter
from algo_engine.errors import JournalDamaged
from algo_engine.journal import JOURNAL, read_journal
from algo_engine.records import Checkpoint
from algo_engine.trades import SPOOL, FileSpool, Trade, scan_spool, trade_of, write_spool
from deltabook.wire.directories import set_aside

__all__ = ["ADVICE", "SpoolCheck", "check_spool", "open_spool", "rebuild_spool"]

ADVICE = (
    "restore the strategy's folder from a backup, or move it away: the strategy then requests everything "
    "from the first message on, with the fees of that start, and counts the day's orders from 0"
)
"""What to do about a journal or a list that nothing here can make again."""


class SpoolCheck(msgspec.Struct, frozen=True):
    """What comparing a list of trades with its journal has found."""

    why: str
    """What is wrong with the list, empty if nothing is."""
    trades: tuple[Trade, ...] = ()
    """If something is: all trades that journal and list hold together."""
    lost: str = ""
    """If trades are missing from these: how many, and what to do; empty if none are."""


def check_spool(folder: Path) -> SpoolCheck:
    """Compare the list of trades in a strategy's folder with the journal; changes nothing.

    Raises `JournalDamaged` if the journal cannot be read.
    """
    path = folder / SPOOL
    records, _ = read_journal(folder / JOURNAL)
    first = records[0] if records else Checkpoint(0)
    assert isinstance(first, Checkpoint), "a journal begins with one, or reading it has failed"
    why, at, whole = "", 0, list[Trade]()
    for line, trade in scan_spool(path) if path.exists() else ():
        if trade is not None:
            whole.append(trade)
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
        missing = f"{count - len(counted)} of {count} trades before its journal begins are lost"
        return SpoolCheck(why, lost=f"{missing}: {ADVICE}")
    blotter = Blotter(first.broker_id)
    events = [event for record in records for event in blotter.apply(record) if event.changes_position]
    return SpoolCheck(why, (*counted, *(trade_of(event, folder.name, first.broker_id) for event in events)))


def rebuild_spool(folder: Path, check: SpoolCheck) -> str:
    """Write the list again from a check that has found nothing lost; gives where the damaged one is kept.

    A list that was not there is kept nowhere: empty then. Trades that are not in the journal are left out; the
    exchange sends them again.
    """
    path = folder / SPOOL
    aside = str(set_aside(path)) if path.exists() else ""
    write_spool(path, check.trades)
    return aside


def open_spool(folder: Path, strategy: str, broker_id: int) -> tuple[FileSpool, str]:
    """Open the list of trades of a strategy, made again from the journal if it is damaged; and what was done, in words.

    The journal must be held. Raises `JournalDamaged` if trades are lost.
    """
    words = ""
    check = check_spool(folder)
    if check.lost:
        raise JournalDamaged(f"{check.why}; {check.lost}")
    if check.why:
        aside = rebuild_spool(folder, check)
        kept = f"; the damaged list is kept as {aside}" if aside else ""
        words = f"{check.why}: it is made again from the journal, with {len(check.trades)} trades{kept}"
    return FileSpool(folder / SPOOL, strategy, broker_id), words
