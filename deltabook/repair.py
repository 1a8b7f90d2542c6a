"""Repair of damaged files in run directories: a file is recreated from its sources, or reported with a remedy.

```
exchange   snapshots, feeds, private streams  ◀── the requests
algo       lists of trades                    ◀── the journals of orders
runtime relation snapshots, the log's mark ◀── the epochs        results after a damaged one ◀── Spark, from the log
```

Sources cannot be recreated: requests, epochs, state, journals of orders. Nothing is removed: a damaged file is renamed
within its directory (`deltabook.wire.directories`).

A damaged result is renamed together with all later results: Spark publishes them again from the log, if the log goes
back far enough. State and epochs are sources; if they are damaged, their data must be read from the feed again, in a
new directory.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Final

import msgspec

from algo_engine.desk.journal import JOURNAL, FileJournal
from algo_engine.desk.trade_recovery import ADVICE, check_spool, rebuild_spool
from algo_engine.desk.trades import SPOOL
from algo_engine.errors import JournalDamaged
from deltabook.backup import BackupError
from deltabook.backup.copying import STATE, read_recovered
from deltabook.backup.manifest import MANIFEST, Kind, find_parts
from deltabook.wire.directories import aside_name, set_aside, this_process
from exchange_server.day import MarketClock
from exchange_server.errors import DirectoryInUseError, JournalError
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal, SegmentHead
from exchange_server.journal.directory import INPUTS
from exchange_server.journal.history import History
from exchange_server.journal.inputs_log import JournalReader
from exchange_server.journal.streams import feed_name
from exchange_server.journal.verification import verify
from exchange_server.matching.outputs import Now
from exchange_server.outputs import FORMS, all_outputs, encoders_of, protocols_of
from runtime.epochs import EpochLogError, EpochLogReader, ResultLog, SnapshotDirectory, begin_behind, write_first
from runtime.epochs.log import FIRST, PROGRAMS
from runtime.service.rundir.directory import DirectoryLock
from runtime.spark.beginning import passed_epoch
from runtime.spark.config import SparkLaneError
from runtime.state import StateError, check_store
from runtime.upstreams import Consumers, UpstreamError
from runtime.upstreams.consumers import CONSUMERS

__all__ = ["Finding", "PartFindings", "repair"]

RESTORE = "restore the directory from a backup (`deltabook restore`)"
"""Remedy for a damaged source."""


class Finding(msgspec.Struct, frozen=True):
    """One damaged file, or several that belong together."""

    problem: str
    """Description of the damage, with the file's name."""
    remedy: str
    """Action that was taken, or would be taken; if none is possible, the action for the user."""
    is_repairable: bool = True
    """True if the file can be recreated here."""
    kept: tuple[str, ...] = ()
    """New names of the damaged files, which are kept."""


class PartFindings(msgspec.Struct, frozen=True):
    """Findings of a run directory."""

    kind: Kind
    """Kind of process that wrote the directory."""
    path: str
    """Path of the directory."""
    findings: tuple[Finding, ...]
    """Damaged files; empty if there are none."""


def repair_algo(directory: Path, is_dry: bool) -> list[Finding]:
    """Check every strategy's journal and list of trades.

    Raise `algo_engine.errors.JournalInUse` if an engine uses them.
    """
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
            remedy = f"recreated from the journal, with {len(check.trades)} trades"
            findings.append(Finding(check.why, remedy, kept=(aside,) if aside else ()))
    except JournalDamaged as error:
        return [Finding(str(error), ADVICE, is_repairable=False)]
    finally:
        journal.release()
    return findings


_RECREATED: Final = "recreated from the requests"
_LOST_REQUESTS: Final = (
    f"{RESTORE}. To continue without these requests, remove `lock` if the disk lost them while the system ran on, or "
    "move feed.* and private/ away: a client must then forget the messages that it has and the exchange has not"
)


