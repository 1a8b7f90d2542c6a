"""What keeps a run directory small, in the background and never on the epochs' way.

Relation snapshots and full results are taken now and then; what they stand for, and every consumer has passed, is
retired. If the directory still outgrows its limit, the owner is told to let no more in until there is room: then all
that is not needed goes, whatever the settings would keep for a replay.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from twisted.logger import Logger

from runtime.epochs import EpochLogError, EpochLogReader, Footer, ResultLog, RetentionConfig, SnapshotDirectory, retire

__all__ = ["SnapshotConfig", "Upkeep", "UpkeepConfig", "used_bytes"]

_ROOM: Final = 0.9
"""Of the limit: what is let in again fills the rest before the next look."""
_TICKS: Final = 10
"""A look goes through all files of the directory, which may be ten thousand."""
_MOST_OUTPUT_BYTES: Final = 16 * 1024 * 1024


class SnapshotConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a relation snapshot is taken: at whichever comes first."""

    epochs: int = 1000
    """After so many epochs; 0 for no snapshots at all, so that nothing of the log is ever retired."""
    megabytes: int = 64
    """After so much of the log."""
    results: int = 500
    """Results between full ones."""


class UpkeepConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is taken, what is kept, and how much there may be."""

    snapshots: SnapshotConfig = SnapshotConfig()
    """When snapshots are taken."""
    retention: RetentionConfig = RetentionConfig()
    """What of the log is kept for a replay."""
    limit_megabytes: int = 64_000
    """The run directory's size from which on nothing more is let in."""


