"""Errors in SQL, and their positions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["MissingFileError", "SqlError", "first_line"]


class SqlError(ValueError):
    """A script or query cannot be compiled; the message has file, line and column, and what was expected there."""

    def __init__(self, reason: str, *, file: str = "", line: int = 0, column: int = 0) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        self.column = column
        where = f"{file or 'query'}:{line}:{column}: " if line else (f"{file}: " if file else "")
        super().__init__(f"{where}{reason}")


class MissingFileError(FileNotFoundError):
    """A file that a script names does not exist; the message lists the paths that were tried."""

    def __init__(self, name: str, tried: Iterable[Path], *, where: str = "") -> None:
        self.name = name
        self.tried = tuple(tried)
        places = ", ".join(f"{path}{', which is a directory' * path.is_dir()}" for path in self.tried)
        super().__init__(f"{where + ': ' if where else ''}expected a file {name!r}, found none; tried {places}")


def first_line(error: Exception) -> str:
    """Return the first line of a library's message; the other lines repeat the query."""
    return str(error).strip().splitlines()[0]
