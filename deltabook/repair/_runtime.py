"""A runtime: relation snapshots and the log's mark follow from the epochs, and results from those as well.

Results that follow a damaged one go with it: Spark publishes them again from the log, if that goes back far enough.
State and epochs are the sources; what is damaged there is the feed's to say again, in a new directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deltabook.backup import BackupError
from deltabook.backup._runtime import STATE, read_recovered
from deltabook.repair.findings import RESTORE, Finding
from deltabook.wire.aside import aside_name, set_aside
from deltabook.wire.claim import this_process
from runtime.epochs import EpochLogError, EpochLogReader, ResultLog, SnapshotDirectory, begin_behind, write_first
from runtime.epochs.log import FIRST, PROGRAMS
from runtime.service.rundir.lock import DirectoryLock
from runtime.spark.beginning import passed_epoch
from runtime.spark.config import SparkLaneError
from runtime.state import StateError, check_store
from runtime.upstreams import Consumers, UpstreamError
from runtime.upstreams.consumers import CONSUMERS

__all__ = ["repair_runtime"]

_ANEW: Final = f"{RESTORE}, or start the runtime on a new directory, where it reads the feed from its first message"


def repair_runtime(directory: Path, is_dry: bool) -> list[Finding]:
    """Check every file, and make again what follows from others; raises `DirectoryInUseError`."""
    lock = DirectoryLock(directory, this_process())
    try:
        log = EpochLogReader(directory / "epochs")
        findings = _state(directory, log)
        findings += _mark(log, is_dry)
        if not any(FIRST in finding.problem for finding in findings):
            findings += _epochs(directory, log, is_dry)
            if all(finding.is_repairable for finding in findings):
                findings += _snapshots(directory, log, is_dry)
                findings += _results(directory, log, is_dry)
        return findings + _consumers(directory)
    finally:
        lock.release()


def _lost(problem: object) -> Finding:
    return Finding(str(problem), _ANEW, is_repairable=False)


def _state(directory: Path, log: EpochLogReader) -> list[Finding]:
    """The state must be sound, and of the newest epoch; of that the segment may still have its hidden name."""
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


def _mark(log: EpochLogReader, is_dry: bool) -> list[Finding]:
    """The mark says which epoch is the first: that can be seen as well from what is there."""
    path = log.directory / FIRST
    there = log.published()
    try:
        first = log.first()
    except EpochLogError as error:
        problem = str(error)
    else:
        # The control record of epoch 0 is kept when the epoch itself goes, behind which a mark is written.
        if first or not there or not there[0] or 0 not in log.programs():
            return []
        problem = f"expected a mark of the first epoch at {path}, was none"
    if not there:
        return [_lost(problem)]
    kept: tuple[str, ...] = ()
    if not is_dry:
        kept = (str(set_aside(path)),) if path.exists() else ()
        write_first(log, there[0])
    return [Finding(problem, f"made again: the first epoch that is there is {there[0]}", kept=kept)]


def _epochs(directory: Path, log: EpochLogReader, is_dry: bool) -> list[Finding]:
    damaged: dict[int, str] = {}
    for epoch in range(log.first(), log.latest() + 1):
        try:
            log.read(epoch).verify()
        except EpochLogError as error:
            damaged[epoch] = str(error)
    findings = []
    if log.first() and 0 not in log.programs():
        findings.append(_lost(f"expected the catalogue of epoch 0 in {log.directory / PROGRAMS}, was none"))
    for epoch in log.programs():
        try:
            log.control(epoch)
        except EpochLogError as error:
            findings.append(_lost(error))
    if not damaged:
        return findings
    control = _control(directory)
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
    """The epoch of the newest catalogue, as the state says."""
    recovered = read_recovered(directory / STATE)
    return recovered.control if recovered else 0


def _base(directory: Path, log: EpochLogReader, epoch: int) -> int | None:
    """The oldest whole snapshot not before an epoch, if everybody who reads the log has passed it; else None."""
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


def _snapshots(directory: Path, log: EpochLogReader, is_dry: bool) -> list[Finding]:
    snapshots = SnapshotDirectory(directory / "snapshots")
    whole = snapshots.complete(log.latest())
    findings = []
    for path, problem in sorted(snapshots.torn.items()):
        base = max((epoch for epoch in whole if epoch < int(path.stem)), default=0)
        if base < log.first() - 1:
            findings.append(_lost(problem))
            continue
        kept: tuple[str, ...] = ()
        if not is_dry:
            kept = (str(set_aside(path)),)
            SnapshotDirectory(directory / "snapshots").take(log, int(path.stem))
        findings.append(Finding(problem, "made again from the epochs", kept=kept))
    return findings


def _results(directory: Path, log: EpochLogReader, is_dry: bool) -> list[Finding]:
    damaged, aside, version = ResultLog.damage_in(directory / "results")
    if not damaged:
        return []
    first, snapshots = log.first(), SnapshotDirectory(directory / "snapshots")
    if first and not any(snapshot >= first - 1 for snapshot in snapshots.complete(version)):
        return [_lost(f"{problem}; the epochs before {first} are gone") for problem in damaged.values()]
    kept = tuple(str(aside_name(path) if is_dry else set_aside(path)) for path in aside)
    remedy = f"results end at version {version} now; Spark publishes what follows again from the epochs"
    first_problem, *others = damaged.values()
    return [
        Finding(first_problem, remedy, kept=kept),
        *(Finding(problem, "set aside with the first one") for problem in others),
    ]


def _consumers(directory: Path) -> list[Finding]:
    try:
        Consumers(directory).list()
    except UpstreamError as error:
        remedy = f"start the consumer, which writes it again, or remove it from {directory / CONSUMERS} if it is gone"
        return [Finding(str(error), remedy, is_repairable=False)]
    return []
