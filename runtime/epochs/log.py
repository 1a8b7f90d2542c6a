"""The epoch log: one immutable segment per epoch, committed together with the state that belongs to it.

The commit point has three steps. `prepare` writes and syncs the segment under a hidden name. The caller's transaction
commits the operators' edits and `Prepared.record`: that is the commit. `publish` renames the segment. After a crash
`recover` redoes the rename of what was committed and deletes what was not, so that a reader, who sees published names
only, never sees an epoch that could be cut again differently.

`publish` does not sync the directory. A power loss may then bring back the hidden name of the newest committed epoch,
which is what a crash right behind the transaction leaves as well, and `recover` renames it. There is never more than
one such name: `prepare` of the next epoch syncs the directory before its own epoch can be committed.

A log may have lost its beginning on purpose (`runtime.epochs.retention`): then a mark says which epoch is the first,
and the control records that still matter stand in files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import EpochLogError, MissingSegmentError, TornSegmentError
from runtime.epochs.segment import Footer, Segment, read_segment, write_segment

__all__ = ["FIRST", "PROGRAMS", "CommitRecord", "EpochLog", "EpochLogReader", "Prepared", "program_name"]

FIRST: Final = "first"
"""The file that says which epoch is the first that is left."""
PROGRAMS: Final = "programs"
"""The directory of control records whose epochs are gone."""
_SUFFIX: Final = ".segment"
_PROGRAM_SUFFIX: Final = ".program"


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


def program_name(epoch: int) -> str:
    """The file in `PROGRAMS` that keeps the control record of an epoch."""
    return f"{epoch:012d}{_PROGRAM_SUFFIX}"


class EpochLogReader:
    """The published segments of a log; epochs are consecutive, so the newest is found by looking one further.

    Holds no more than the newest epoch it has seen; one owner at a time, any number of readers.
    """

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self.directory = directory
        self.disk = disk
        self._latest = -1

    def first(self) -> int:
        """The first epoch that is left, 0 where none was retired; raises `TornSegmentError`."""
        try:
            footer = read_segment(self.directory / FIRST, self.disk).footer
        except FileNotFoundError:
            return 0
        return footer.to_epoch

    def latest(self) -> int:
        """The newest published epoch, -1 for none. Costs one look-up per new epoch.

        Any thread may ask: what is remembered is always an epoch that was found. (Counted up in the attribute itself,
        two threads that find the same epoch would count it twice, and the writer would leave a number out.)
        """
        latest = self._latest
        if latest < 0:
            latest = max(self.published(), default=-1)
        while self.disk.exists(self.path(latest + 1)):
            latest += 1
        self._latest = latest
        return latest

    def path(self, epoch: int) -> Path:
        """Where an epoch's segment is, whether it exists or not."""
        return self.directory / _name(epoch)

    def hidden(self, epoch: int) -> Path:
        """Where an epoch's segment is until it is published."""
        return self.directory / f".{_name(epoch)}"

    def read(self, epoch: int) -> Segment:
        """The segment of a published epoch; raises `EpochLogError` where there is none or it is torn."""
        try:
            segment = read_segment(self.path(epoch), self.disk)
        except FileNotFoundError:
            first, newest = self.first(), self.latest()
            where = f"first is {first} (earlier ones are retired)" if epoch < first else f"newest is {newest}"
            raise EpochLogError(f"expected epoch {epoch} in {self.directory}, {where}") from None
        return _of_epoch(segment, epoch)

    def control(self, epoch: int) -> bytes:
        """The control record of an epoch, empty if it has none or it is retired and one behind it is, too."""
        footer = self._kept(epoch)
        return footer.control if footer else b""

    def begun_ns(self) -> int:
        """When the log was begun, nanoseconds since the UTC epoch, which tells it from another one; 0 before that."""
        footer = self._kept(0) if self.latest() >= 0 else None
        return footer.time_ns if footer else 0

    def identity(self) -> str:
        """Tells the log from any other one, in which the same numbers are other epochs."""
        return f"{self.begun_ns():x}"

    def control_before(self, epoch: int) -> bytes:
        """The newest control record up to an epoch; empty if there is none that is left.

        Costs a look at every epoch down to it.
        """
        first = self.first()
        for one in range(epoch, first - 1, -1):
            if control := self.control(one):
                return control
        kept = [one for one in self.programs() if one <= min(epoch, first)]
        return self.control(kept[-1]) if kept else b""

    def _kept(self, epoch: int) -> Footer | None:
        """What an epoch's segment says of itself, or what is kept of it; None if it is retired without that."""
        try:
            return _of_epoch(read_segment(self.path(epoch), self.disk), epoch).footer
        except FileNotFoundError:
            pass
        try:
            kept = read_segment(self.directory / PROGRAMS / program_name(epoch), self.disk)
        except FileNotFoundError:
            if epoch < self.first():
                return None
            raise EpochLogError(f"expected epoch {epoch} in {self.directory}, newest is {self.latest()}") from None
        return _of_epoch(kept, epoch).footer

    def controls(self, begin: int, end: int) -> list[int]:
        """The epochs from ``begin`` to ``end`` with a control record, ascending; of retired ones those that are kept.

        What is retired meanwhile has a control record that is kept, or one that nobody needs.
        """
        kept = [epoch for epoch in self.programs() if begin <= epoch <= end]
        left = range(max(begin, self.first()), end + 1)
        return sorted({*kept, *(epoch for epoch in left if self.control(epoch))})

    def programs(self) -> list[int]:
        """The epochs whose control records are kept in files of their own, ascending."""
        return self._numbered(self.directory / PROGRAMS, _PROGRAM_SUFFIX)

    def leftovers(self) -> list[int]:
        """Epochs that are retired and whose segments are still there, ascending."""
        first = self.first()
        return [epoch for epoch in self.published() if epoch < first]

    def published(self) -> list[int]:
        """The epochs whose segments are there, ascending; those that are retired and left over too."""
        return self._numbered(self.directory, _SUFFIX)

    def _numbered(self, directory: Path, suffix: str) -> list[int]:
        names = [name for name in self.disk.names(directory) if name[0].isdigit() and name.endswith(suffix)]
        return [int(name.removesuffix(suffix)) for name in names]


