"""What looking at a run directory has found, and what was done about it."""

from __future__ import annotations

import msgspec

from deltabook.backup.manifest import Kind

__all__ = ["RESTORE", "Finding", "PartFindings"]

RESTORE = "restore the directory from a backup (`deltabook restore`)"
"""What to do about a damaged source."""


class Finding(msgspec.Struct, frozen=True):
    """One damaged file, or several that go with it."""

    problem: str
    """What is wrong, with the file's name."""
    remedy: str
    """What was done, or would be done; if nothing can be, what to do."""
    is_repairable: bool = True
    """Whether it can be made again here."""
    kept: tuple[str, ...] = ()
    """Files as they were, by the names that they have now."""


class PartFindings(msgspec.Struct, frozen=True):
    """A run directory."""

    kind: Kind
    """Whose."""
    path: str
    """Where it is."""
    findings: tuple[Finding, ...]
    """What is damaged; none if nothing is."""
