"""Timing from the result log of a run: when each message was in a published version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.epochs import EpochLogReader, ResultLog, read_segment

__all__ = ["Version", "Versions", "covered_ns", "lags_ms", "percentile"]

Floats = npt.NDArray[np.float64]
_SUFFIX = ".result"


class Version(msgspec.Struct, frozen=True):
    """A published version of all views."""

    from_epoch: int
    """Epoch of the previous version."""
    to_epoch: int
    """Epoch of the version."""
    published_ns: int
    """Time when the version's result was renamed to its final name, in nanoseconds since the UTC epoch; file systems
    round this time to a few milliseconds.
    """
    cuts: dict[str, int]
    """Number of the last message in the version, by origin."""


class Versions:
    """The versions of a run directory, read as they appear."""

    def __init__(self, directory: Path) -> None:
        self._results = directory / "results"
        self._log = EpochLogReader(directory / "epochs")
        self.all: list[Version] = []

    def look(self) -> Version | None:
        """Read new versions; return the newest one."""
        last = self.all[-1].to_epoch if self.all else 0
        if self._results.is_dir() and any(version > last for version in ResultLog.versions_in(self._results)):
            for path in sorted(self._results.glob(f"[0-9]*{_SUFFIX}")):
                begin, end = map(int, path.name.removesuffix(_SUFFIX).split("-"))
                if end > last:
                    cuts = {name: cut.sequence for name, cut in read_segment(path).footer.cuts.items()}
                    # Renaming sets the time of the last change; the time of the last write is before the sync.
                    self.all.append(Version(begin, end, path.stat().st_ctime_ns, cuts))
        return self.all[-1] if self.all else None

    def between(self, begin: int, end: int) -> tuple[int, int, int]:
        """Return the number of epochs, messages and deltas in ``(begin, end]``."""
        messages = deltas = epochs = 0
        for epoch in range(begin + 1, end + 1):
            footer = self._log.read(epoch).footer
            epochs += 1
            messages += footer.messages
            deltas += sum(section.rows for section in footer.sections if section.name in {"bids", "asks", "trades"})
        return epochs, messages, deltas


def covered_ns(versions: Sequence[Version], last: Mapping[str, int]) -> int | None:
    """Return when the first version with each origin's messages up to `last` was published; None if there is no such
    version."""
    for version in versions:
        if all(version.cuts.get(name, 0) >= number for name, number in last.items()):
            return version.published_ns
    return None


def lags_ms(versions: Sequence[Version], origin: str, stamps: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Return for each piece the milliseconds from its sending to the first version that contains it, and its number of
    messages.

    Pieces that are in no version are left out.
    """
    ends = np.array([version.cuts.get(origin, 0) for version in versions], np.int64)
    times = np.array([version.published_ns for version in versions], np.int64)
    numbers, sent = (np.array(column, np.int64) for column in zip(*stamps, strict=True))
    place = np.searchsorted(ends, numbers)  # cuts never decrease
    there = place < len(ends)
    counts = np.diff(numbers, prepend=numbers[0] - (numbers[1] - numbers[0] if len(numbers) > 1 else 1))
    return (times[place[there]] - sent[there]) / 1e6, counts[there].astype(np.float64)


def percentile(values: Floats, counts: Floats, percent: float) -> float:
    """Return the value that ``percent`` percent of the counts do not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(counts[order])
    return float(values[order][np.searchsorted(reached, reached[-1] * percent / 100)])
