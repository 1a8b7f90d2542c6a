"""One record of a recorded file, and what every loader is."""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from twisted.logger import Logger

from exchange_server.errors import RecordError, ReplayFileError

__all__ = ["INT64_MAX", "Loader", "Record"]

INT64_MAX = 2**63 - 1
_LOGGED_ERRORS = 20


class Record(NamedTuple):
    """What a file says happened."""

    position: int
    """Number of its line, from 1."""
    time_ns: int
    """When it happened, nanoseconds since the UTC epoch; never earlier than the record before."""
    order_id: int
    """The file's id of the order."""
    broker_id: int
    """Derived from the id: files name no brokers."""
    action: str
    """B S E F D X T or `exchange_server.inputs.REMAIN`."""
    volume: int
    """Lots."""
    price_ticks: int
    """Ticks."""


class Loader(ABC):
    """Reads a file record by record.

    A line that cannot be used is counted in `errors`, the first ones are logged with their place, and reading goes on.
    A file that cannot be opened or decompressed raises `ReplayFileError`.
    """

    _log = Logger()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors = 0
        """Lines that could not be used."""
        self.skipped = 0
        """Lines that are left out because they are known not to be events."""

    @abstractmethod
    def _parse(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        """Records of numbered lines; calls `_bad` for each that cannot be used."""

    def records(self) -> Iterator[Record]:
        """All records from the beginning."""
        try:
            with self._open() as file:
                yield from self._parse(enumerate(file, 1))
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise ReplayFileError(f"expected a readable file, was {error}, at {self.path}") from error

    def _open(self) -> IO[str]:
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding="ascii")
        return self.path.open(encoding="ascii")

    def _bad(self, number: int, error: RecordError) -> None:
        self.errors += 1
        if self.errors <= _LOGGED_ERRORS:
            self._log.warn("replay: {path} line {line}: {error}", path=str(self.path), line=number, error=str(error))
