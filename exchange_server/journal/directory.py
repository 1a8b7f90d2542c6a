"""A journal's directory: the lock, the inputs, the snapshots, and the streams derived from the inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from deltabook.wire.directories import (
    CLAIM_LIMIT_BYTES,
    Claim,
    NotAFileError,
    claimed_by,
    refuse_special_files,
    this_process,
)
from exchange_server.errors import (
    DirectoryInUseError,
    ExchangeConfigurationError,
    JournalDamagedError,
    JournalError,
)
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk
from exchange_server.journal.inputs_log import FsyncPolicy, InputsLog, JournalReader, segment_name
from exchange_server.journal.numbered_file import Position
from exchange_server.journal.snapshots import JournalSnapshots, Snapshot
from exchange_server.journal.streams import Streams
from exchange_server.matching.inputs import MarketRules

__all__ = ["INPUTS", "LOCK", "SNAPSHOTS", "Journal", "keeps_writes"]

INPUTS: Final = "inputs"
"""Directory of the segments."""
SNAPSHOTS: Final = "snapshots"
"""Directory of the snapshots."""

LOCK: Final = "lock"
"""Name of the lock file, which also identifies its holder."""

_KEPT_SNAPSHOTS: Final = 4
_LEAST_SNAPSHOTS: Final = 2
"""Smallest number of snapshots to keep: the newest, and the one before it in case the newest is damaged."""


def keeps_writes(directory: Path, disk: JournalDisk = LOCAL_DISK) -> bool:
    """Return True if the system has not restarted since the last write in a directory, so that no write is lost."""
    try:
        descriptor = disk.open(directory / LOCK, read_only=True)
    except OSError:
        return False
    try:
        boot_id = _boot_of(disk.pread(descriptor, CLAIM_LIMIT_BYTES, 0))
    finally:
        disk.close(descriptor)
    return bool(boot_id) and boot_id == disk.boot_id()


def _boot_of(claim: bytes) -> str:
    try:
        return msgspec.json.decode(claim, type=Claim).boot
    except ValueError:
        return ""


class Journal:
    """Directory of an exchange, locked as long as the journal is open.

    ```
    lock                             excludes a second exchange; contains the boot id of the system that last wrote
    inputs/                          all requests: InputsLog, JournalReader
    snapshots/                       the market after some inputs: JournalSnapshots
    feed.lines, feed.itch, private/  streams that follow from the inputs: Streams
    ```

    A start reads all inputs by `reader`, then calls `begin`, and appends to `inputs` from then on.

    ``keep`` is the number of snapshots to keep, at least two; the inputs before the oldest of them are removed. None
    keeps all inputs and four snapshots.
    """

    def __init__(
        self,
        directory: Path,
        rules: MarketRules,
        new_session: Callable[[], str],
        fsync: FsyncPolicy = "interval",
        *,
        keep: int | None = None,
        disk: JournalDisk = LOCAL_DISK,
        sync: Callable[[int], None] | None = None,
    ) -> None:
        """Open the journal; ``sync`` forces the inputs' descriptor to disk, in place of the disk's own method.

        Raise `DirectoryInUseError`, `JournalError`, and `ExchangeConfigurationError` if the journal was begun under
        other rules.
        """
        self.directory = directory
        self.fsync: FsyncPolicy = fsync
        self._keep = keep
        self._disk = disk
        self._sync = sync
        self._log: InputsLog | None = None
        self._snapshot_lock = threading.Lock()
        self._boot_id = ""
        """Identifier of the system run that last wrote here."""
        self._lock = self._take_lock()
        try:
            self.reader = self._open(rules, new_session)
        except BaseException:
            disk.close(self._lock)
            raise
        self.session = self.reader.head.session
        self.rules = rules
        self.snapshots = JournalSnapshots(directory / SNAPSHOTS, disk)
        self.streams = Streams(directory, disk)
        self._synced: Mapping[str, Position] = {}
        """Positions of the streams at the last snapshot."""

    def _take_lock(self) -> int:
        try:
            refuse_special_files(self.directory)
            self._disk.make_directory(self.directory)
            descriptor = self._disk.open(self.directory / LOCK, create=True)
            try:
                self._disk.lock(descriptor)
            except BlockingIOError:
                held_by = claimed_by(self._disk.pread(descriptor, CLAIM_LIMIT_BYTES, 0))
                self._disk.close(descriptor)
                raise DirectoryInUseError(
                    f"expected {self.directory} to be free, was in use by another exchange ({held_by})"
                ) from None
            self._boot_id = _boot_of(self._disk.pread(descriptor, CLAIM_LIMIT_BYTES, 0))
            self._claim(descriptor)
        except (JournalError, NotAFileError):
            raise
        except OSError as error:
            raise JournalError(f"expected a directory at {self.directory}, was {error.strerror}") from error
        return descriptor

    def _claim(self, descriptor: int) -> None:
        self._disk.truncate(descriptor, 0)
        self._disk.pwrite(descriptor, msgspec.structs.replace(this_process(), boot=self._boot_id).encoded(), 0)

    def _open(self, rules: MarketRules, new_session: Callable[[], str]) -> JournalReader:
        path = self.directory / INPUTS
        if not self._disk.is_file(path) and not any(not name.startswith(".") for name in self._disk.names(path)):
            InputsLog.create(path, _session(new_session()), rules, self._disk)
        # Where no write can be lost, a broken record that was written whole is damage, not a torn tail.
        is_same_boot = bool(self._boot_id) and self._boot_id == self._disk.boot_id()
        reader = JournalReader(path, self._disk, keeps_writes=is_same_boot)
        began = reader.head.rules
        if began != rules:
            raise ExchangeConfigurationError(
                f"expected the rules that the journal in {self.directory} began with ({_words(began, rules)}), "
                f"was {_words(rules, began)}; another directory begins a new session"
            )
        return reader

    @property
    def inputs(self) -> InputsLog:
        """Log of inputs to append to, available once `begin` was called."""
        assert self._log is not None, "expected a journal that was read to its end"
        return self._log

    def begin(self, synced: Mapping[str, Position]) -> None:
        """Cut the streams and the torn tail, and accept inputs from now on; all inputs must have been read.

        ``synced`` are the positions of the streams in the snapshot at which the reading began. Raise `JournalError`,
        and cut nothing, if streams contain more than the inputs imply and no power loss explains it.
        """
        assert self.reader.end is not None, "expected a journal that was read to its end"
        surplus = self.streams.surplus()
        if surplus and self.reader.keeps_writes:
            raise JournalDamagedError(
                f"expected requests in {self.directory / INPUTS} with everything that was published, were fewer: "
                f"{surplus}"
            )
        self.streams.cut()
        self._synced = synced
        self._log = InputsLog(
            self.directory / INPUTS, self.reader.head, self.reader.end, self.fsync, disk=self._disk, sync=self._sync
        )
        self._boot_id = self._disk.boot_id()
        try:
            self._claim(self._lock)
        except OSError as error:
            raise JournalError(f"expected to write {self.directory / LOCK}, was {error.strerror}") from error

    @property
    def size_bytes(self) -> int:
        """Number of bytes of inputs ever written, those in removed segments included."""
        return self.inputs.position

    def sync(self) -> None:
        """Force the inputs to disk if the policy requires it, in any thread; raise `JournalError` on failure."""
        self.inputs.sync()

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Write a snapshot, then remove the snapshots and segments that need not be kept; any thread may call this.

        The inputs and streams that the snapshot covers are made durable first, so that the journal never ends before a
        snapshot. Raise `JournalError` if that fails.
        """
        with self._snapshot_lock:
            self.inputs.force()
            self.streams.sync(self._synced, snapshot.streams)
            self.snapshots.write(snapshot)
            self._synced = snapshot.streams
            try:
                self._retire()
            except OSError as error:
                raise JournalError(f"expected to remove from {self.directory}, was {error.strerror}") from error

    def _retire(self) -> None:
        oldest = self.snapshots.retire(max(self._keep or _KEPT_SNAPSHOTS, _LEAST_SNAPSHOTS))
        if self._keep is None or oldest is None:
            return
        directory = self.directory / INPUTS
        needed = segment_name(oldest + 1)
        # A new segment begins after each snapshot, so that no kept snapshot needs a segment with a smaller name.
        names = [name for name in self._disk.names(directory) if name[0].isdigit() and name < needed]
        for name in names:
            self._disk.unlink(directory / name)
        if names:
            self._disk.sync_directory(directory)

    def close(self) -> None:
        """Close everything and release the lock."""
        try:
            if self._log is not None:
                self._log.close()
        finally:
            self.streams.close()
            if self._lock >= 0:
                self._disk.close(self._lock)
                self._lock = -1


def _session(name: str) -> str:
    if not (name.isascii() and name.isalnum() and len(name) <= 10):
        raise ExchangeConfigurationError(f"expected a session of at most 10 letters and digits, was {name!r}")
    return name


def _words(rules: MarketRules, others: MarketRules) -> str:
    """Return a description of ``rules``: symbols, replay, and every other field whose value differs in ``others``."""
    words = [instrument.symbol for instrument in rules.instruments]
    if rules.replay_symbols:
        words.append(f"{' '.join(rules.replay_symbols)} replayed {rules.replay_mode}")
    if words == [instrument.symbol for instrument in others.instruments]:
        for mine, its in zip(rules.instruments, others.instruments, strict=True):
            words += _differences(mine, its, f"{mine.symbol} ")
    return ", ".join(words + _differences(rules, others, "", but=("instruments", "replay_symbols", "replay_mode")))


def _differences(mine: msgspec.Struct, its: msgspec.Struct, prefix: str, but: Sequence[str] = ()) -> list[str]:
    fields = [name for name in mine.__struct_fields__ if name not in but]
    return [f"{prefix}{name} {getattr(mine, name)}" for name in fields if getattr(mine, name) != getattr(its, name)]