class Upkeep:
    """Counts what is sealed and works when it is time, one thing after the other, on a thread of its own.

    `sealed` is called by the thread that seals, everything else by the owner's. The lock guards the counts and the
    thread; what `_work` uses beside them belongs to the thread that is alive.
    """

    _log = Logger()

    def __init__(
        self,
        config: UpkeepConfig,
        directory: Path,
        epoch: int,
        results: ResultLog,
        *,
        passed: Sequence[Callable[[], int]],
        put_full: Callable[[], None],
        on_full: Callable[[bool], None],
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``epoch`` is the newest of the log in ``directory``.

        ``passed`` say for each consumer up to which epoch it will never read again, ``put_full`` puts a full result
        into the result log, ``on_full`` hears when the directory has reached its limit, and when there is room again;
        all on the thread of the upkeep. ``fence`` raises if the directory is another process's by now: then nothing is
        taken nor retired.
        """
        self._config = config
        self._directory = directory
        self._epochs = EpochLogReader(directory / "epochs")
        self._snapshots = SnapshotDirectory(directory / "snapshots")
        self._results = results
        self._passed = tuple(passed)
        self._put_full = put_full
        self._on_full = on_full
        self._fence = fence
        self._lock = threading.Lock()
        taken = self._snapshots.newest(epoch)
        self._taken = taken.footer.to_epoch if taken else 0
        self._newest = epoch
        self._bytes = 0
        self._used = used_bytes(directory)
        self._is_full = False
        self._ticks = 0
        self._thread: threading.Thread | None = None
        self._is_retiring_due = False
        self._failures: frozenset[str] = frozenset()  # of the last work, tried again at the next look, not every epoch
        self._damaged: frozenset[str] = frozenset()
        self._times_failed = 0
        self._has_retired = False
        self._note_damaged()
        self._stopped = threading.Event()

    @property
    def used_bytes(self) -> int:
        """Size of the run directory at the last look."""
        return self._used

    @property
    def is_full(self) -> bool:
        """Whether the run directory has reached its limit."""
        return self._is_full

    @property
    def failed(self) -> str | None:
        """What the last work has failed at and which damaged files it has passed over; None if there is nothing."""
        return "; ".join(sorted(self._failures | self._damaged)) or None

    @property
    def failures(self) -> int:
        """How often a work has failed, or come upon another damaged file."""
        return self._times_failed

    def sealed(self, footer: Footer) -> None:
        """There is a new epoch; never blocks."""
        with self._lock:
            self._newest = footer.to_epoch
            self._bytes += self._epochs.disk.size(self._epochs.path(footer.to_epoch))
            is_due = self._is_snapshot_due() and not self._failures
        if is_due:
            self.look()

    def look(self) -> None:
        """Do what is to be done now, unless it is being done; never blocks."""
        with self._lock:
            if self._stopped.is_set() or (self._thread and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._work, name="upkeep", daemon=True)
            self._thread.start()

    def tick(self) -> None:
        """Called every second: looks now and then, and every time while the directory is full."""
        self._ticks += 1
        if self._is_full or self._ticks % _TICKS == 0:
            self.look()

    def stop(self) -> None:
        """Give up what is under way, and wait for that."""
        self._stopped.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _is_snapshot_due(self) -> bool:
        """With the lock held: it is time, or room is wanted and a snapshot may make some."""
        limits = self._config.snapshots
        since = self._newest - self._taken
        is_time = since >= limits.epochs or self._bytes >= limits.megabytes * 1_000_000
        return limits.epochs > 0 and since > 0 and (is_time or self._is_full)

    def _work(self) -> None:
        """Part by part: what one fails at keeps no other from being done, so that the limit holds in any case."""
        parts = (self._snapshot, self._full_result, self._retire, self._measure)
        fenced = self._failed(self._fence)
        failures = {fenced} if fenced else {failure for part in parts if (failure := self._failed(part))}
        self._failures = frozenset(failures)
        if self._note_damaged() or failures:
            self._times_failed += 1

    def _note_damaged(self) -> bool:
        """Tell of snapshots and results that were passed over since the last time; whether there are others.

        Once it was retired what had been found before is forgotten, as it may be gone: what is there was found again.
        """
        damaged = frozenset((*self._snapshots.torn.values(), *self._results.torn))
        self._snapshots.torn.clear()
        self._results.torn.clear()
        others = damaged - self._damaged
        for reason in sorted(others):
            self._log.error("passed over: {reason}", reason=reason)
        self._damaged = damaged if self._has_retired else self._damaged | damaged
        self._has_retired = False
        return bool(others)

    def _failed(self, part: Callable[[], None]) -> str:
        try:
            part()
        except Exception as error:  # noqa: BLE001 (the log stands as it is, whatever the cause)
            if (failure := f"{type(error).__name__}: {error}") not in self._failures:
                text = "the run directory {directory} is not kept small"
                if isinstance(error, (EpochLogError, OSError)):  # says itself what is wrong where
                    self._log.error(text + ": {reason}", directory=self._directory, reason=str(error))
                else:
                    self._log.failure(text, directory=self._directory)
            return failure
        return ""

    def _snapshot(self) -> None:
        with self._lock:
            is_due, epoch = self._is_snapshot_due(), self._newest
        if is_due:
            self._take(epoch)
            self._is_retiring_due = True

    def _full_result(self) -> None:
        behind = self._results.since_full()
        if behind >= self._config.snapshots.results or (behind and self._is_full):
            self._put_full()
            self._is_retiring_due = True

    def _take(self, epoch: int) -> None:
        if self._snapshots.take(self._epochs, epoch, stopped=self._stopped.is_set):
            with self._lock:
                self._taken, self._bytes = epoch, 0
            self._log.debug("snapshot of the relations at epoch {epoch}", epoch=epoch)

    def _retire(self) -> None:
        if self._stopped.is_set() or not (self._is_retiring_due or self._is_full):
            return
        passed = min(call() for call in self._passed)
        bases, kept = (1, RetentionConfig(0, 0)) if self._is_full else (2, self._config.retention)
        freed = retire(self._epochs, self._snapshots, passed, kept, bases)
        freed += self._results.retire(passed, bases)
        output = self._directory / "spark" / "output.log"
        if output.exists() and output.stat().st_size > _MOST_OUTPUT_BYTES:
            os.truncate(output, 0)  # its writers append
        self._is_retiring_due, self._has_retired = False, True
        if freed:
            self._log.debug("{bytes} bytes behind epoch {passed} are free again", bytes=freed, passed=passed)

    def _measure(self) -> None:
        self._used = used_bytes(self._directory)
        limit = self._config.limit_megabytes * 1_000_000
        is_full = self._used >= (limit * _ROOM if self._is_full else limit)
        if is_full != self._is_full and not self._stopped.is_set():
            self._is_full = is_full
            self._on_full(is_full)


def used_bytes(directory: Path) -> int:
    """What the files below a directory hold; those that vanish meanwhile count as nothing."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (thousands of them, every second)
            except FileNotFoundError:
                continue
    return total
