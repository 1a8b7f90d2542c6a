"""Records of the log: where one begins and ends, and whether its bytes are those that were written."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

__all__ = ["FRAME_BYTES", "RECORD_LIMIT_BYTES", "find_records", "frame", "record_at"]

_FRAME: Final = struct.Struct("<III")
FRAME_BYTES: Final = _FRAME.size
"""Length of the payload, checksum, and how many bytes before the record were not known to be on the disk (u32 each)."""

RECORD_LIMIT_BYTES: Final = 1 << 28
"""A longer record is none."""

_U32: Final = 0xFFFF_FFFF
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_pack = _FRAME.pack
_unpack_from = _FRAME.unpack_from


def frame(payload: bytes, position: int, unsynced: int) -> bytes:
    """Return the header of a payload whose record begins at a byte of the journal.

    The checksum begins with the position, so that a record holds in its own place only. `unsynced` of 2³²-1 or more
    says that nothing is known.
    """
    unsynced = min(unsynced, _U32)
    return _pack(len(payload), crc32(payload, (position + unsynced) & _U32), unsynced)


def record_at(data: bytes, offset: int, position: int) -> tuple[int, int] | None:
    """Return the end of the whole record at an offset, and the byte up to which it knew the journal to be on the disk.

    `position` is the offset's in the journal. None if the record is broken or incomplete.
    """
    begin = offset + FRAME_BYTES
    if begin > len(data):
        return None
    length, checksum, unsynced = _unpack_from(data, offset)
    end = begin + length
    if not 0 < length <= RECORD_LIMIT_BYTES or end > len(data):
        return None
    if crc32(memoryview(data)[begin:end], (position + unsynced) & _U32) != checksum:
        return None
    return end, -1 if unsynced == _U32 else position - unsynced


def find_records(data: bytes, position: int) -> Iterator[int]:
    """Every whole record wherever it begins; of each, up to which byte of the journal it knew that all was on the disk.

    For what stands behind a broken record, whose length cannot be trusted.
    """
    offset, last = 0, len(data) - FRAME_BYTES
    # The highest of the four bytes of a real length is 0 or nearly: this leaves few places where a checksum is made.
    highest = RECORD_LIMIT_BYTES >> 24
    while offset < last:
        if data[offset + 3] <= highest and (record := record_at(data, offset, position + offset)) is not None:
            yield record[1]
            offset = record[0]
        elif data[offset : offset + 4] == b"\0\0\0\0":
            # What was never written reads as zeros, of which there may be many.
            written = _NOT_ZERO.search(data, offset)
            offset = max(offset + 1, written.start() - 3) if written else last
        else:
            offset += 1
