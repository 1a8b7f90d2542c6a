"""The breaks in `formats.toml`: one place in the formats each, and the row whose tests must notice."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

__all__ = ["BREAKS", "Break"]


class Break(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change that makes the code wrong."""

    row: int
    """The row of the feature list whose tests must turn red."""
    what: str
    """What goes wrong."""
    file: str
    """Where, from the root of the tree."""
    find: str
    """What stands there, once."""
    replacement: str
    """What is put in its place."""


_TABLE: Final = Path(__file__).with_name("formats.toml")
BREAKS: Final = msgspec.toml.decode(_TABLE.read_bytes(), type=dict[str, tuple[Break, ...]])["break"]
"""All of them, in order of their rows."""
