"""The result log: what views changed, one durable segment per published version.

A segment covers the epochs ``(from, to]`` and holds a table per view: its columns and ``weight``. Publishing is
idempotent: a version that is already there is left as it is, which is what makes a repeated batch harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import EpochLogError, TornSegmentError
from runtime.epochs.segment import Footer, Segment, read_segment, write_segment

__all__ = ["ResultLog"]

_SUFFIX: Final = ".result"


class ResultLog:
    """Result segments in one directory. One writer; any number of readers."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self.directory = directory
        self._disk = disk
        disk.make_directory(directory)
        for name in disk.names(directory):
            if name.startswith(".") and name.endswith(_SUFFIX):
                disk.unlink(directory / name)
        disk.sync_directory(directory)  # what a reader is shown from here on must outlive a crash
        self._versions = self._spans_in(directory, disk)
        for (_, to_epoch), (from_epoch, after) in zip(self._versions, self._versions[1:], strict=False):
            if to_epoch != from_epoch:
                raise EpochLogError(
                    f"expected a result from epoch {to_epoch} in {directory}, was ({from_epoch}, {after}]"
                )

    @classmethod
    def versions_in(cls, directory: Path, disk: Disk = LOCAL_DISK) -> list[int]:
        """The versions published in a directory, ascending; nothing is changed there."""
        return [to_epoch for _, to_epoch in cls._spans_in(directory, disk)]

    @staticmethod
    def _spans_in(directory: Path, disk: Disk) -> list[tuple[int, int]]:
        names = [name for name in disk.names(directory) if name[0].isdigit() and name.endswith(_SUFFIX)]
        spans = [name.removesuffix(_SUFFIX).split("-") for name in names]
        return sorted((int(from_epoch), int(to_epoch)) for from_epoch, to_epoch in spans)

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
        write_segment(self._disk, hidden, changes, footer)
        self._disk.rename(hidden, path)
        self._disk.sync_directory(self.directory)
        self._versions.append((from_epoch, to_epoch))
        return True

    def read_all(self) -> Iterator[Segment]:
        """Every result segment in order."""
        for from_epoch, to_epoch in self._versions:
            segment = read_segment(self._path(from_epoch, to_epoch), self._disk)
            found = segment.footer.from_epoch, segment.footer.to_epoch
            if found != (from_epoch, to_epoch):
                raise TornSegmentError(f"expected ({from_epoch}, {to_epoch}] at {segment.path}, was {found}")
            segment.verify()
            yield segment

    def _path(self, from_epoch: int, to_epoch: int) -> Path:
        return self.directory / f"{from_epoch:012d}-{to_epoch:012d}{_SUFFIX}"
