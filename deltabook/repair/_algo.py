"""Strategies: the list of trades follows from the journal of orders, as far back as the journal goes."""

from __future__ import annotations

from pathlib import Path

from algo_engine.errors import JournalDamaged
from algo_engine.journal import JOURNAL, FileJournal
from algo_engine.trade_recovery import ADVICE, check_spool, rebuild_spool
from algo_engine.trades import SPOOL
from deltabook.repair.findings import Finding

__all__ = ["repair_algo"]


def repair_algo(directory: Path, is_dry: bool) -> list[Finding]:
    """Check every strategy's journal and list of trades; raises `algo_engine.errors.JournalInUse`."""
    folders = {path.parent for name in (JOURNAL, SPOOL) for path in directory.glob(f"*/{name}")}
    return [finding for folder in sorted(folders) for finding in _repair_strategy(folder, is_dry)]


def _repair_strategy(folder: Path, is_dry: bool) -> list[Finding]:
    journal = FileJournal(folder / JOURNAL)
    try:
        findings = []
        if torn_bytes := journal.torn_bytes:
            findings.append(
                Finding(
                    f"expected whole records to the end of {folder / JOURNAL}, was {torn_bytes} bytes after the last",
                    "the next start cuts them, and requests their messages from the exchange",
                )
            )
        check = check_spool(folder)
        if check.lost:
            findings.append(Finding(check.why, check.lost, is_repairable=False))
        elif check.why:
            aside = "" if is_dry else rebuild_spool(folder, check)
            remedy = f"made again from the journal, with {len(check.trades)} trades"
            findings.append(Finding(check.why, remedy, kept=(aside,) if aside else ()))
    except JournalDamaged as error:
        return [Finding(str(error), ADVICE, is_repairable=False)]
    finally:
        journal.release()
    return findings
