"""A file as a source: read in large buffers on a thread of its own, since reading files may block."""

from __future__ import annotations

import gzip
from pathlib import Path
from threading import Condition, Thread
from typing import BinaryIO, Final

from runtime.formats import RawBuffer
from runtime.sources.base import BufferSink, Position, Source
from runtime.sources.errors import SourceStateError

__all__ = ["FileSource"]

BUFFER_BYTES: Final = 1 << 18


class FileSource(Source):
    """Reads a file, plain or gzip by its suffix ``.gz``, from a byte offset to its end.

    Offsets of a compressed file count its uncompressed bytes. The file is taken as it is when its end is reached: one
    that grows is not followed. At most one buffer is held while the sink refuses.
    """

    def __init__(self, path: Path, origin_id: int, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        if buffer_bytes < 1:
            raise ValueError(f"expected buffers of at least 1 byte, was {buffer_bytes}")
        self._path = path
        self._origin_id = origin_id
        self._buffer_bytes = buffer_bytes
        self._condition = Condition()
        self._resumed = 0
        self._closed = False
        self._thread: Thread | None = None

    def open(self, sink: BufferSink, position: Position) -> None:
        """Start the thread; what goes wrong with the file is a failure that the sink hears."""
        with self._condition:
            if self._thread is not None or self._closed:
                raise SourceStateError(f"expected a source that was never opened, was origin {self._origin_id} again")
            name = f"file-source-{self._origin_id}"
            self._thread = Thread(target=self._run, args=(sink, position.offset), name=name, daemon=True)
            self._thread.start()

    def resume(self) -> None:
        """Wake the thread if it waits, or keep it from waiting for a room that is already there."""
        with self._condition:
            self._resumed += 1
            self._condition.notify_all()

    def close(self) -> None:
        """Stop the thread; it ends after the call to the sink that may be under way."""
        with self._condition:
            self._closed = True
            self._resumed += 1
            self._condition.notify_all()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread to end; whether it has."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _run(self, sink: BufferSink, offset: int) -> None:
        try:
            with self._open_file() as file:
                self._skip(file, offset)
                if not self._read(file, sink, offset):
                    return
        except (OSError, EOFError) as error:
            if not self._closed:
                sink.failed(self._origin_id, f"expected a readable file, was {self._path}: {error}")
            return
        sink.end_of_stream(self._origin_id)

    def _open_file(self) -> BinaryIO | gzip.GzipFile:
        if self._path.suffix == ".gz":
            return gzip.open(self._path, "rb")
        return self._path.open("rb")

    def _skip(self, file: BinaryIO | gzip.GzipFile, offset: int) -> None:
        reached = file.seek(offset)
        size = self._path.stat().st_size if self._path.suffix != ".gz" else reached
        if min(size, reached) < offset:
            raise OSError(f"expected at least {offset} bytes, was {min(size, reached)}")

    def _read(self, file: BinaryIO | gzip.GzipFile, sink: BufferSink, offset: int) -> bool:
        """Offer the file's buffers one after another; False when the source was closed meanwhile."""
        number = 1
        while data := file.read(self._buffer_bytes):
            if not self._offer(sink, RawBuffer(self._origin_id, number, data, offset)):
                return False
            number += 1
            offset += len(data)
        return not self._closed

    def _offer(self, sink: BufferSink, raw: RawBuffer) -> bool:
        """Offer until taken; False when the source was closed."""
        while not self._closed:
            seen = self._resumed
            if sink.offer(raw):
                return True
            with self._condition:
                while self._resumed == seen:
                    self._condition.wait()
        return False
