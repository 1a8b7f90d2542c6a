"""The epoch log: one immutable segment per epoch, committed together with the state that belongs to it.

The commit point has three steps. `prepare` writes and syncs the segment under a hidden name. The caller's transaction
commits the operators' edits and `Prepared.record`: that is the commit. `publish` renames the segment and syncs the
directory. After a crash `recover` redoes the rename of what was committed and deletes what was not, so that a reader,
who sees published names only, never sees an epoch that could be cut again differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import EpochLogError, TornSegmentError
from runtime.epochs.segment import Footer, Segment, read_segment, write_segment

__all__ = ["CommitRecord", "EpochLog", "EpochLogReader", "Prepared"]

_SUFFIX: Final = ".segment"


class CommitRecord(msgspec.Struct, frozen=True):
    """What the caller's transaction stores of an epoch."""

    epoch: int
    """Which epoch."""
    checksum: int
    """Of its segment's footer."""


class Prepared(msgspec.Struct, frozen=True):
    """A segment that is written but not committed."""

    record: CommitRecord
    """To be stored in the transaction that commits the epoch."""
    footer: Footer
    """What the segment says of itself, without its sections."""


def _name(epoch: int) -> str:
    return f"{epoch:012d}{_SUFFIX}"


class EpochLogReader:
    """The published segments of a log; epochs are consecutive, so the newest is found by looking one further."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self._directory = directory
        self._disk = disk
        self._latest = -1

    def latest(self) -> int:
        """The newest published epoch, -1 for none. Costs one look-up per new epoch."""
        if self._latest < 0:
            self._latest = max(self._published(), default=-1)
        while self._disk.exists(self.path(self._latest + 1)):
            self._latest += 1
        return self._latest

    def path(self, epoch: int) -> Path:
        """Where an epoch's segment is, whether it exists or not."""
        return self._directory / _name(epoch)

    def read(self, epoch: int) -> Segment:
        """The segment of a published epoch; raises `EpochLogError` where there is none or it is torn."""
        try:
            segment = read_segment(self.path(epoch), self._disk)
        except FileNotFoundError:
            raise EpochLogError(f"expected epoch {epoch} in {self._directory}, newest is {self.latest()}") from None
        if segment.footer.to_epoch != epoch:
            raise TornSegmentError(f"expected epoch {epoch} at {segment.path}, was {segment.footer.to_epoch}")
        return segment

    def _published(self) -> list[int]:
        """Epochs by the names of files, ascending."""
        return [
            int(n.split(".")[0]) for n in self._disk.names(self._directory) if n[0].isdigit() and n.endswith(_SUFFIX)
        ]


class EpochLog(EpochLogReader):
    """The writing side. One owner at a time; the state store's lock keeps a second process away."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        disk.make_directory(directory)
        super().__init__(directory, disk)

    def recover(self, committed: CommitRecord | None) -> None:
        """Finish or undo what a crash left; ``committed`` is the newest record that a transaction stored."""
        newest = committed.epoch if committed else -1
        for name in self._disk.names(self._directory):
            if not (name.startswith(".") and name.endswith(_SUFFIX)):
                continue
            hidden = self._directory / name
            epoch = int(name[1:].split(".")[0])
            if committed and epoch == newest and not self._disk.exists(self.path(epoch)):
                self._expect(hidden, committed)
                self._disk.rename(hidden, self.path(epoch))
            else:
                self._disk.unlink(hidden)
        self._disk.sync_directory(self._directory)
        if self.latest() != newest:
            raise EpochLogError(
                f"expected epoch {newest}, the last one committed, as the newest in {self._directory}, "
                f"was {self.latest()}"
            )
        if committed:
            self._expect(self.path(newest), committed)

    def prepare(self, footer: Footer, sections: Mapping[str, Iterable[pa.RecordBatch]]) -> Prepared:
        """Write and sync the next epoch's segment under a hidden name."""
        if footer.to_epoch != self.latest() + 1:
            raise EpochLogError(f"expected epoch {self.latest() + 1} next in {self._directory}, was {footer.to_epoch}")
        checksum = write_segment(self._disk, self._hidden(footer.to_epoch), sections, footer)
        self._disk.sync_directory(
            self._directory
        )  # the name must be as durable as the bytes before the commit speaks of them
        return Prepared(CommitRecord(footer.to_epoch, checksum), footer)

    def publish(self, prepared: Prepared) -> None:
        """Show a committed segment to readers."""
        epoch = prepared.record.epoch
        self._disk.rename(self._hidden(epoch), self.path(epoch))
        self._disk.sync_directory(self._directory)

    def _hidden(self, epoch: int) -> Path:
        return self._directory / f".{_name(epoch)}"

    def _expect(self, path: Path, record: CommitRecord) -> None:
        segment = read_segment(path, self._disk)
        if segment.checksum != record.checksum:
            raise TornSegmentError(
                f"expected footer checksum {record.checksum:08x} at {path}, was {segment.checksum:08x}"
            )
        segment.verify()
