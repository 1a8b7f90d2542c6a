"""Published messages on disk: one stream for each form of the feed, and one for each account."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from exchange_server.errors import JournalError
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk
from exchange_server.journal.numbered_file import LineFile, NumberedFile, PacketFile, Position, damage_before

__all__ = ["PRIVATE", "MessageStream", "Streams", "feed_name", "kind_of", "private_name"]

PRIVATE: Final = "private"
"""Directory of the accounts' streams."""
_TEXT: Final = "text"
_OPEN_FILES: Final = 256
"""Largest number of open descriptors of streams."""


def feed_name(form: str) -> str:
    """Return the file name of a form of the feed."""
    return "feed.lines" if form == _TEXT else f"feed.{form}"


def private_name(account: str, protocol: str) -> str:
    """Return the file name of an account's stream."""
    return f"{PRIVATE}/{quote(account, safe=':')}.{'lines' if protocol == _TEXT else 'packets'}"


def kind_of(name: str) -> type[NumberedFile]:
    """Return the class of a stream's file, by its name."""
    return LineFile if name.endswith(".lines") else PacketFile


class MessageStream:
    """Sequence of messages: the file that contains them, and the listeners that are called with each burst of them.

    A listener may write or collect the bytes; it must not call the exchange.
    """

    __slots__ = ("on_append", "records")

    def __init__(self, records: NumberedFile) -> None:
        self.records = records
        """File with all messages."""
        self.on_append: list[Callable[[bytes], None]] = []
        """Listeners, called with the bytes of each burst after `records` has stored it."""

    def append(self, data: bytes, count: int) -> None:
        """Append `count` messages, then call the listeners. Raise `JournalError` if they cannot be written."""
        self.records.append(data, count)
        for listener in self.on_append:
            listener(data)


class Streams:
    """Streams of a journal's directory, by the names of their files.

    The streams are opened at the positions of a snapshot, or begun; a private stream begins with the first message of
    its account. At most ``most_open`` descriptors are open at once.
    """

    def __init__(self, directory: Path, disk: JournalDisk = LOCAL_DISK, *, most_open: int = _OPEN_FILES) -> None:
        self._directory = directory
        self._most_open = most_open
        self._disk = disk
        self._positions: Mapping[str, Position] = {}
        self._streams: dict[str, MessageStream] = {}
        self._open: deque[NumberedFile] = deque()
        self._is_cut = False

    def damage(self, positions: Mapping[str, Position]) -> str:
        """Return the first damage in the files before these positions, or an empty string; see `damage_before`."""
        damages = (damage_before(position, self._directory / name, self._disk) for name, position in positions.items())
        return next(filter(None, damages), "")

    def begin(self, positions: Mapping[str, Position]) -> None:
        """Continue from these positions. Bytes of the files after them are overwritten; `cut` cuts off the rest.

        Raise `JournalError` if the directory cannot be written to.
        """
        self._positions = positions
        try:
            self._disk.make_directory(self._directory / PRIVATE)
        except OSError as error:
            raise JournalError(f"expected to write in {self._directory}, was {error.strerror}") from error
        for name in positions:
            if name.startswith(PRIVATE):
                self.get(name)

    def surplus(self) -> str:
        """Return a text that names the files with more bytes than were appended since `begin`; empty without any."""
        begun = [stream.records for stream in self._streams.values()]
        unknown = [self._opened_as(name) for name in self._unknown()]
        surpluses = [(records.path, records.surplus_bytes) for records in (*begun, *unknown)]
        for records in unknown:
            records.close()
        return "; ".join(f"{surplus_bytes} bytes more in {path}" for path, surplus_bytes in surpluses if surplus_bytes)

    def _opened_as(self, name: str) -> NumberedFile:
        """Open the file of a stream at its position."""
        position, is_cut = self._positions.get(name), self._is_cut
        return kind_of(name)(self._directory / name, position, disk=self._disk, on_open=self._opened, is_cut=is_cut)

    def _unknown(self) -> list[str]:
        """Return the names of private streams that exist as files but were not begun."""
        names = (f"{PRIVATE}/{name}" for name in self._disk.names(self._directory / PRIVATE))
        return [name for name in names if name.endswith((".lines", ".packets")) and name not in self._streams]

    def cut(self) -> None:
        """Cut off bytes after the appended messages, and remove private streams that were not begun.

        Raise `JournalError` if that fails.
        """
        self._is_cut = True
        try:
            for stream in self._streams.values():
                stream.records.cut()
            for name in self._unknown():
                self._disk.unlink(self._directory / name)
        except OSError as error:
            raise JournalError(f"expected to write in {self._directory}, was {error.strerror}") from error

    def get(self, name: str) -> MessageStream:
        """Return a stream; begin it if it does not exist yet."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = MessageStream(self._opened_as(name))
        return stream

    def _opened(self, records: NumberedFile) -> None:
        """Note that a file has a descriptor; above the limit, release the one that was opened first."""
        self._open.append(records)
        if len(self._open) > self._most_open:
            self._open.popleft().release()

    def positions(self) -> dict[str, Position]:
        """Return the position of each stream."""
        return {name: stream.records.position() for name, stream in self._streams.items()}

    def __len__(self) -> int:
        return len(self._streams)

    def sync(self, since: Mapping[str, Position], upto: Mapping[str, Position]) -> None:
        """Make the messages between two positions durable, in any thread; raise `JournalError` on failure."""
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
            # A separate descriptor: the stream's own may be closed meanwhile.
            descriptor = self._disk.open(path)
            try:
                self._disk.sync(descriptor)
            finally:
                self._disk.close(descriptor)
        except OSError as error:
            raise JournalError(f"expected to sync {path}, was {error.strerror}") from error

    def close(self) -> None:
        """Close all streams."""
        for stream in self._streams.values():
            stream.records.close()
