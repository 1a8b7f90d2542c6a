"""GLIMPSE: the message at the end of a snapshot of the book, with the number at which to join the feed.

>>> parse_snapshot_end(encode_snapshot_end(61_235))
61235
"""

from __future__ import annotations

from typing import Final

from deltabook.wire.errors import WireError

__all__ = ["SNAPSHOT_END", "encode_snapshot_end", "parse_snapshot_end"]

SNAPSHOT_END: Final = b"G"
"""Letter of the message."""
_DIGITS: Final = 20


def encode_snapshot_end(sequence: int) -> bytes:
    """Return the message after the last order; `sequence` is the number of the first ITCH message that the snapshot
    does not contain yet. Raise `WireError` for a number that does not fit.
    """
    if not 0 < sequence < 10**_DIGITS:
        raise WireError(f"expected a sequence of 1 to {_DIGITS} digits, was {sequence}")
    return SNAPSHOT_END + str(sequence).rjust(_DIGITS).encode("ascii")


def parse_snapshot_end(message: bytes) -> int:
    """Return the number at which to join the feed; raise `WireError` for another message."""
    digits = message[1:].strip(b" ")
    if message[:1] != SNAPSHOT_END or len(message) != 1 + _DIGITS or not digits.isdigit():
        raise WireError(f"expected {SNAPSHOT_END!r} and {_DIGITS} digits, was {message[:40]!r}")
    return int(digits)
