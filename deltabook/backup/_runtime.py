"""A runtime: its state at an epoch, and everything of the logs up to there.

The state says which epoch that is, so it is copied first. The database is locked by the process that has it, and read
as a crash would leave it: the file, then its write-ahead log. A log that has begun anew in between is seen from its
head; as long as it has not, it holds every page that was on its way into the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from deltabook.backup.copying import Stage, names_in
from deltabook.backup.errors import BackupError, MovedError
from deltabook.backup.parts import Part
from runtime.engine.ingest import Recovered
from runtime.epochs import EpochLog, EpochLogError, EpochLogReader, ResultLog, SnapshotDirectory, TornSegmentError
from runtime.state import SqliteStore, StateError

__all__ = ["STATE", "copy_runtime", "read_recovered", "unread_epochs"]

STATE: Final = "state.db"
_LOG: Final = "state.db-wal"
_HEAD_BYTES: Final = 32
_LETTERS: Final = "dead-letters.jsonl"
_ATTEMPTS: Final = 5


def copy_runtime(part: Part, stage: Stage) -> dict[str, str | int]:
    """Copy a run directory as of its newest committed epoch and check all of it; gives how far it had come.

    Raises `MovedError` if something that belongs to the epoch was removed before it was copied.
    """
    source = part.directory
    _copy_state(source, stage)
    recovered = read_recovered(stage.path(STATE))
    if recovered is None:
        raise BackupError(f"expected a run directory with an epoch, was {source}, which has none yet")
    epoch = recovered.record.epoch
    stage.copy_some(source / "results", _up_to(source / "results", epoch, "*.result", "*.full"), is_final=True)
    stage.copy_some(source / "snapshots", _up_to(source / "snapshots", epoch, "*.snapshot"), is_final=True)
    _copy_epochs(source / "epochs", stage, epoch)
    for name in names_in(source, _LETTERS):
        stage.copy(source / name, name)
    stage.tidy()
    return _checked(source, stage, recovered)


def unread_epochs(copies: Sequence[Path]) -> str | None:
    """Which runtime of these copies could not go on with the copy of its upstream; None if all can.

    An upstream is copied later, and may have removed by then what the copy of its consumer has yet to read.
    """
    logs = {log.identity(): log for copy in copies for log in [EpochLogReader(copy / "epochs")]}
    for copy in copies:
        recovered = read_recovered(copy / STATE)
        for name, cut in recovered.cuts.items() if recovered else ():
            log = logs.get(cut.session)
            if log is not None and log.directory.parent != copy and (first := log.first()) > cut.sequence + 1:
                return f"{copy.name} has read up to epoch {cut.sequence} of {name}, whose first one is {first}"
    return None


def read_recovered(path: Path) -> Recovered | None:
    """What a state database that nobody has open says of its newest epoch; raises `BackupError`."""
    try:
        store = SqliteStore(path)
        try:
            data = store.get("epochs", 0)
        finally:
            store.close()
        return None if data is None else msgspec.msgpack.decode(data, type=Recovered)
    except (StateError, msgspec.DecodeError) as error:
        raise BackupError(f"expected the state of a runtime at {path}, was: {error}") from None


def _copy_state(source: Path, stage: Stage) -> None:
    for _ in range(_ATTEMPTS):
        before = _head(source / _LOG)
        stage.path(_LOG).unlink(missing_ok=True)
        stage.copy(source / STATE, STATE)
        if (source / _LOG).exists():
            stage.copy(source / _LOG, _LOG)
        if before == _head(source / _LOG):
            break
    else:
        raise MovedError(f"expected {source / _LOG} to stand still for as long as {STATE} is copied")
    path = stage.path(STATE)
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise BackupError(f"expected a sound database at {source / STATE}, was: {verdict}")


def _head(path: Path) -> bytes:
    """The first bytes of a write-ahead log, which are others each time that it begins anew."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return b""


def _up_to(directory: Path, epoch: int, *patterns: str) -> list[str]:
    """Names of what covers no epoch behind this one."""
    names = names_in(directory, *(f"[0-9]{pattern}" for pattern in patterns))
    return [name for name in names if _end(name) <= epoch]


def _end(name: str) -> int:
    """The last epoch that a file covers, by its name."""
    return int(Path(name).stem.rpartition("-")[2])


def _copy_epochs(source: Path, stage: Stage, newest: int) -> None:
    """The newest first: the oldest are those that may be removed meanwhile.

    Kept control records go after the mark that says which epochs are left, and before these: if one of them is removed
    in between, an epoch is as well.
    """
    for name in names_in(source, "first"):
        stage.copy(source / name, f"epochs/{name}")
    directory = source / "programs"
    for name in names_in(directory, "[0-9]*.program"):
        stage.copy(directory / name, f"epochs/programs/{name}", is_final=True)
    log = EpochLogReader(stage.path("epochs"))
    for epoch in range(newest, log.first() - 1, -1):
        name = log.path(epoch).name
        try:
            stage.copy(source / name, f"epochs/{name}", is_final=True)
        except MovedError:
            if epoch < newest:
                raise
            stage.copy(source / f".{name}", f"epochs/{name}")  # committed, and not yet called so


def _expect_begin(source: Path, version: int, first: int, snapshots: SnapshotDirectory) -> None:
    """Raise `MovedError` if what is left of the epochs begins behind the version that Spark would go on with.

    That is where results went on after they were copied, and what was before them was removed: views could not be
    filled at that version any more. Results to which nothing is added are of a runtime that is without Spark by now.
    """
    later = [name for name in names_in(source / "results", "[0-9]*.result", "[0-9]*.full") if _end(name) > version]
    if first > 0 and later and not any(snapshot >= first - 1 for snapshot in snapshots.complete(version)):
        raise MovedError(f"the epochs before {first} are gone, and version {version} was the newest result")


def _checked(source: Path, stage: Stage, recovered: Recovered) -> dict[str, str | int]:
    """Open everything as a runtime would and compare every checksum."""
    try:
        log = EpochLog(stage.path("epochs"))
        log.recover(recovered.record)
        first, epoch = log.first(), recovered.record.epoch
        for number in range(first, epoch + 1):
            log.read(number).verify()
        if not log.control(recovered.control):
            raise MovedError(f"the catalogue of epoch {recovered.control} is gone")
        snapshots = SnapshotDirectory(stage.path("snapshots"))
        if first > 0 and not any(snapshot >= first - 1 for snapshot in snapshots.complete(epoch)):
            raise MovedError(f"the epochs before {first} are gone, and no snapshot stands for them")
        results = ResultLog(stage.path("results"))
        _expect_begin(source, results.latest(), first, snapshots)
        for segment in results.read_all():
            segment.verify()
    except TornSegmentError as error:
        raise BackupError(str(error)) from None
    except EpochLogError as error:
        raise MovedError(str(error)) from None
    feeds = {name: f"{cut.session} {cut.sequence}" for name, cut in sorted(recovered.cuts.items())}
    return {"epoch": epoch, "first epoch": first, "version": results.latest(), **feeds}