def repair_exchange(directory: Path, is_dry: bool) -> list[Finding]:
    """Verify the journal, and rewrite files that differ from what the journal gives.

    Raises `exchange_server.errors.DirectoryInUseError` if an exchange uses the directory.
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
    if not problems and result.derived:
        # After a reboot, `verify` assumes that the disk lost the end of a journal whose end is damaged. The journal
        # counts as damaged if a start refuses it.
        try:
            History(journal.directory, all_outputs).now()
        except JournalError as error:
            problems = [str(error)]
    if problems:
        return [Finding(problem, _advice(journal.directory), is_repairable=False) for problem in problems] + [
            Finding(problem, f"it cannot be recreated before that: {RESTORE}", is_repairable=False)
            for problem in result.derived.values()
        ]
    if not result.derived or is_dry:
        return [Finding(problem, _RECREATED) for problem in result.derived.values()]
    return _recreate(journal, head, result.derived)


def _recreate(journal: Journal, head: SegmentHead, derived: dict[str, str]) -> list[Finding]:
    directory = journal.directory
    forms = tuple(form for form in FORMS if feed_name(form) in derived or (directory / feed_name(form)).is_file())
    kept = {name: _keep(directory / name, head.first > 1) for name in derived if (directory / name).exists()}
    now = Now()
    clock = MarketClock(time.monotonic, time.time_ns())
    Exchange(journal, clock, encoders_of(head.rules, now, forms), protocols_of(head.rules), now).snapshot()
    left = verify(directory, all_outputs).derived
    return [
        Finding(left[name], f"it is before the oldest remaining request: {RESTORE}", is_repairable=False)
        if name in left
        else Finding(problem, _RECREATED, kept=(kept[name],) if name in kept else ())
        for name, problem in derived.items()
    ]


def _keep(path: Path, is_needed: bool) -> str:
    """Keep a damaged file under another name; return that name.

    The file itself also stays in place if ``is_needed``, because no other file has the data at its beginning.
    """
    if not is_needed or path.suffix == ".snapshot":
        return str(set_aside(path))
    aside = aside_name(path)
    shutil.copy2(path, aside)
    return str(aside)


def _advice(directory: Path) -> str:
    """Return the remedy for damaged requests; if a snapshot covers these requests, the exchange can start without a
    remedy.
    """
    try:
        moment = History(directory, all_outputs).now()
    except JournalError:
        return _LOST_REQUESTS
    return (
        f"the exchange still starts from a snapshot, and has all {moment.inputs} requests; `verify` and `hash` "
        f"need those that are damaged: {RESTORE}"
    )


_LOST_DATA: Final = (
    f"{RESTORE}, or start the runtime on a new directory, where it reads the feed from its first message"
)


def repair_runtime(directory: Path, is_dry: bool) -> list[Finding]:
    """Check every file, and rewrite files from their sources.

    Raise `DirectoryInUseError` if a runtime uses the directory.
    """
    lock = DirectoryLock(directory, this_process())
    try:
        log = EpochLogReader(directory / "epochs")
        marks, first = _mark(log, is_dry)
        findings = _state(directory, log) + marks
        if first is not None:
            findings += _epochs(directory, log, first, is_dry)
            if all(finding.is_repairable for finding in findings):
                first = first if is_dry else log.first()
                findings += _snapshots(directory, log, first, is_dry)
                findings += _results(directory, log, first, is_dry)
        return findings + _consumers(directory)
    finally:
        lock.release()


def _lost(problem: object) -> Finding:
    return Finding(str(problem), _LOST_DATA, is_repairable=False)


def _state(directory: Path, log: EpochLogReader) -> list[Finding]:
    """Check that the state is undamaged and belongs to the newest epoch, whose segment may still have its hidden
    name.
    """
    path = directory / STATE
    if not path.exists() or not path.stat().st_size:
        return [_lost(f"expected the state of a runtime at {path}, was none")]
    try:
        check_store(path)
        recovered = read_recovered(path)
    except (StateError, BackupError) as error:
        return [_lost(error)]
    epoch, newest = recovered.record.epoch if recovered else -1, log.latest()
    if epoch != newest and not (epoch == newest + 1 and log.hidden(epoch).exists()):
        return [_lost(f"expected epoch {epoch}, that of {path}, as the newest in {log.directory}, was {newest}")]
    return []


def _mark(log: EpochLogReader, is_dry: bool) -> tuple[list[Finding], int | None]:
    """Check the mark of the first epoch, which can also be derived from the existing segments.

    Return the findings and the first epoch, which is None if it is unknown.
    """
    path = log.directory / FIRST
    there = log.published()
    try:
        first = log.first()
    except EpochLogError as error:
        problem = str(error)
    else:
        # The control record of epoch 0 stays when the epoch itself is removed, and a mark is written after the removal.
        if first or not there or not there[0] or 0 not in log.programs():
            return [], first
        problem = f"expected a mark of the first epoch at {path}, was none"
    if not there:
        return [_lost(problem)], None
    kept: tuple[str, ...] = ()
    if not is_dry:
        kept = (str(set_aside(path)),) if path.exists() else ()
        write_first(log, there[0])
    return [Finding(problem, f"recreated: the first existing epoch is {there[0]}", kept=kept)], there[0]


def _epochs(directory: Path, log: EpochLogReader, first: int, is_dry: bool) -> list[Finding]:
    damaged: dict[int, str] = {}
    for epoch in range(first, log.latest() + 1):
        try:
            log.read(epoch).verify()
        except EpochLogError as error:
            damaged[epoch] = str(error)
    findings = []
    if first and 0 not in log.programs():
        findings.append(_lost(f"expected the catalogue of epoch 0 in {log.directory / PROGRAMS}, was none"))
    for epoch in log.programs():
        try:
            log.control(epoch)
        except EpochLogError as error:
            findings.append(_lost(error))
    if not damaged:
        return findings
    try:
        control = _control(directory)
    except (StateError, BackupError):  # the state is a finding of its own
        return findings + [_lost(problem) for problem in damaged.values()]
    base = _base(directory, log, max(damaged))
    if findings or base is None or {0, control} & damaged.keys():
        return findings + [_lost(problem) for problem in damaged.values()]
    there = [log.path(epoch) for epoch in damaged if log.path(epoch).exists()]
    kept = () if is_dry else tuple(str(set_aside(path)) for path in there)
    if not is_dry:
        begin_behind(log, base + 1, control)
    remedy = f"it is not needed any more: the log begins after the snapshot of epoch {base}"
    first_problem, *others = damaged.values()
    return [Finding(first_problem, remedy, kept=kept), *(Finding(problem, remedy) for problem in others)]


def _control(directory: Path) -> int:
    """Return the epoch of the newest catalogue in the state."""
    recovered = read_recovered(directory / STATE)
    return recovered.control if recovered else 0


def _base(directory: Path, log: EpochLogReader, epoch: int) -> int | None:
    """Return the oldest complete snapshot at or after an epoch that all readers of the log have passed; None if there
    is none.
    """
    _, _, version = ResultLog.damage_in(directory / "results")
    checkpoint = directory / "checkpoint"
    try:
        passed = [Consumers(directory).passed(log.latest())]
        if version:
            passed += [version, passed_epoch(checkpoint) if checkpoint.is_dir() else version]
    except (UpstreamError, SparkLaneError):
        return None
    whole = SnapshotDirectory(directory / "snapshots").complete(min(passed))
    return min((snapshot for snapshot in whole if snapshot >= epoch), default=None)


def _snapshots(directory: Path, log: EpochLogReader, first: int, is_dry: bool) -> list[Finding]:
    snapshots = SnapshotDirectory(directory / "snapshots")
    whole = snapshots.complete(log.latest())
    findings = []
    for path, problem in sorted(snapshots.torn.items()):
        base = max((epoch for epoch in whole if epoch < int(path.stem)), default=0)
        if base < first - 1:
            findings.append(_lost(problem))
            continue
        kept: tuple[str, ...] = ()
        if not is_dry:
            kept = (str(set_aside(path)),)
            SnapshotDirectory(directory / "snapshots").take(log, int(path.stem))
        findings.append(Finding(problem, "recreated from the epochs", kept=kept))
    return findings


def _results(directory: Path, log: EpochLogReader, first: int, is_dry: bool) -> list[Finding]:
    damaged, aside, version = ResultLog.damage_in(directory / "results")
    if not damaged:
        return []
    snapshots = SnapshotDirectory(directory / "snapshots")
    if first and not any(snapshot >= first - 1 for snapshot in snapshots.complete(version)):
        return [_lost(f"{problem}; the epochs before {first} no longer exist") for problem in damaged.values()]
    kept = () if is_dry else tuple(str(set_aside(path)) for path in aside)
    remedy = f"results end at version {version} now; Spark publishes later versions again from the epochs"
    first_problem, *others = damaged.values()
    return [
        Finding(first_problem, remedy, kept=kept),
        *(Finding(problem, "set aside with the first one") for problem in others),
    ]


def _consumers(directory: Path) -> list[Finding]:
    try:
        Consumers(directory).list()
    except UpstreamError as error:
        remedy = f"start the consumer, which writes it again, or remove it from {directory / CONSUMERS} if it is unused"
        return [Finding(str(error), remedy, is_repairable=False)]
    return []


_OPENED: Final = frozenset({"lock", "orders.lock", STATE})
"""Files that are opened for writing even if nothing is changed."""
_OF_SPARK: Final = frozenset({"checkpoint", "spark"})
"""Folders of a runtime that Spark's processes write, possibly as another user, and which repair does not change."""


