"""Opening of recorded files: decompressed and without a byte order mark.

Pipes and devices, which cannot be read more than once, are refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol, cast

from exchange_server.errors import ReplayFileError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["READ_ERRORS", "check_regular", "ends_within_a_line", "open_recorded"]

READ_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors of a file that cannot be opened or decompressed."""

_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"
_BZIP2: Final = b"BZh"
_BZIP2_BLOCK: Final = b"1AY&SY"
_PARQUET: Final = b"PAR1"
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UNREADABLE: Final = {
    b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf\x27\x1c": "a 7z archive", b"\x28\xb5\x2f\xfd": "Zstandard",
    b"Rar!": "a rar archive", b"\x04\x22\x4d\x18": "LZ4", b"\x1f\x9d": "compress's",
}  # fmt: skip
"""First bytes of the files that are refused with their format's name."""
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_CHUNK_BYTES: Final = 1 << 16


def check_regular(path: Path) -> None:
    """Raise `ReplayFileError` for a pipe, socket or device.

    A recording is read several times, but a pipe only once: the second reader would wait forever. A missing file
    is no error here, and neither is a folder.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise ReplayFileError(f"expected a regular file, which can be read more than once, was {kind}, at {path}")


def open_recorded(path: Path) -> IO[bytes]:
    """Open a recorded file for reading, decompressed if it begins like a gzip, xz or bzip2 file.

    A byte order mark of UTF-8 is skipped. Raise `ReplayFileError` for an archive, another compression, UTF-16, and a
    file that is not regular. Raise one of `READ_ERRORS` if the file cannot be opened or its beginning is damaged.
    """
    check_regular(path)
    with path.open("rb") as plain:
        start = plain.peek(10)[:10]
    for magic, what in _UNREADABLE.items():
        if start.startswith(magic):
            raise ReplayFileError(f"expected a file of its own, perhaps with gzip, xz or bzip2, was {what}, at {path}")
    file = _opened(path, start)
    try:
        start = file.peek(3)[:3]
        if start.startswith(_UTF16_MARKS):
            raise ReplayFileError(f"expected text in ASCII or UTF-8, was UTF-16, at {path}")
        if start == _UTF8_MARK:
            file.read(3)
    except BaseException:
        file.close()
        raise
    return cast("IO[bytes]", file)


def _opened(path: Path, start: bytes) -> gzip.GzipFile | io.BufferedReader:
    if start.startswith(_GZIP):
        return gzip.open(path)
    if start.startswith(_XZ):
        return io.BufferedReader(_Streams(path, lzma.LZMADecompressor), _CHUNK_BYTES)
    if start.startswith(_BZIP2) and start[4:] == _BZIP2_BLOCK:
        return io.BufferedReader(_Streams(path, bz2.BZ2Decompressor), _CHUNK_BYTES)
    return path.open("rb")


def ends_within_a_line(path: Path) -> bool:
    """Return True if a file of plain text ends without a line end; False for a compressed file.

    The last number of such a file may be cut off, and still be a number. A compressed file that is cut off cannot be
    decompressed.
    """
    with path.open("rb") as file:
        start = file.peek(10)[:10]
        if not start or start.startswith((_GZIP, _XZ, _BZIP2, _PARQUET)):
            return False
        file.seek(-1, io.SEEK_END)
        return file.read(1) not in {b"\n", b"\r"}


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Streams(io.RawIOBase):
    """Decompressed bytes of a file of one or more xz or bzip2 streams, with zero bytes between and after them.

    Other bytes after a stream are an error. `lzma.open` and `bz2.open` stop at such bytes without an error, so that a
    file whose second stream is damaged would seem to end after the first stream.
    """

    def __init__(self, path: Path, begin_stream: Callable[[], _Decompressor]) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._begin_stream = begin_stream
        self._stream = begin_stream()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer with the next bytes, and return how many there are; 0 at the end of the file."""
        view = memoryview(buffer).cast("B")
        while True:
            data = b""
            if self._stream.eof:
                data = self._next_stream()
                if not data:
                    return 0
                self._stream = self._begin_stream()
            elif self._stream.needs_input:
                data = self._file.read(_CHUNK_BYTES)
                if not data:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            decompressed = self._stream.decompress(data, len(view))
            if decompressed:
                view[: len(decompressed)] = decompressed
                return len(decompressed)

    def _next_stream(self) -> bytes:
        """Return the first bytes after the stream and its zeros; empty at the end of the file."""
        data = self._stream.unused_data.lstrip(b"\0")
        while not data and (chunk := self._file.read(_CHUNK_BYTES)):
            data = chunk.lstrip(b"\0")
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
