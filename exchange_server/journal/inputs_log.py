"""The log of inputs as it is written: the exchange's source of truth."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from exchange_server.errors import JournalError
from exchange_server.journal.disk import LOCAL_DISK, Disk, write_whole
from exchange_server.journal.segments import JOURNAL_VERSION, JournalEnd, SegmentHead, encoded_head, frame, segment_name
from exchange_server.matching.inputs import AnyInput, MarketRules

__all__ = ["FsyncPolicy", "InputsLog"]

FsyncPolicy = Literal["always", "interval", "never"]


class InputsLog:
    """Appends batches of inputs to the newest segment, each by one system call, from the journal's end on.

    `fsync`: under *always* a batch is on the disk when `append` returns; under *interval* somebody calls `sync` now and
    then, from any thread; *never* leaves it to the system. The death of the process loses nothing with any of them.
    Once something could not be written or synced, nothing more is taken: what is on the disk then is not known.
    """

    def __init__(
        self,
        directory: Path,
        head: SegmentHead,
        end: JournalEnd,
        fsync: FsyncPolicy = "interval",
        *,
        disk: Disk = LOCAL_DISK,
        sync: Callable[[int], None] | None = None,
    ) -> None:
        """``end`` is the journal's, whose torn tail is cut; ``sync`` forces a descriptor's bytes to the disk."""
        self._directory = directory
        self._head = head
        self._disk = disk
        self._sync = sync or disk.sync
        self._is_always = fsync == "always"
        self._is_never = fsync == "never"
        self._encode = msgspec.msgpack.Encoder().encode
        self._pwrite: Callable[[int, bytes | memoryview, int], int] = disk.pwrite
        self._path = end.segment.path
        self._start = end.segment.head.start
        self._position = end.position
        self._synced = 0
        self._sync_lock = threading.Lock()
        self._names = self._names_synced = 0
        self._has_failed = False
        try:
            self._fd = disk.open(end.segment.path)
            self._files = [self._fd]
            """Descriptors of segments that are not synced yet, the newest last."""
            self._cut(end)
        except OSError as error:
            raise JournalError(f"expected to open {self._path}, was {error.strerror}") from error

    @staticmethod
    def create(directory: Path, session: str, rules: MarketRules, disk: Disk = LOCAL_DISK) -> None:
        """Make a log without inputs; under a hidden name first, so that its head is never torn."""
        path = directory / segment_name(1)
        hidden = path.with_name(f".{path.name}.new")
        try:
            disk.make_directory(directory)
            descriptor = disk.open(hidden, create=True, empty=True)
            try:
                head = encoded_head(SegmentHead(JOURNAL_VERSION, session, rules, 1, 0), 0)
                write_whole(disk.pwrite, descriptor, head, 0)
                disk.sync(descriptor)
            finally:
                disk.close(descriptor)
            disk.rename(hidden, path)
            disk.sync_directory(directory)
            disk.sync_directory(directory.parent)
        except OSError as error:
            raise JournalError(f"expected to write a journal at {directory}, was {error.strerror}") from error

    def _cut(self, end: JournalEnd) -> None:
        """Remove the torn tail, and make what stays durable, since nobody knows how much of it is.

        Whole records in the tail are kept aside, for an operator to look at: what is missing before them was lost by
        the machine, and without it they are worth nothing to a market.
        """
        for path in reversed(end.torn):
            if end.torn_records:
                self._disk.rename(path, path.with_suffix(".torn"))
            else:
                self._disk.unlink(path)
        offset = end.position - self._start
        if end.torn_records:
            self._keep(offset)
        if end.torn_bytes:
            self._disk.truncate(self._fd, offset)
        for path in end.paths:
            descriptor = self._disk.open(path)
            try:
                self._disk.sync(descriptor)
            finally:
                self._disk.close(descriptor)
        self._disk.sync_directory(self._directory)
        self._synced = end.position

    def _keep(self, offset: int) -> None:
        data = self._disk.pread(self._fd, self._disk.size(self._fd) - offset, offset)
        aside = self._disk.open(self._path.with_name(f"{self._path.stem}-{offset}.torn"), create=True, empty=True)
        try:
            write_whole(self._disk.pwrite, aside, data, 0)
            self._disk.sync(aside)
        finally:
            self._disk.close(aside)

    @property
    def position(self) -> int:
        """Bytes of the journal, those of segments that were removed included."""
        return self._position

    def append(self, batch: Sequence[AnyInput]) -> None:
        """Write a batch (and sync it, under *always*); when this returns it will be found after a crash.

        Raises `JournalError`; then the batch is not part of the journal, and no other will be.
        """
        payload = self._encode(batch)
        position = self._position
        data = frame(payload, position, position - self._synced) + payload
        try:
            written = self._pwrite(self._fd, data, position - self._start)
            if written < len(data):
                write_whole(self._pwrite, self._fd, data[written:], position - self._start + written)
        except OSError as error:
            self._fail(error)
        self._position = position + len(data)
        if self._is_always:
            self.force()

    def begin_segment(self, first: int) -> None:
        """Begin a segment for the inputs from this one on; it is durable with its first batch.

        Nothing if there already is one that no batch has gone to: what began it did not come to its end.
        """
        path = self._directory / segment_name(first)
        if path == self._path:
            return
        head = msgspec.structs.replace(self._head, first=first, start=self._position)
        try:
            descriptor = self._disk.open(path, create=True, empty=True)
            self._names += 1
            self._files.append(descriptor)
            data = encoded_head(head, self._position - self._synced)
            write_whole(self._pwrite, descriptor, data, 0)
        except OSError as error:
            self._fail(error)
        self._path, self._fd, self._start, self._position = path, descriptor, head.start, head.start + len(data)

    def sync(self) -> None:
        """Force what was written to the disk, in any thread; does nothing under *never*. Raises `JournalError`."""
        if not self._is_never:
            self.force()

    def force(self) -> None:
        """The same under every policy."""
        with self._sync_lock:
            # In this order: what comes meanwhile may be synced too, but is not said to be.
            position = self._position
            if position == self._synced:
                return
            files = self._files[:]
            names = self._names
            try:
                for descriptor in files:
                    self._sync(descriptor)
                if names != self._names_synced:
                    self._disk.sync_directory(self._directory)
                    self._names_synced = names
                for descriptor in files[:-1]:
                    self._files.remove(descriptor)
                    self._disk.close(descriptor)
            except OSError as error:
                self._fail(error)
            self._synced = position

    def _fail(self, error: OSError) -> NoReturn:
        failed = JournalError(f"expected to write {self._path}, was {error.strerror}")

        def refuse(descriptor: int, data: bytes | memoryview, offset: int) -> NoReturn:
            raise error

        self._pwrite, self._has_failed = refuse, True
        raise failed from error

    def close(self) -> None:
        """Sync, unless that or a write has failed, and close; the log cannot be used afterwards."""
        if self._fd >= 0:
            try:
                if not self._has_failed:
                    self.sync()
            finally:
                for descriptor in self._files:
                    self._disk.close(descriptor)
                self._files, self._fd = [], -1
