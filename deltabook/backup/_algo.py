"""Strategies: a journal of orders and a list of trades each.

The journal is copied before the list: it forgets a fill only when the list has it, and the list may have more.
"""

from __future__ import annotations

from typing import Final

from algo_engine.errors import JournalDamaged
from algo_engine.journal import JOURNAL, read_journal
from algo_engine.trade_recovery import check_spool
from algo_engine.trades import SPOOL
from deltabook.backup.copying import Stage, names_in
from deltabook.backup.errors import BackupError
from deltabook.backup.parts import Part

__all__ = ["copy_algo"]

_BESIDE: Final = ("views.json",)
"""Files of all strategies together."""


def copy_algo(part: Part, stage: Stage) -> dict[str, str | int]:
    """Copy every strategy's files and read its journal; gives how far they had come."""
    strategies = sorted(path.parent for path in part.directory.glob(f"*/{JOURNAL}"))
    records = 0
    for strategy in strategies:
        stage.copy(strategy / JOURNAL, f"{strategy.name}/{JOURNAL}")
        stage.copy_some(strategy, names_in(strategy, SPOOL))
        try:
            records += len(read_journal(stage.path(f"{strategy.name}/{JOURNAL}"))[0])
            if why := check_spool(stage.path(strategy.name)).why:
                raise BackupError(
                    f"{why}: start the strategies again, or `deltabook repair` them, before they are copied"
                )
        except JournalDamaged as error:
            raise BackupError(str(error)) from None
    for name in names_in(part.directory, *_BESIDE):
        stage.copy(part.directory / name, name)
    return {"strategies": ", ".join(path.name for path in strategies), "records": records}
