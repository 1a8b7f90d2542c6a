"""The result log: what views changed, one durable segment per published version.

A segment covers the epochs ``(from, to]`` and holds a table per view: its columns and ``weight``. Publishing is
idempotent: a version that is already there is left as it is, which is what makes a repeated batch harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from runtime.epochs.errors import EpochLogError
from runtime.epochs.segment import Footer, Segment, read_segment, sync_directory, write_segment

__all__ = ["ResultLog"]

_SUFFIX: Final = ".result"


class ResultLog:
    """Result segments in one directory. One writer; any number of readers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)
        for hidden in directory.glob(f".*{_SUFFIX}"):
            hidden.unlink()
        self._versions = sorted(self._parse(p) for p in directory.glob(f"[0-9]*{_SUFFIX}"))
        for (_, to_epoch), (from_epoch, after) in zip(self._versions, self._versions[1:], strict=False):
            if to_epoch != from_epoch:
                raise EpochLogError(
                    f"expected a result from epoch {to_epoch} in {directory}, was ({from_epoch}, {after}]"
                )

    @classmethod
    def versions_in(cls, directory: Path) -> list[int]:
        """The versions published in a directory, ascending; nothing is changed there."""
        return sorted(cls._parse(path)[1] for path in directory.glob(f"[0-9]*{_SUFFIX}"))

    @staticmethod
    def _parse(path: Path) -> tuple[int, int]:
        from_epoch, to_epoch = path.name.removesuffix(_SUFFIX).split("-")
        return int(from_epoch), int(to_epoch)

    def latest(self) -> int:
        """The newest published version, 0 for none."""
        return self._versions[-1][1] if self._versions else 0

    def publish(
        self, from_epoch: int, to_epoch: int, changes: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer
    ) -> bool:
        """Make the changes of ``(from, to]`` durable; False, and nothing done, if that was published before."""
        if to_epoch <= self.latest():
            return False
        if from_epoch != self.latest():
            raise EpochLogError(f"expected a result from epoch {self.latest()}, was ({from_epoch}, {to_epoch}]")
        path = self._path(from_epoch, to_epoch)
        hidden = path.with_name("." + path.name)
        write_segment(hidden, changes, footer)
        hidden.rename(path)
        sync_directory(self.directory)
        self._versions.append((from_epoch, to_epoch))
        return True

    def read_all(self) -> Iterator[Segment]:
        """Every result segment in order."""
        for from_epoch, to_epoch in self._versions:
            yield read_segment(self._path(from_epoch, to_epoch))

    def _path(self, from_epoch: int, to_epoch: int) -> Path:
        return self.directory / f"{from_epoch:012d}-{to_epoch:012d}{_SUFFIX}"