def _of_epoch(segment: Segment, epoch: int) -> Segment:
    if segment.footer.to_epoch != epoch:
        raise TornSegmentError(f"expected epoch {epoch} at {segment.path}, was {segment.footer.to_epoch}")
    return segment


class EpochLog(EpochLogReader):
    """The writing side. One owner at a time; the state store's lock keeps a second process away."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        disk.make_directory(directory)
        super().__init__(directory, disk)
        self._checksum: int | None = None  # of the newest epoch's footer

    def recover(self, committed: CommitRecord | None) -> None:
        """Finish or undo what a crash left; ``committed`` is the newest record that a transaction stored.

        Raises `EpochLogError` for an epoch that is missing, `TornSegmentError` for a newest one that is not whole.
        """
        newest = committed.epoch if committed else -1
        for name in self.disk.names(self.directory):
            if not (name.startswith(".") and name.endswith(_SUFFIX)):
                continue
            hidden = self.directory / name
            epoch = int(name[1:].split(".")[0])
            if committed and epoch == newest and not self.disk.exists(self.path(epoch)):
                self._expect(hidden, committed)
                self.disk.rename(hidden, self.path(epoch))
            else:
                self.disk.unlink(hidden)
        self.disk.sync_directory(self.directory)
        if self.latest() != newest:
            if not committed:
                raise MissingSegmentError(
                    f"expected no epoch in {self.directory}, as the state beside it has committed none "
                    f"(is state.db lost?), was {self.latest()}"
                )
            lost = "epochs are lost" if self.latest() < newest else "state.db or its log has lost commits"
            raise MissingSegmentError(
                f"expected epoch {newest}, the last one committed, as the newest in {self.directory}, "
                f"was {self.latest()}: {lost}"
            )
        if committed:
            self._expect(self.path(newest), committed)
            self._checksum = committed.checksum
        first = self.first()
        left = [epoch for epoch in self.published() if epoch >= first]
        for expected, found in enumerate(left, first):
            if found != expected:
                raise MissingSegmentError(
                    f"expected epoch {expected} in {self.directory}, the next one there is {found}"
                )

    def prepare(self, footer: Footer, sections: Mapping[str, Iterable[pa.RecordBatch]]) -> Prepared:
        """Write and sync the next epoch's segment under a hidden name."""
        if footer.to_epoch != self.latest() + 1:
            raise EpochLogError(f"expected epoch {self.latest() + 1} next in {self.directory}, was {footer.to_epoch}")
        footer = msgspec.structs.replace(footer, follows=self._checksum)
        checksum = write_segment(self.disk, self.hidden(footer.to_epoch), sections, footer)
        # The name must be as durable as the bytes before the commit speaks of them, and the published name of the epoch
        # before must be, as `recover` redoes the rename of the newest epoch alone.
        self.disk.sync_directory(self.directory)
        return Prepared(CommitRecord(footer.to_epoch, checksum), footer)

    def publish(self, prepared: Prepared) -> None:
        """Show a committed segment to readers."""
        epoch = prepared.record.epoch
        self.disk.rename(self.hidden(epoch), self.path(epoch))
        self._checksum = prepared.record.checksum

    def _expect(self, path: Path, record: CommitRecord) -> None:
        segment = read_segment(path, self.disk)
        if segment.checksum != record.checksum:
            raise TornSegmentError(
                f"expected footer checksum {record.checksum:08x} at {path}, was {segment.checksum:08x}"
            )
        segment.verify()
