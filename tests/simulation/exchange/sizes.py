"""Small sizes in place of the exchange's large ones, so that a seed's short streams come in many pieces too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from exchange_server.journal import Position

__all__ = ["COMPACT_BYTES", "small_sizes"]

COMPACT_BYTES: Final = 2_000
"""Size of a desk's journal above which it is compacted, after a few orders."""
_CHUNK_BYTES: Final = 1_500
_SPACING: Final = 4


def _position(*fields: Any) -> Position:
    return Position(*fields) if fields else Position(spacing=_SPACING)


@contextmanager
def small_sizes() -> Iterator[None]:
    """Fill gaps in chunks of a line or two, and index a stream every few records, in a `with` block."""
    with (
        patch("exchange_server.readers.CHUNK_BYTES", _CHUNK_BYTES),
        patch("exchange_server.journal.numbered_file.Position", _position),
    ):
        yield
