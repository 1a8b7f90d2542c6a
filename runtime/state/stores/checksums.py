"""Values with the checksum of what they are and where they belong: a flipped bit is noticed, and so is another's value.

A checksum per value and not per commit, as values are read one by one, long after their commit.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from runtime.state.errors import CorruptStateError

__all__ = ["opened", "place_seed", "sealed"]

_CHECKSUM: Final = struct.Struct("<I")
_KEY: Final = struct.Struct("<q")


def place_seed(table: str) -> int:
    """What the checksums of a table's values begin with; worth keeping over a scan."""
    return zlib.crc32(table.encode())


def sealed(seed: int, key: int, data: bytes) -> bytes:
    """A value with its checksum in front; raises `OverflowError` for a key of more than 64 bits."""
    try:
        place = _KEY.pack(key)
    except struct.error:
        raise OverflowError(f"expected a key of 64 bits, was {key}") from None
    return _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(place, seed))) + data


def opened(seed: int, table: str, key: int, data: bytes) -> bytes:
    """The value; raises `CorruptStateError` that names the place."""
    value = data[_CHECKSUM.size :]
    found = zlib.crc32(value, zlib.crc32(_KEY.pack(key), seed))
    if len(data) < _CHECKSUM.size or _CHECKSUM.unpack_from(data)[0] != found:
        raise CorruptStateError(
            f"{table}, key {key}: expected the value that was stored, was {value[:16]!r}… with another checksum"
        )
    return value
