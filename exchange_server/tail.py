"""One reader of numbered records over a transport that may be slower than the market."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from deltabook.wire.prompt import prompt_write
from exchange_server.errors import DamagedStreamError

__all__ = ["CHUNK_BYTES", "Records", "Sink", "Tail"]

CHUNK_BYTES: Final = 128 * 1024
"""Size of a chunk of a gap fill: more than a transport's buffer holds, so that it asks for a pause after each."""


class Records(Protocol):
    """Numbered records behind each other, such as a `NumberedFile`."""

    @property
    def next_number(self) -> int:
        """Number of the record that will be appended next."""

    @property
    def size_bytes(self) -> int:
        """Offset at which it will begin."""

    def offset_of(self, number: int) -> int:
        """Return the offset of a record; raises `ValueError` outside 1 … `next_number`."""

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Whole records from an offset on, as many as fit into the limit."""

    def piece(self, offset: int, limit_bytes: int) -> bytes:
        """Return the bytes after an offset, at least one if there is more; they may end inside a record."""

    def rest_of_record(self, offset: int) -> bytes:
        """Return the rest of the record in which an offset lies; empty at the beginning of one."""


class Sink(Protocol):
    """The part of a transport that a tail writes to."""

    def write(self, data: bytes) -> None:
        """Send or buffer."""


class Tail:
    """Sends records from a number on: the gap from disk in chunks, then bursts as they happen.

    Nothing is queued for a reader that is slow: while its transport wants a pause, the tail only remembers where it
    is, and reads on afterwards. What waits in memory is at most one burst or chunk. A heartbeat follows
    whenever the reader has everything there is.
    """

    __slots__ = (
        "_allowance_bytes",
        "_heartbeat",
        "_lag_limit_bytes",
        "_on_damage",
        "_sink",
        "_write_now",
        "offset",
        "paused",
        "records",
        "written_s",
    )

    def __init__(
        self,
        records: Records,
        number: int,
        sink: Sink,
        heartbeat: Callable[[], bytes],
        *,
        lag_limit_bytes: int,
        on_damage: Callable[[str], None],
    ) -> None:
        """``on_damage`` is called with the reason if records cannot be read as they were written: nothing more may be
        sent then. Raises `DamagedStreamError` if the first of them cannot be found."""
        self.records = records
        self.offset = records.offset_of(number)
        self.paused = False
        self.written_s = 0.0
        """Time at which the transport last accepted bytes (the server's monotonic seconds)."""
        self._sink = sink
        self._write_now = prompt_write(sink)
        self._heartbeat = heartbeat
        self._lag_limit_bytes = lag_limit_bytes
        self._on_damage = on_damage
        self._allowance_bytes = self.lag_bytes + lag_limit_bytes

    @property
    def lag_bytes(self) -> int:
        """Bytes that exist and that the transport has not taken yet."""
        return self.records.size_bytes - self.offset

    @property
    def too_slow(self) -> bool:
        """The reader has fallen further behind than the limit since it was last this close."""
        return self.lag_bytes > self._allowance_bytes

    def burst(self, start: int, data: bytes, now_s: float) -> None:
        """Hand over what was just appended (with its heartbeat), shared by all readers; `start` is where it begins."""
        if self.paused:
            return
        if self.offset != start:
            self.pump(now_s)
            return
        self.offset = self.records.size_bytes
        self.written_s = now_s
        self._write_now(data)

    def pump(self, now_s: float) -> None:
        """Read on until the transport wants a pause or everything is sent."""
        while not self.paused and self.lag_bytes:
            try:
                chunk = self.records.piece(self.offset, CHUNK_BYTES)
            except DamagedStreamError as error:
                self._on_damage(str(error))
                return
            if not chunk:  # a file that lost its end: a reader that waits for it is cut for its lag, and nothing hangs
                return
            self.offset += len(chunk)
            self.written_s = now_s
            # Within the allowance of where it now is: a reader that catches up is not cut for where it came from.
            self._allowance_bytes = min(self._allowance_bytes, self.lag_bytes + self._lag_limit_bytes)
            self._sink.write(chunk if self.lag_bytes else chunk + self._heartbeat())

    def finish_record(self) -> None:
        """Send what is missing of a record that was begun, so that something else can be said behind it."""
        rest = self.records.rest_of_record(self.offset)
        if rest:
            self.offset += len(rest)
            self._sink.write(rest)

    def beat(self, now_s: float) -> None:
        """Send a heartbeat, if the reader has everything else."""
        if not self.paused and not self.lag_bytes:
            self.written_s = now_s
            self._sink.write(self._heartbeat())
