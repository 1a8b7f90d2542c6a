"""Copies of parts that running processes write: the stage on which a copy is assembled, and the order of the files.

The journal of a strategy is copied before its list of trades: a fill is removed from the journal only once it is in the
list, and the list may have trades that the journal does not have.

The requests of an exchange are copied last. A journal that is copied in this order is in a state that a crash could
have left, see `exchange_server.journal`. If a new segment has appeared by the end of the copy, the segment before the
new one is copied again, since that segment may have grown meanwhile.

The state of a runtime is copied first, since it determines the epoch of the copy. Its process has locked the database,
so the files are copied as a crash would leave them: the database, then its write-ahead log. If the head of the log has
changed meanwhile, the log was restarted, and both files are copied again; otherwise the log has every page that was
being written into the database.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from algo_engine.desk.journal import JOURNAL, read_journal
from algo_engine.desk.trade_recovery import check_spool
from algo_engine.desk.trades import SPOOL
from algo_engine.errors import JournalDamaged
from deltabook.backup.manifest import BackupError, MovedError, Part
from exchange_server.errors import JournalError
from exchange_server.journal.directory import keeps_writes
from exchange_server.journal.inputs_log import JournalReader
from exchange_server.journal.numbered_file import damage_before
from exchange_server.journal.snapshots import JournalSnapshots
from exchange_server.journal.verification import surplus
from exchange_server.outputs import all_outputs
from runtime.engine.ingest import Recovered
from runtime.epochs import EpochLog, EpochLogError, EpochLogReader, ResultLog, SnapshotDirectory, TornSegmentError
from runtime.state import SqliteStore, StateError, check_store

__all__ = ["STATE", "Stage", "copy_algo", "copy_exchange", "copy_runtime", "read_recovered", "unread_epochs"]

_CHUNK_BYTES: Final = 1 << 20


class Stage:
    """A directory in which a copy of a part is assembled.

    If the part changes while it is copied, the copy is started again; the copies of files that never change are kept.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._kept: set[Path] = set()
        directory.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a file of the part on the stage."""
        return self.directory / name

    def begin(self) -> None:
        """Start a new attempt: forget which files belong to the part."""
        self._kept.clear()

    def copy(self, source: Path, name: str, *, is_final: bool = False) -> None:
        """Copy a file as it is now; raise `MovedError` if it no longer exists.

        ``is_final``: the file never changes under this name, so a copy from an earlier attempt is used.
        """
        target = self.path(name)
        self._kept.add(target)
        if is_final and target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}.copying")
        try:
            with source.open("rb") as read, hidden.open("wb") as written:
                shutil.copyfileobj(read, written, _CHUNK_BYTES)
        except FileNotFoundError:
            raise MovedError(f"{source} no longer exists") from None
        except OSError as error:
            raise BackupError(f"expected to copy {source} into the backup, was: {error.strerror}") from None
        hidden.rename(target)

    def copy_some(self, source: Path, names: Iterable[str], *, is_final: bool = False) -> list[str]:
        """Copy the named files of a directory, except those that do not exist; return the names of the copied files."""
        copied = []
        for name in names:
            try:
                self.copy(source / name, f"{source.name}/{name}", is_final=is_final)
            except MovedError:
                self._kept.discard(self.path(f"{source.name}/{name}"))
                continue
            copied.append(name)
        return copied

    def tidy(self) -> None:
        """Remove files that an earlier attempt has left and this attempt has not copied."""
        for path in sorted(self.directory.rglob("*")):
            if path.is_file() and path not in self._kept:
                path.unlink()


def names_in(directory: Path, *patterns: str) -> list[str]:
    """Return the names of a directory's files that match a pattern, in ascending order; none if there is no
    directory.
    """
    return sorted({path.name for pattern in patterns for path in directory.glob(pattern) if path.is_file()})


_BESIDE: Final = ("views.json",)
"""Files in a directory of strategies that belong to all strategies."""


def copy_algo(part: Part, stage: Stage) -> dict[str, str | int]:
    """Copy every strategy's files and read its journal; return the positions of the strategies.

    Raise `BackupError` if a journal or a list of trades is damaged.
    """
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


_SEGMENTS: Final = "[0-9]*.inputs"
_ROUNDS: Final = 20
"""Number of times that the segments are listed before the copy is started again."""


def copy_exchange(part: Part, stage: Stage) -> dict[str, str | int]:
    """Copy a journal, read every record of it, and apply the requests since its newest snapshot; return its position.

    Raise `MovedError` if so much was removed meanwhile that no market can start from the rest, and `BackupError` where
    an exchange would not start on the part.
    """
    source = part.directory
    is_whole = keeps_writes(source)
    stage.copy_some(source / "snapshots", names_in(source / "snapshots", "[0-9]*"), is_final=True)
    for name in names_in(source, "feed.*"):
        stage.copy(source / name, name)
    stage.copy_some(source / "private", names_in(source / "private", "*.lines", "*.packets"))
    _copy_inputs(part, stage)
    try:
        reader = JournalReader(stage.path("inputs"), keeps_writes=is_whole)
        snapshots = JournalSnapshots(stage.path("snapshots")).newest()
        newest = next((snapshot for snapshot in snapshots if snapshot.session == reader.head.session), None)
        first = reader.head.first
        if first > 1 and (newest is None or newest.inputs + 1 < first):
            raise MovedError(f"the requests before {first} were removed, and no snapshot replaces them")
        inputs = first - 1
        for number, batch in reader.batches(first - 1):
            inputs = number + len(batch) - 1
    except JournalError as error:
        raise BackupError(str(error)) from None
    for name, position in newest.streams.items() if newest is not None else ():
        if why := damage_before(position, stage.path(name)):
            raise BackupError(f"{why}: start the exchange again, or `deltabook repair` it, before it is copied")
    if newest is not None and newest.inputs > inputs:
        raise MovedError(f"a snapshot of request {newest.inputs} is newer than the requests, which end at {inputs}")
    if is_whole:
        _expect_published(source, stage)
    return {"session": reader.head.session, "requests": inputs}


def _expect_published(source: Path, stage: Stage) -> None:
    """Raise `BackupError` if there are messages whose requests are missing: a start on the copy, which has no lock,
    would cut these messages.
    """
    try:
        messages = surplus(stage.directory, all_outputs)
    except JournalError as error:
        raise BackupError(str(error)) from None
    if messages:
        raise BackupError(
            f"expected requests in {source / 'inputs'} with everything that was published, were fewer: {messages} "
            f"(`deltabook repair {source}` prints what to do)"
        )


def _copy_inputs(part: Part, stage: Stage) -> None:
    directory = part.directory / "inputs"
    copied: list[str] = []
    for _ in range(_ROUNDS):
        names = names_in(directory, _SEGMENTS)
        if copied == names:
            return
        for name in names:
            if name not in copied or name == copied[-1]:
                stage.copy(directory / name, f"inputs/{name}")
        copied = names
    raise MovedError(f"expected {directory} not to change while its newest segment is copied")


STATE: Final = "state.db"
"""File name of the state of a runtime."""
_LOG: Final = "state.db-wal"
"""File name of the write-ahead log of the state."""
_HEAD_BYTES: Final = 32
"""Size of the head of a write-ahead log in bytes."""
_LETTERS: Final = "dead-letters.jsonl"
"""File name of the dead letters."""
_ATTEMPTS: Final = 5
"""Number of times that the state is copied before the part is copied again."""


def copy_runtime(part: Part, stage: Stage) -> dict[str, str | int]:
    """Copy a run directory as of its newest committed epoch and check all of it; return its position.

    Raise `MovedError` if something that belongs to the epoch was removed before it was copied.
    """
    source = part.directory
    newest = EpochLogReader(source / "epochs").latest()
    _copy_state(source, stage)
    recovered = read_recovered(stage.path(STATE))
    if recovered is None:
        raise BackupError(f"expected a run directory with an epoch, was {source}, which has none yet")
    epoch = recovered.record.epoch
    if epoch < newest:
        raise BackupError(
            f"expected the state at {source / STATE} to have the newest epoch {newest}, was {epoch}: it or its log has "
            f"lost commits (`deltabook repair {source}` prints what to do)"
        )
    stage.copy_some(source / "results", _up_to(source / "results", epoch, "*.result", "*.full"), is_final=True)
    stage.copy_some(source / "snapshots", _up_to(source / "snapshots", epoch, "*.snapshot"), is_final=True)
    _copy_epochs(source / "epochs", stage, epoch)
    for name in names_in(source, _LETTERS):
        stage.copy(source / name, name)
    stage.tidy()
    return _checked(source, stage, recovered)


def unread_epochs(copies: Sequence[Path]) -> str | None:
    """Return why a runtime of these copies could not resume with the copy of its upstream; None if every runtime could.

    An upstream is copied later, and may by then have removed epochs that its consumer's copy has not read yet.
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
    """Return the recovery record of the newest epoch in a state database that no process uses; None if it has none.

    Raise `BackupError` if the database is damaged.
    """
    try:
        store = SqliteStore(path)
        try:
            data = store.get("epochs", 0)
        finally:
            store.close()
        return None if data is None else msgspec.msgpack.decode(data, type=Recovered)
    except (StateError, msgspec.DecodeError, UnicodeDecodeError) as error:
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
        raise MovedError(f"expected {source / _LOG} not to change while {STATE} is copied")
    path = stage.path(STATE)
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        if shutil.disk_usage(path.parent).free < 2 * _size(path, stage.path(_LOG)):
            raise BackupError(f"expected room beside the backup to check {STATE}, was: {error}") from None
        verdict = str(error)
    if verdict != "ok":
        raise BackupError(f"expected a sound database at {source / STATE}, was: {verdict}")
    try:
        check_store(path)
    except StateError as error:
        raise BackupError(f"expected a sound database at {source / STATE}, was: {error}") from None


