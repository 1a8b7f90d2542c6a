"""File source: reads a file in large buffers on a thread of its own, because reading a file may block."""

from __future__ import annotations

from pathlib import Path
from threading import Condition, Thread
from typing import BinaryIO, Final, Literal

import msgspec

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec
from runtime.formats.errors import CodecError
from runtime.sources.base import BufferSink, Position, Source, SourceStateError

__all__ = ["FileSource", "codec_by_suffix"]

BUFFER_BYTES: Final = 1 << 18
"""Size in bytes of a buffer of a plain file."""
_COMPRESSED_BYTES: Final = 1 << 16  # a compressed buffer of text decodes to about ten times as many bytes
_LENGTH_BYTES: Final = 4
_SUFFIXES: Final[dict[str, Literal["gzip", "zstd", "lz4"]]] = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}


def codec_by_suffix(path: Path) -> Codec | None:
    """Return the codec that a file name implies: ``.gz``, ``.zst`` and ``.lz4`` are streams compressed as a whole."""
    name = _SUFFIXES.get(path.suffix.lower())
    return Codec(name) if name else None


class FileSource(Source):
    """Reader of a file from a byte offset to its end. The file is plain, compressed as a whole, or made of frames.

    Offsets in a compressed file count decoded bytes. A file that is compressed as a whole is read from its beginning,
    and the decoder skips the bytes before the offset. If the codec encodes single buffers, the file is a sequence of
    frames, each preceded by its compressed length and its decoded length (little-endian integers of 4 bytes). Each
    frame becomes a buffer. The formatter decodes the buffers, see `codec_at`.

    Bytes that are appended to the file after its end has been reached are not read. While the sink refuses buffers, the
    source holds at most one buffer.
    """

    def __init__(
        self, path: Path, origin_id: int, *, buffer_bytes: int = BUFFER_BYTES, codec: Codec | None = None
    ) -> None:
        """Create a source that is not open; without ``codec``, the suffix of the path determines the codec."""
        if buffer_bytes < 1:
            raise ValueError(f"expected buffers of at least 1 byte, was {buffer_bytes}")
        self._path = path
        self._origin_id = origin_id
        codec = codec or codec_by_suffix(path)
        if codec is not None and not codec.is_sequential:
            codec = msgspec.structs.replace(codec, is_sized=True)
        self._codec = codec
        self._buffer_bytes = min(buffer_bytes, _COMPRESSED_BYTES) if codec is not None else buffer_bytes
        self._condition = Condition()
        self._resumed = 0
        self._closed = False
        self._thread: Thread | None = None

    def codec_at(self, position: Position) -> Codec | None:
        """Return the codec, which skips the bytes before the position; see `Source`."""
        if self._codec is None or not self._codec.is_sequential:
            return self._codec
        return msgspec.structs.replace(self._codec, skip_bytes=position.offset)

    def open(self, sink: BufferSink, position: Position) -> None:
        """Start the thread; an error of the file is reported to the sink as a failure."""
        with self._condition:
            if self._thread is not None or self._closed:
                raise SourceStateError(f"expected a source that was never opened, was origin {self._origin_id} again")
            name = f"file-source-{self._origin_id}"
            self._thread = Thread(target=self._run, args=(sink, position.offset), name=name, daemon=True)
            self._thread.start()

    def resume(self) -> None:
        """Wake the thread if it waits; if it is only about to wait, the wait is skipped."""
        with self._condition:
            self._resumed += 1
            self._condition.notify_all()

    def close(self) -> None:
        """Stop the thread. If the thread is calling the sink, it ends after this call."""
        with self._condition:
            self._closed = True
            self._resumed += 1
            self._condition.notify_all()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread to end; return True if it has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _run(self, sink: BufferSink, offset: int) -> None:
        try:
            with self._path.open("rb") as file:
                if self._codec is None:
                    self._skip(file, offset)
                    self._read(file, sink, offset)
                elif self._codec.is_sequential:
                    self._read(file, sink, -1)
                else:
                    self._read_frames(file, sink, offset, self._codec)
        except (OSError, CodecError) as error:
            if not self._closed:
                sink.failed(self._origin_id, f"expected a readable file, was {self._path}: {error}")
            return
        if not self._closed:
            sink.end_of_stream(self._origin_id)

    def _skip(self, file: BinaryIO, offset: int) -> None:
        size = self._path.stat().st_size
        if size < offset:
            raise OSError(f"expected at least {offset} bytes, was {size}")
        file.seek(offset)

    def _read(self, file: BinaryIO, sink: BufferSink, offset: int) -> None:
        """Offer the file's buffers one after another; ``offset`` is -1 if the file is compressed."""
        number = 1
        while data := file.read(self._buffer_bytes):
            if not self._offer(sink, RawBuffer(self._origin_id, number, data, offset)):
                return
            number += 1
            if offset >= 0:
                offset += len(data)

    def _read_frames(self, file: BinaryIO, sink: BufferSink, offset: int, codec: Codec) -> None:
        """Offer frames; the frame that contains the offset is cut and compressed again."""
        number, place = 1, 0
        most_bytes = 2 * codec.limit_bytes  # this only bounds a read; the decoder applies the codec's limit
        while head := file.read(2 * _LENGTH_BYTES):
            if len(head) < 2 * _LENGTH_BYTES:
                raise CodecError(
                    f"expected the {2 * _LENGTH_BYTES} bytes of a frame's lengths, was {len(head)} at the end"
                )
            length = int.from_bytes(head[:_LENGTH_BYTES], "little")
            size = int.from_bytes(head[_LENGTH_BYTES:], "little")
            if max(length, size) > most_bytes:
                raise CodecError(
                    f"expected frames of at most {most_bytes} bytes, was a length of {max(length, size)} "
                    f"before byte {file.tell()}"
                )
            data = head[_LENGTH_BYTES:] + file.read(length)
            if len(data) < _LENGTH_BYTES + length:
                raise CodecError(
                    f"expected a frame of {length} bytes, was the end of the file after {len(data) - _LENGTH_BYTES}"
                )
            if place + size <= offset:
                place += size
                continue
            if place < offset:
                rest = codec.decode_buffer(data)[offset - place :]
                data, place, size = codec.encode_buffer(rest), offset, len(rest)
            if not self._offer(sink, RawBuffer(self._origin_id, number, data, place)):
                return
            number += 1
            place += size
        if place < offset:
            raise OSError(f"expected at least {offset} bytes, was {place}")

    def _offer(self, sink: BufferSink, raw: RawBuffer) -> bool:
        """Offer a buffer until it is accepted; return False if the source was closed."""
        while not self._closed:
            seen = self._resumed
            if sink.offer(raw):
                return True
            with self._condition:
                while self._resumed == seen:
                    self._condition.wait()
        return False
