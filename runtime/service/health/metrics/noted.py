"""Counters of events that a scrape cannot sample: epochs, batches of Spark, and waits for the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from prometheus_client.metrics_core import Metric

from deltabook.wire.durations import Durations
from deltabook.wire.metrics import counter, gauge, histogram, volume
from runtime.epochs import Footer, LocalDisk

__all__ = ["Noted"]

_PREFIX: Final = "deltabook_runtime"


class _TimedDisk(LocalDisk):
    """Local disk that records the duration of each durable write."""

    def __init__(self, durations: Durations, now_s: Callable[[], float]) -> None:
        self._durations, self._now_s = durations, now_s

    def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
        begun_s = self._now_s()
        super().write(path, pieces)
        self._durations.add(self._now_s() - begun_s)

    def append(self, path: Path, data: bytes) -> None:
        begun_s = self._now_s()
        super().append(path, data)
        self._durations.add(self._now_s() - begun_s)

    def sync_directory(self, path: Path) -> None:
        begun_s = self._now_s()
        super().sync_directory(path)
        self._durations.add(self._now_s() - begun_s)


class Noted:
    """Counters, each written by either the thread that seals epochs or Spark's, and read by the reactor's thread."""

    def __init__(
        self, directory: Path, limit_bytes: int, now_ns: Callable[[], int], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Start at 0; ``directory`` is the run directory, and ``limit_bytes`` the size at which inputs are paused."""
        self._directory, self._limit_bytes, self._now_ns = directory, limit_bytes, now_ns
        self._syncs, self._batches = Durations(), Durations()
        self._batch_epochs = 0
        self._sealed_ns = now_ns()
        self.disk = _TimedDisk(self._syncs, now_s)
        """Disk to which epochs are written."""

    def sealed(self, footer: Footer) -> None:
        """Record a new epoch."""
        self._sealed_ns = footer.time_ns

    def published(self, epochs: int, seconds: float) -> None:
        """Record a batch of Spark: the number of its epochs, and its duration from the first task until its results."""
        self._batch_epochs += epochs
        self._batches.add(seconds)

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics."""
        age_s = max(0.0, (self._now_ns() - self._sealed_ns) / 1e9)
        yield gauge(
            f"{_PREFIX}_epoch_age_seconds", "Time since the newest epoch was sealed, or since the start.", age_s
        )
        what = "Time that a write of an epoch took until it was durable: segments, dead letters, names."
        yield histogram(f"{_PREFIX}_fsync_seconds", what, self._syncs)
        what = "Time that a batch of the Spark lane took, from its first task until its results were durable."
        yield histogram(f"{_PREFIX}_spark_batch_seconds", what, self._batches)
        yield counter(f"{_PREFIX}_spark_batch_epochs", "Epochs in batches of the Spark lane.", self._batch_epochs)
        what = "Size of the run directory at which reading is paused."
        yield gauge(f"{_PREFIX}_disk_limit_bytes", what, self._limit_bytes)
        yield from volume(_PREFIX, self._directory)
