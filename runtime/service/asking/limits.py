"""What a question may cost."""

from __future__ import annotations

import msgspec

__all__ = ["AskLimits"]


class AskLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds of each question, and of all of them together."""

    at_once: int = 2
    """Questions that are answered at a time; 0: the service has no such route."""
    waiting: int = 256
    """Questions of those who wait for their turn, see `Asker.ask`."""
    seconds: float = 10.0
    """From its arrival to its answer; what takes longer is interrupted."""
    memory_bytes: int = 512 * 1024 * 1024
    """DuckDB's memory for a question; nothing is put on a disk."""
    growth_bytes: int = 3 * 1024 * 1024 * 1024
    """Growth of the process while a question is answered: DuckDB does not count what an expression makes of a value."""
    read_bytes: int = 1024 * 1024 * 1024
    """Relations and views that a question reads, as they lie in memory."""
    answer_rows: int = 100_000
    """Rows of an answer."""
    answer_bytes: int = 256 * 1024 * 1024
    """Of an answer, as its rows lie in memory."""
    kept_bytes: int = 512 * 1024 * 1024
    """Relations that are kept as they were for the last question."""
