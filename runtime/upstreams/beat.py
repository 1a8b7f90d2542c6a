"""A sign of life in a run directory: how a consumer tells a quiet market from an upstream that is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

__all__ = ["BEAT", "Beat", "read_beat", "write_beat"]

BEAT: Final = "beat"
"""The file's name."""


class Beat(msgspec.Struct, frozen=True):
    """What a runtime says of itself every second. Never durable: it says something about the moment."""

    term: int
    """Of its claim on the directory."""
    epoch: int
    """The newest that is sealed."""
    time_ns: int
    """When, nanoseconds since the UTC epoch."""
    is_connected: bool
    """Whether everything that it reads is heard."""
    is_paused: bool
    """Whether it lets nothing in, as its disk is full."""


def write_beat(directory: Path, beat: Beat) -> None:
    """Replace the file; raises `OSError`."""
    hidden = directory / f".{BEAT}"
    hidden.write_bytes(msgspec.json.encode(beat))
    hidden.replace(directory / BEAT)


def read_beat(directory: Path) -> Beat | None:
    """The last one; None if there is none that can be read."""
    try:
        return msgspec.json.decode((directory / BEAT).read_bytes(), type=Beat)
    except (OSError, msgspec.DecodeError):
        return None