def _check_access(directory: Path, is_dry: bool) -> None:
    """Raise `BackupError` for a file that this user may not read, or may not change although repair may have to.

    A reader cannot distinguish such a file from a damaged file, which repair would rename. A state database is opened
    for writing even if nothing is changed.
    """
    is_opened = (directory / STATE).exists()
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if name not in _OF_SPARK)
        paths = [(Path(folder, name), os.R_OK | os.X_OK, not is_dry) for name in folders]
        if folder == str(directory):
            paths.insert(0, (directory, os.R_OK | os.X_OK, not is_dry or is_opened))
        paths += [(Path(folder, name), os.R_OK, not is_dry or name in _OPENED) for name in sorted(files)]
        for path, needed, is_changed in paths:
            for mode, what in ((needed, "read"), (os.W_OK if is_changed else os.F_OK, "changed")):
                if not os.access(path, mode):
                    raise BackupError(
                        f"expected a file that may be {what}, was {path}: repair as the user to whom the files belong"
                    )


_REPAIRS = {"algo": repair_algo, "exchange": repair_exchange, "runtime": repair_runtime}


def repair(directory: Path, *, is_dry: bool = False) -> list[PartFindings]:
    """Check a run directory, or those directly below a directory, and recreate damaged files from their sources.

    With ``is_dry`` nothing is changed, and the actions are only described. The processes must have ended; raises the
    error of the part whose process runs. Raises `deltabook.backup.BackupError`, before anything is changed, for a
    backup, if there is no run directory, or if one of its files may not be read or changed.
    """
    parts = find_parts(directory)
    for place in (directory.resolve(), directory.resolve().parent):
        if (place / MANIFEST).is_file():  # a check would leave locks there, and `restore` refuses further files
            raise BackupError(
                f"expected a run directory, was one of the backup {place}: `deltabook restore` checks it; remove "
                f"{MANIFEST} if processes have run on it since"
            )
    for part in parts:
        _check_access(part.directory, is_dry)
    return [
        PartFindings(part.kind, str(part.directory), tuple(_REPAIRS[part.kind](part.directory, is_dry)))
        for part in parts
    ]
