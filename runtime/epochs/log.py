"""Epoch log: one immutable segment for each epoch, committed together with the state that belongs to it.

The commit point has three steps. `prepare` writes and syncs the segment under a hidden name. The caller's transaction
commits the operators' edits and `Prepared.record`: that is the commit. `publish` renames the segment. After a crash
`recover` redoes the rename of a committed segment, and deletes an uncommitted segment. Readers see only published
names, so that they never see an epoch that may be prepared again with other contents.

`publish` does not sync the directory. A power loss may then bring back the hidden name of the newest committed epoch,
as if the process had crashed right after the transaction; `recover` renames the file again. There is never more than
one such name: `prepare` of the next epoch syncs the directory before its own epoch can be committed.

The beginning of a log may have been retired (`runtime.epochs.retention`). A file, the *mark*, then contains the first
epoch that remains. If the control record of a retired epoch is still needed, it is in a file of its own.
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
"""Name of the mark, the file with the first epoch that remains."""
PROGRAMS: Final = "programs"
"""Directory of control records whose epochs are retired."""
_SUFFIX: Final = ".segment"
_PROGRAM_SUFFIX: Final = ".program"


class CommitRecord(msgspec.Struct, frozen=True):
    """Record of an epoch that the caller's transaction stores."""

    epoch: int
    """Number of the epoch."""
    checksum: int
    """Checksum of its segment's footer."""


class Prepared(msgspec.Struct, frozen=True):
    """Segment that is written but not committed."""

    record: CommitRecord
    """Record to store in the transaction that commits the epoch."""
    footer: Footer
    """Footer of the segment, without its sections."""


def _name(epoch: int) -> str:
    return f"{epoch:012d}{_SUFFIX}"


def program_name(epoch: int) -> str:
    """Return the name of the file in `PROGRAMS` that keeps the control record of an epoch."""
    return f"{epoch:012d}{_PROGRAM_SUFFIX}"


class EpochLogReader:
    """Reader of a log's published segments. Epochs are consecutive, so a newer one is found under the next number.

    The only state of a reader is the newest epoch that it has seen. A reader has one owner at a time, but any thread
    may call `latest`. A log may have any number of readers.
    """

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self.directory = directory
        self.disk = disk
        self._latest = -1

    # --- epochs ------------------------------------------------------------------------------------------------------

    def first(self) -> int:
        """Return the first epoch that remains, 0 if none was retired; raise `TornSegmentError` for a torn mark."""
        try:
            footer = read_segment(self.directory / FIRST, self.disk).footer
        except FileNotFoundError:
            return 0
        return footer.to_epoch

    def latest(self) -> int:
        """Return the newest published epoch, -1 for none. The call costs one look-up for each new epoch, and one more.

        Any thread may call it: the stored number is always an epoch that exists.
        """
        # If the attribute were incremented, two threads that see the same epoch would count it twice, and the writer
        # would leave a number out.
        latest = self._latest
        if latest < 0:
            latest = max(self.published(), default=-1)
        while self.disk.exists(self.path(latest + 1)):
            latest += 1
        self._latest = latest
        return latest

    def read(self, epoch: int) -> Segment:
        """Return the segment of a published epoch; raise `EpochLogError` if there is none or it is torn."""
        try:
            segment = read_segment(self.path(epoch), self.disk)
        except FileNotFoundError:
            first, newest = self.first(), self.latest()
            where = f"first is {first} (earlier ones are retired)" if epoch < first else f"newest is {newest}"
            raise EpochLogError(f"expected epoch {epoch} in {self.directory}, {where}") from None
        return _of_epoch(segment, epoch)

    def begun_ns(self) -> int:
        """Return the time at which the log was begun, in nanoseconds since the UTC epoch; 0 before its first epoch."""
        footer = self._kept_footer(0) if self.latest() >= 0 else None
        return footer.time_ns if footer else 0

    def identity(self) -> str:
        """Return an identifier of the log, which differs from that of another log with the same epochs."""
        return f"{self.begun_ns():x}"

    # --- control records: the view program from an epoch on ----------------------------------------------------------

    def control(self, epoch: int) -> bytes:
        """Return the control record of an epoch; empty if it has none, or if the epoch is retired and its record was
        not kept.

        Raise `EpochLogError` for an epoch that is not published yet.
        """
        footer = self._kept_footer(epoch)
        return footer.control if footer else b""

    def control_before(self, epoch: int) -> bytes:
        """Return the newest control record up to an epoch; empty if none remains.

        The call reads every epoch down to that of the record.
        """
        first = self.first()
        for number in range(epoch, first - 1, -1):
            if control := self.control(number):
                return control
        kept = [number for number in self.programs() if number <= min(epoch, first)]
        return self.control(kept[-1]) if kept else b""

    def controls(self, begin: int, end: int) -> list[int]:
        """Return the epochs from ``begin`` to ``end``, both included, whose control records remain, ascending.

        An epoch may be retired during the call; its control record is then included if it is still needed.
        """
        remaining = range(max(begin, self.first()), end + 1)
        # The files are listed after the first epoch was read: an epoch that is retired from now on is in ``remaining``.
        kept = [epoch for epoch in self.programs() if begin <= epoch <= end]
        return sorted({*kept, *(epoch for epoch in remaining if self.control(epoch))})

    def _kept_footer(self, epoch: int) -> Footer | None:
        """Return the footer of an epoch's segment, or of its kept control record; None if neither exists."""
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

    # --- files -------------------------------------------------------------------------------------------------------

    def path(self, epoch: int) -> Path:
        """Return the path of an epoch's segment, whether it exists or not."""
        return self.directory / _name(epoch)

    def hidden(self, epoch: int) -> Path:
        """Return the path of an epoch's segment until it is published."""
        return self.directory / f".{_name(epoch)}"

    def published(self) -> list[int]:
        """Return the epochs whose segments exist, ascending, including leftovers of retired epochs."""
        return self._numbered(self.directory, _SUFFIX)

    def leftovers(self) -> list[int]:
        """Return the retired epochs whose segments still exist, ascending."""
        first = self.first()
        return [epoch for epoch in self.published() if epoch < first]

    def programs(self) -> list[int]:
        """Return the epochs whose control records are kept in files of their own, ascending."""
        return self._numbered(self.directory / PROGRAMS, _PROGRAM_SUFFIX)

    def _numbered(self, directory: Path, suffix: str) -> list[int]:
        names = [name for name in self.disk.names(directory) if name[0].isdigit() and name.endswith(suffix)]
        return [int(name.removesuffix(suffix)) for name in names]


