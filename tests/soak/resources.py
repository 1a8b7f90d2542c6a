"""Resources of a runtime and its children over time: samples as CSV, and the rule that decides if a use is flat.

Reads ``/proc`` and so needs Linux.
"""

from __future__ import annotations

import csv
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import msgspec

from runtime.service.rundir.upkeep import used_bytes

__all__ = ["RULE", "USES", "WARM_S", "Growth", "ResourceSampler", "Sample", "growths", "read_samples"]

WARM_S: Final = 30.0
"""Time after a start of the runtime whose samples do not count, in seconds: Java loads its classes, and pools fill."""
_LEAST: Final = 5
_SHARE: Final = 0.1
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

USES: Final = MappingProxyType(
    {
        "runtime_rss_bytes": 32_000_000,
        "children_rss_bytes": 64_000_000,
        "runtime_descriptors": 8,
        "children_descriptors": 8,
        "runtime_threads": 4,
        "children_threads": 8,
        "disk_bytes": 8_000_000,
    }
)
"""Allowed growth of each use, which a pool, a collection of garbage or a snapshot may cause."""

RULE: Final = (
    f"A use is flat if its median over the last quarter of the run exceeds that over the third quarter by at most "
    f"{_SHARE:.0%}, or by at most the allowance of its row; samples within {WARM_S:.0f} s of a start do not count, and "
    f"with fewer than {_LEAST} samples in either quarter there is no verdict."
)
"""Rule of `growths` in words."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of the runtime's processes."""

    seconds: float
    """Seconds since the sampler began."""
    start: int
    """Number of the runtime's start, from 0."""
    age_s: float
    """Seconds since that start."""
    runtime_rss_bytes: int
    """Resident memory of the runtime's own process."""
    runtime_descriptors: int
    """Number of open descriptors of the runtime's own process."""
    runtime_threads: int
    """Number of threads of the runtime's own process."""
    children_rss_bytes: int
    """Resident memory of the runtime's descendants: Java, and the Python workers of Spark; shared pages count each
    time.
    """
    children_descriptors: int
    """Number of open descriptors of the descendants."""
    children_threads: int
    """Number of threads of the descendants."""
    disk_bytes: int
    """Size of the run directory."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a use in the second half of a run."""

    use: str
    """Key of `USES`."""
    third: float | None
    """Median over the third quarter, None without enough samples."""
    last: float | None
    """Median over the last quarter."""

    @property
    def is_flat(self) -> bool | None:
        """True if the use is flat by `RULE`; None without enough samples."""
        if self.third is None or self.last is None:
            return None
        return self.last - self.third <= max(_SHARE * self.third, USES[self.use])


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Return the growth of each use in the second half, by `RULE`."""
    end = samples[-1].seconds if samples else 0.0
    warm = [sample for sample in samples if sample.age_s >= WARM_S]
    third = [sample for sample in warm if end / 2 <= sample.seconds < 3 * end / 4]
    last = [sample for sample in warm if sample.seconds >= 3 * end / 4]
    return [Growth(use, _median(third, use), _median(last, use)) for use in USES]


def _median(samples: Sequence[Sample], use: str) -> float | None:
    if len(samples) < _LEAST:
        return None
    return float(statistics.median(getattr(sample, use) for sample in samples))


def read_samples(path: Path) -> list[Sample]:
    """Return the samples of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [msgspec.convert(row, Sample, strict=False) for row in csv.DictReader(file)]


class ResourceSampler:
    """Samples the processes of a runtime every few seconds, in a thread, into a CSV file."""

    def __init__(self, directory: Path, path: Path, *, every_s: float) -> None:
        """Write to ``path``; ``directory`` is the run directory whose size is measured."""
        self._directory, self._path, self._every_s = directory, path, every_s
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._begun = time.monotonic()
        self._process: tuple[int, int, float] | None = None
        self._starts = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def watch(self, pid: int | None) -> None:
        """Sample this process, which was just started, and its descendants from now on; None for no process."""
        with self._lock:
            self._process = None if pid is None else (pid, self._starts, time.monotonic())
            self._starts += pid is not None

    def _work(self) -> None:
        with self._path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Sample)])
            writer.writeheader()
            while not self._stop.wait(self._every_s):
                with self._lock:
                    process = self._process
                if process is None:
                    continue
                with suppress(OSError):  # the process ends just now
                    writer.writerow(asdict(self._sample(*process)))
                    file.flush()

    def _sample(self, pid: int, start: int, started: float) -> Sample:
        own = _uses(pid)
        rss = descriptors = threads = 0
        for child in _descendants(pid):
            with suppress(OSError):
                uses = _uses(child)
                rss, descriptors, threads = rss + uses[0], descriptors + uses[1], threads + uses[2]
        now = time.monotonic()
        ages = round(now - self._begun, 2), start, round(now - started, 2)
        return Sample(*ages, *own, rss, descriptors, threads, used_bytes(self._directory))


def _uses(pid: int) -> tuple[int, int, int]:
    """Return the resident bytes, descriptors and threads of a process."""
    folder = Path("/proc") / str(pid)
    pages = int((folder / "statm").read_text().split()[1])
    descriptors, threads = (sum(1 for _ in (folder / name).iterdir()) for name in ("fd", "task"))
    return pages * _PAGE_BYTES, descriptors, threads


def _descendants(pid: int) -> Iterator[int]:
    """Yield the descendants of a process."""
    for task in (Path("/proc") / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from _descendants(child)
