"""Relation snapshots in the background: taken now and then while epochs are sealed, never on their way."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

import msgspec
from twisted.logger import Logger

from runtime.epochs import EpochLogReader, Footer, SnapshotDirectory

__all__ = ["SnapshotConfig", "Snapshotting"]


class SnapshotConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a relation snapshot is taken: at whichever comes first."""

    epochs: int = 1000
    """After so many epochs; 0 for no snapshots at all."""
    megabytes: int = 64
    """After so much of the log."""


class Snapshotting:
    """Counts what is sealed and takes a snapshot when it is time, one after the other, on a thread of its own."""

    _log = Logger()

    def __init__(self, config: SnapshotConfig, directory: Path, epoch: int, without: Collection[str]) -> None:
        """``epoch`` is the newest of the log in ``directory``, ``without`` are relations that only grow."""
        self._config = config
        self._epochs = EpochLogReader(directory / "epochs")
        self._snapshots = SnapshotDirectory(directory / "snapshots")
        self._without = tuple(without)
        taken = self._snapshots.newest(epoch)
        self._since = epoch - (taken.footer.to_epoch if taken else 0)
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def sealed(self, footer: Footer) -> None:
        """There is a new epoch; called by one thread at a time, never blocks."""
        self._since += 1
        self._bytes += self._epochs.path(footer.to_epoch).stat().st_size
        limit = self._config.epochs
        is_due = self._since >= limit or self._bytes >= self._config.megabytes * 1_000_000
        if limit and is_due and not self._stopped.is_set() and not (self._thread and self._thread.is_alive()):
            self._since = self._bytes = 0
            self._thread = threading.Thread(target=self._take, args=(footer.to_epoch,), name="snapshot", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Give up a snapshot that is under way, and wait for that."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _take(self, epoch: int) -> None:
        try:
            if self._snapshots.take(self._epochs, epoch, without=self._without, stopped=self._stopped.is_set):
                self._log.debug("snapshot of the relations at epoch {epoch}", epoch=epoch)
        except Exception:  # noqa: BLE001 (the log stands without it, whatever the cause)
            self._log.failure("the snapshot of the relations at epoch {epoch} is not taken", epoch=epoch)
