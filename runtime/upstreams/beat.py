"""Heartbeat file of a run directory, by which a consumer distinguishes a quiet market from a dead upstream."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

__all__ = ["BEAT", "Beat", "read_beat", "write_beat"]

BEAT: Final = "beat"
"""Name of the heartbeat file."""


class Beat(msgspec.Struct, frozen=True):
    """State that a runtime writes every second; the file is not synced to disk, because it is soon outdated."""

    term: int
    """Term of the runtime's claim on the directory."""
    epoch: int
    """Newest epoch that is sealed."""
    time_ns: int
    """Time of writing, in nanoseconds since the UTC epoch."""
    is_connected: bool
    """True if all upstream feeds are connected."""
    is_paused: bool
    """True if admission is paused because the disk is full."""


def write_beat(directory: Path, beat: Beat) -> None:
    """Replace the heartbeat file; raise `OSError` if it cannot be written."""
    hidden = directory / f".{BEAT}"
    hidden.write_bytes(msgspec.json.encode(beat))
    hidden.replace(directory / BEAT)


def read_beat(directory: Path) -> Beat | None:
    """Return the latest heartbeat; None if none can be read."""
    try:
        return msgspec.json.decode((directory / BEAT).read_bytes(), type=Beat)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
