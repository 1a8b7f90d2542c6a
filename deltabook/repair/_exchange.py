"""An exchange: everything but its requests is made again by applying them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from deltabook.repair.findings import RESTORE, Finding
from deltabook.wire.aside import aside_name, set_aside
from exchange_server.clock import MarketClock
from exchange_server.errors import DirectoryInUseError, JournalError
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal, SegmentHead
from exchange_server.journal.directory import INPUTS
from exchange_server.journal.history import History
from exchange_server.journal.segments import JournalReader
from exchange_server.journal.streams import feed_name
from exchange_server.journal.verification import verify
from exchange_server.matching.outputs import Now
from exchange_server.outputs import FORMS, all_outputs, encoders_of, protocols_of

__all__ = ["repair_exchange"]

_MADE_AGAIN: Final = "made again from the requests"
_GONE: Final = (
    f"{RESTORE}. To go on without these requests, remove `lock` if the disk lost them while the system ran on, or move "
    "feed.* and private/ away: clients that have received more messages than it has then must start without them"
)


def repair_exchange(directory: Path, is_dry: bool) -> list[Finding]:
    """Verify the journal, and make again the files that differ from what follows from it.

    Raises `exchange_server.errors.DirectoryInUseError`.
    """
    try:
        head = JournalReader(directory / INPUTS).head
        journal = Journal(directory, head.rules, lambda: head.session)
    except DirectoryInUseError:
        raise
    except JournalError as error:
        return [Finding(str(error), RESTORE, is_repairable=False)]
    try:
        return _repair(journal, head, is_dry)
    except JournalError as error:
        return [Finding(str(error), RESTORE, is_repairable=False)]
    finally:
        journal.close()


def _repair(journal: Journal, head: SegmentHead, is_dry: bool) -> list[Finding]:
    result = verify(journal.directory, all_outputs)
    problems = [problem for problem in result.problems if problem not in result.derived.values()]
    if problems:
        return [Finding(problem, _advice(journal.directory), is_repairable=False) for problem in problems] + [
            Finding(problem, f"it cannot be made again before that: {RESTORE}", is_repairable=False)
            for problem in result.derived.values()
        ]
    if not result.derived or is_dry:
        return [Finding(problem, _MADE_AGAIN) for problem in result.derived.values()]
    return _make_again(journal, head, result.derived)


def _make_again(journal: Journal, head: SegmentHead, derived: dict[str, str]) -> list[Finding]:
    directory = journal.directory
    forms = tuple(form for form in FORMS if feed_name(form) in derived or (directory / feed_name(form)).is_file())
    kept = {name: _keep(directory / name, head.first > 1) for name in derived if (directory / name).exists()}
    now = Now()
    clock = MarketClock(time.monotonic, time.time_ns())
    Exchange(journal, clock, encoders_of(head.rules, now, forms), protocols_of(head.rules), now).snapshot()
    left = verify(directory, all_outputs).derived
    return [
        Finding(left[name], f"it lies before the oldest request that is left: {RESTORE}", is_repairable=False)
        if name in left
        else Finding(problem, _MADE_AGAIN, kept=(kept[name],) if name in kept else ())
        for name, problem in derived.items()
    ]


def _keep(path: Path, is_needed: bool) -> str:
    """Keep a damaged file under another name; its beginning stays where it is, if nothing else can give it."""
    if not is_needed or path.suffix == ".snapshot":
        return str(set_aside(path))
    aside = aside_name(path)
    shutil.copy2(path, aside)
    return str(aside)


def _advice(directory: Path) -> str:
    """What to do about requests that are damaged: all is well if a snapshot stands for them."""
    try:
        moment = History(directory, all_outputs).now()
    except JournalError:
        return _GONE
    return (
        f"the exchange starts from a snapshot all the same, and has all {moment.inputs} requests; `verify` and `hash` "
        f"need those that are damaged: {RESTORE}"
    )