def _of_epoch(segment: Segment, epoch: int) -> Segment:
    if segment.footer.to_epoch != epoch:
        raise TornSegmentError(f"expected epoch {epoch} at {segment.path}, was {segment.footer.to_epoch}")
    return segment


class EpochLog(EpochLogReader):
    """Writer of a log. A log has one owner at a time; the state store's lock excludes a second process.

    Call `recover` first, then `prepare` and `publish` for each epoch, with the transaction between them.

    >>> from tempfile import TemporaryDirectory
    >>> directory = TemporaryDirectory()
    >>> log = EpochLog(Path(directory.name))
    >>> log.recover(None)
    >>> rows = pa.record_batch({"price": [100, 101]})
    >>> prepared = log.prepare(Footer(from_epoch=0, to_epoch=0), {"bids": [rows]})
    >>> log.latest()  # written, but not committed
    -1
    >>> log.publish(prepared)  # the transaction has stored prepared.record
    >>> EpochLogReader(log.directory).read(0).rows("bids").column("price").to_pylist()
    [100, 101]
    >>> directory.cleanup()
    """

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        disk.make_directory(directory)
        super().__init__(directory, disk)
        self._checksum: int | None = None  # checksum of the newest epoch's footer

    def recover(self, committed: CommitRecord | None) -> None:
        """Finish or undo an operation that a crash interrupted; ``committed`` is the newest stored commit record.

        Only the newest segment and the names of the others are read. Raise `MissingSegmentError` if an epoch is missing
        or the newest one was not committed, `TornSegmentError` if the newest segment is damaged.
        """
        self._settle_hidden(committed)
        self._expect_newest(committed)
        if committed:
            self._expect_committed(self.path(committed.epoch), committed)
            self._checksum = committed.checksum
        self._expect_no_gap()

    def prepare(self, footer: Footer, sections: Mapping[str, Iterable[pa.RecordBatch]]) -> Prepared:
        """Write and sync the next epoch's segment under a hidden name.

        ``sections`` are batches by name of the relation or view; a section without any is left out. Raise
        `EpochLogError` if ``footer.to_epoch`` is not the epoch after the latest, and `OSError` if the disk fails. After
        an `OSError`, or if the transaction fails, the epoch may be prepared again: the hidden file is replaced.
        """
        if footer.to_epoch != self.latest() + 1:
            raise EpochLogError(f"expected epoch {self.latest() + 1} next in {self.directory}, was {footer.to_epoch}")
        footer = msgspec.structs.replace(footer, follows=self._checksum)
        checksum = write_segment(self.disk, self.hidden(footer.to_epoch), sections, footer)
        # The hidden name must be durable before the commit refers to the file. The published name of the previous epoch
        # must be durable too, because `recover` redoes only the rename of the newest epoch.
        self.disk.sync_directory(self.directory)
        return Prepared(CommitRecord(footer.to_epoch, checksum), footer)

    def publish(self, prepared: Prepared) -> None:
        """Make a committed segment visible to readers.

        Raises `OSError` if the disk fails; `recover` then publishes the epoch.
        """
        epoch = prepared.record.epoch
        self.disk.rename(self.hidden(epoch), self.path(epoch))
        self._checksum = prepared.record.checksum

    def _settle_hidden(self, committed: CommitRecord | None) -> None:
        """Publish the hidden segment of the committed epoch unless it is published; delete other hidden segments."""
        for name in self.disk.names(self.directory):
            if not (name.startswith(".") and name.endswith(_SUFFIX)):
                continue
            hidden = self.directory / name
            epoch = int(name[1:].split(".")[0])
            if committed and epoch == committed.epoch and not self.disk.exists(self.path(epoch)):
                self._expect_committed(hidden, committed)
                self.disk.rename(hidden, self.path(epoch))
            else:
                self.disk.unlink(hidden)
        self.disk.sync_directory(self.directory)

    def _expect_newest(self, committed: CommitRecord | None) -> None:
        """Raise `MissingSegmentError` unless the newest segment is that of the committed epoch."""
        newest = committed.epoch if committed else -1
        if self.latest() == newest:
            return
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

    def _expect_committed(self, path: Path, record: CommitRecord) -> None:
        """Raise `TornSegmentError` unless a file is the segment of the record, and all of it is whole."""
        segment = read_segment(path, self.disk)
        if segment.checksum != record.checksum:
            raise TornSegmentError(
                f"expected footer checksum {record.checksum:08x} at {path}, was {segment.checksum:08x}"
            )
        segment.verify()

    def _expect_no_gap(self) -> None:
        """Raise `MissingSegmentError` unless the epochs that remain are consecutive."""
        first = self.first()
        remaining = [epoch for epoch in self.published() if epoch >= first]
        for expected, actual in enumerate(remaining, first):
            if actual != expected:
                raise MissingSegmentError(
                    f"expected epoch {expected} in {self.directory}, the next one there is {actual}"
                )