def _size(*paths: Path) -> int:
    """Return the size of these files together in bytes; a missing file has none."""
    return sum(path.stat().st_size for path in paths if path.exists())


def _head(path: Path) -> bytes:
    """Return the first bytes of a write-ahead log, which change each time that the log restarts."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return b""


def _up_to(directory: Path, epoch: int, *patterns: str) -> list[str]:
    """Return the names of files that cover no epoch after this one."""
    names = names_in(directory, *(f"[0-9]{pattern}" for pattern in patterns))
    return [name for name in names if _end(name) <= epoch]


def _end(name: str) -> int:
    """Return the last epoch that a file covers, by its name."""
    return int(Path(name).stem.rpartition("-")[2])


def _copy_epochs(source: Path, stage: Stage, newest: int) -> None:
    """Copy the epochs, the newest first, because the oldest may be removed meanwhile.

    Control records are copied after the mark of the first remaining epoch and before the epochs. If a control record
    was removed before it could be copied, an epoch was removed too, and the missing epoch is detected.
    """
    for name in names_in(source, "first"):
        stage.copy(source / name, f"epochs/{name}")
    directory = source / "programs"
    for name in names_in(directory, "[0-9]*.program"):
        stage.copy(directory / name, f"epochs/programs/{name}", is_final=True)
    log = EpochLogReader(stage.path("epochs"))
    try:
        first = log.first()
    except EpochLogError as error:
        raise BackupError(str(error)) from None
    for epoch in range(newest, first - 1, -1):
        name = log.path(epoch).name
        try:
            stage.copy(source / name, f"epochs/{name}", is_final=True)
        except MovedError:
            if epoch < newest:
                raise
            stage.copy(source / f".{name}", f"epochs/{name}")  # committed, but not renamed yet


def _expect_begin(source: Path, version: int, first: int, snapshots: SnapshotDirectory) -> None:
    """Raise `MovedError` if the remaining epochs begin after the version from which Spark would resume.

    This happens if the results advanced after they were copied, and older epochs were then removed: views could not be
    filled at the copied version any more. Results that do not advance belong to a runtime that now runs without Spark.
    """
    later = [name for name in names_in(source / "results", "[0-9]*.result", "[0-9]*.full") if _end(name) > version]
    if first > 0 and later and not any(snapshot >= first - 1 for snapshot in snapshots.complete(version)):
        raise MovedError(f"the epochs before {first} no longer exist, and version {version} was the newest result")


def _checked(source: Path, stage: Stage, recovered: Recovered) -> dict[str, str | int]:
    """Open everything as a runtime would, and compare every checksum; return the position."""
    try:
        log = EpochLog(stage.path("epochs"))
        log.recover(recovered.record)
        first, epoch = log.first(), recovered.record.epoch
        for number in range(first, epoch + 1):
            log.read(number).verify()
        if not log.control(recovered.control):
            raise MovedError(f"the catalogue of epoch {recovered.control} no longer exists")
        snapshots = SnapshotDirectory(stage.path("snapshots"))
        if first > 0 and not any(snapshot >= first - 1 for snapshot in snapshots.complete(epoch)):
            raise MovedError(f"the epochs before {first} were removed, and no snapshot replaces them")
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
