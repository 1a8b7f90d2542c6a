"""Published messages, kept: one stream for each form of the feed, and one for each account."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from exchange_server.errors import JournalError
from exchange_server.journal.disk import LOCAL_DISK, Disk
from exchange_server.journal.numbered_file import LineFile, NumberedFile, PacketFile, Position

__all__ = ["PRIVATE", "Stream", "Streams", "feed_name", "private_name"]

PRIVATE: Final = "private"
"""Directory of the accounts' streams."""
_TEXT: Final = "text"
_OPEN_FILES: Final = 256
"""Descriptors of streams that are open at once."""


def feed_name(form: str) -> str:
    """File name of a form of the feed."""
    return "feed.lines" if form == _TEXT else f"feed.{form}"


def private_name(account: str, protocol: str) -> str:
    """File name of an account's stream."""
    return f"{PRIVATE}/{quote(account, safe=':')}.{'lines' if protocol == _TEXT else 'packets'}"


class Stream:
    """One sequence of messages: where all of them are, and the listeners for each burst that is kept.

    A listener may write or collect, and must not ask the exchange for anything meanwhile.
    """

    __slots__ = ("on_append", "records")

    def __init__(self, records: NumberedFile) -> None:
        self.records = records
        """All messages."""
        self.on_append: list[Callable[[bytes], None]] = []
        """Called with the bytes of each burst, behind which `records` stands then."""

    def append(self, data: bytes, count: int) -> None:
        """Keep `count` messages, then tell of them. Raises `JournalError`."""
        self.records.append(data, count)
        for listener in self.on_append:
            listener(data)


class Streams:
    """The streams of a journal's directory, by the names of their files.

    They are opened where a snapshot has left them, or anew; a private stream when its account first has something to
    hear, with only so many descriptors open at once.
    """

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK, *, most_open: int = _OPEN_FILES) -> None:
        self._directory = directory
        self._most_open = most_open
        self._disk = disk
        self._positions: Mapping[str, Position] = {}
        self._streams: dict[str, Stream] = {}
        self._open: deque[NumberedFile] = deque()

    def missing(self, positions: Mapping[str, Position]) -> str:
        """Why the files are less than they were at these positions; empty if they are not."""
        for name, position in positions.items():
            path = self._directory / name
            try:
                descriptor = self._disk.open(path, read_only=True)
                size = self._disk.size(descriptor)
                self._disk.close(descriptor)
            except FileNotFoundError:
                size = 0
            except OSError as error:
                return f"expected to read {path}, was {error.strerror}"
            if size < position.size_bytes:
                return f"expected {position.size_bytes} bytes or more in {path}, were {size}"
        return ""

    def begin(self, positions: Mapping[str, Position]) -> None:
        """Go on from these positions: files are cut to them, and those that have none are removed."""
        self._positions = positions
        try:
            self._disk.make_directory(self._directory / PRIVATE)
            for name in self._disk.names(self._directory / PRIVATE):
                if f"{PRIVATE}/{name}" not in positions:
                    self._disk.unlink(self._directory / PRIVATE / name)
        except OSError as error:
            raise JournalError(f"expected to write in {self._directory}, was {error.strerror}") from error
        for name in positions:
            if name.startswith(PRIVATE):
                self.get(name)

    def get(self, name: str) -> Stream:
        """A stream, which is begun if it is not there yet."""
        stream = self._streams.get(name)
        if stream is None:
            kind = LineFile if name.endswith(".lines") else PacketFile
            position = self._positions.get(name)
            stream = Stream(kind(self._directory / name, position, disk=self._disk, on_open=self._opened))
            self._streams[name] = stream
        return stream

    def _opened(self, records: NumberedFile) -> None:
        """A file has a descriptor; the one that has had its own for longest gives it back, if there are too many."""
        self._open.append(records)
        if len(self._open) > self._most_open:
            self._open.popleft().release()

    def positions(self) -> dict[str, Position]:
        """Return the position of each stream."""
        return {name: stream.records.position() for name, stream in self._streams.items()}

    def __len__(self) -> int:
        return len(self._streams)

    def sync(self, since: Mapping[str, Position], upto: Mapping[str, Position]) -> None:
        """Make durable what was appended between two positions, in any thread. Raises `JournalError`."""
        for name, position in upto.items():
            before = since.get(name)
            if before is None or before.size_bytes < position.size_bytes:
                self._sync(self._directory / name)
        try:
            self._disk.sync_directory(self._directory / PRIVATE)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise JournalError(f"expected to sync {self._directory}, was {error.strerror}") from error

    def _sync(self, path: Path) -> None:
        try:
            # A descriptor of its own: the stream's may be closed meanwhile.
            descriptor = self._disk.open(path)
            try:
                self._disk.sync(descriptor)
            finally:
                self._disk.close(descriptor)
        except OSError as error:
            raise JournalError(f"expected to sync {path}, was {error.strerror}") from error

    def close(self) -> None:
        """Close all of them."""
        for stream in self._streams.values():
            stream.records.close()
