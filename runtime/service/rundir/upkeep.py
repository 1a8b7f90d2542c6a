"""Upkeep of a run directory, which limits the size of the directory in the background without delaying epochs.

Relation snapshots and full results are taken periodically. They replace earlier epochs and results, which are retired
once every consumer has passed them. If the directory still reaches its limit, the owner is notified to pause all inputs
until there is room again. While the inputs are paused, all files that are not needed are retired, even those that the
settings keep for a replay.
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
"""Fraction of the limit below which paused inputs resume."""
_TICKS: Final = 10
"""Number of ticks between two checks. A check visits all files of the directory, which may be ten thousand."""
_MOST_OUTPUT_BYTES: Final = 16 * 1024 * 1024
"""Size in bytes above which the output of Spark's Java is truncated."""


class SnapshotConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Intervals of relation snapshots and of full results; a snapshot is taken when the first of its limits is
    reached."""

    epochs: int = 1000
    """Number of epochs between two snapshots; 0 for no snapshots at all, so that the log is never retired."""
    megabytes: int = 64
    """Size of the log between two snapshots, in megabytes."""
    results: int = 500
    """Number of results between two full results."""


class UpkeepConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Snapshots, retention and size limit of a run directory."""

    snapshots: SnapshotConfig = SnapshotConfig()
    """Intervals of snapshots."""
    retention: RetentionConfig = RetentionConfig()
    """Part of the log that is kept for a replay."""
    limit_megabytes: int = 64_000
    """Size of the run directory at which all inputs are paused, in megabytes."""


class Upkeep:
    """Worker that takes snapshots and retires files as they become due, one task at a time, on its own thread.

    `sealed` is called by the thread that seals, all other methods by the owner's thread. The lock guards the counts and
    the thread; all other state that `_work` uses belongs to the running thread.
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
        """Create the upkeep; ``epoch`` is the newest epoch of the log in ``directory``.

        Each callable of ``passed`` returns the last epoch that a consumer will not read any more. ``put_full`` appends
        a full result to the result log. ``on_full`` is called with True when the directory has reached its limit, and
        with False when there is room again. All of these callables are called on the thread of the upkeep. ``fence``
        raises if another process has taken the directory: then no snapshot is taken and no file is retired.
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
        self._is_retiring_due = True  # the previous process may have been killed before it retired files
        self._failures: frozenset[str] = frozenset()  # failures of the last run; ticks retry, sealed epochs do not
        self._damaged: frozenset[str] = frozenset()
        self._times_failed = 0
        self._has_retired = False
        self._note_damaged()
        self._stopped = threading.Event()

    @property
    def used_bytes(self) -> int:
        """Size of the run directory in bytes at the last check."""
        return self._used

    @property
    def is_full(self) -> bool:
        """True while the run directory has reached its limit."""
        return self._is_full

    @property
    def failed(self) -> str | None:
        """Failures of the last run and damaged files that were skipped; None if there are none."""
        return "; ".join(sorted(self._failures | self._damaged)) or None

    @property
    def failures(self) -> int:
        """Number of runs that failed, or detected another damaged file."""
        return self._times_failed

    def sealed(self, footer: Footer) -> None:
        """Record a new epoch; never blocks."""
        with self._lock:
            self._newest = footer.to_epoch
            self._bytes += self._epochs.disk.size(self._epochs.path(footer.to_epoch))
            is_due = self._is_snapshot_due() and not self._failures
        if is_due:
            self.look()

    def look(self) -> None:
        """Start a run unless one is in progress; never blocks."""
        with self._lock:
            if self._stopped.is_set() or (self._thread and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._work, name="upkeep", daemon=True)
            self._thread.start()

    def tick(self) -> None:
        """Start a run every tenth call, and on every call while the directory is full; called every second."""
        self._ticks += 1
        if self._is_full or self._ticks % _TICKS == 0:
            self.look()

    def stop(self) -> None:
        """Abort the run in progress and wait for its end; no other run starts afterwards."""
        self._stopped.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _is_snapshot_due(self) -> bool:
        """Return True if a snapshot is due, by its interval or because the directory is full; requires the lock."""
        limits = self._config.snapshots
        since = self._newest - self._taken
        is_time = since >= limits.epochs or self._bytes >= limits.megabytes * 1_000_000
        return limits.epochs > 0 and since > 0 and (is_time or self._is_full)

    def _work(self) -> None:
        """Run all tasks. A failed task does not prevent the others, so that the limit is always enforced."""
        parts = (self._snapshot, self._full_result, self._retire, self._measure)
        fenced = self._failed(self._fence)
        failures = {fenced} if fenced else {failure for part in parts if (failure := self._failed(part))}
        self._failures = frozenset(failures)
        if self._note_damaged() or failures:
            self._times_failed += 1

    def _note_damaged(self) -> bool:
        """Log damaged snapshots and results that were skipped since the last call; return True if there are new ones.

        Retirement may remove damaged files, and reports the remaining ones again; only the remaining files are then
        remembered.
        """
        damaged = frozenset((*self._snapshots.torn.values(), *self._results.torn))
        self._snapshots.torn.clear()
        self._results.torn.clear()
        others = damaged - self._damaged
        for reason in sorted(others):
            self._log.error("skipped: {reason}", reason=reason)
        self._damaged = damaged if self._has_retired else self._damaged | damaged
        self._has_retired = False
        return bool(others)

    def _failed(self, part: Callable[[], None]) -> str:
        try:
            part()
        except Exception as error:  # noqa: BLE001 (the log is unchanged, whatever the cause)
            if (failure := f"{type(error).__name__}: {error}") not in self._failures:
                text = "the upkeep of run directory {directory} has failed"
                if isinstance(error, (EpochLogError, OSError)):  # the message states the error and the place
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
            os.truncate(output, 0)  # truncated, because its writers append
        # While a consumer is behind, for example because Spark starts, retirement stays due until the consumer has
        # passed the newest snapshot.
        self._is_retiring_due, self._has_retired = passed < self._taken, True
        if freed:
            self._log.debug("{bytes} bytes after epoch {passed} are free again", bytes=freed, passed=passed)

    def _measure(self) -> None:
        self._used = used_bytes(self._directory)
        limit = self._config.limit_megabytes * 1_000_000
        is_full = self._used >= (limit * _ROOM if self._is_full else limit)
        if is_full != self._is_full and not self._stopped.is_set():
            self._is_full = is_full
            self._on_full(is_full)


def used_bytes(directory: Path) -> int:
    """Return the size in bytes of all files below a directory; files that are removed meanwhile do not count."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (thousands of them, every second)
            except FileNotFoundError:
                continue
    return total
