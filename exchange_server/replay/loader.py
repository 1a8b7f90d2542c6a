"""Base classes of the loaders of recorded files, and the day of a file.

The times of a file may count from the midnight of a day that the file's name or the user gives.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, ClassVar, Final

from twisted.logger import Logger

from exchange_server.errors import ExchangeConfigurationError, RecordError, ReplayFileError
from exchange_server.replay.files import READ_ERRORS, ends_within_a_line, open_recorded
from exchange_server.replay.record import BATCH_RECORDS, Record, RecordColumns, batched

__all__ = [
    "ANY_SYMBOL",
    "BROKERS",
    "INT64_MAX",
    "LATEST_NS",
    "FileLoader",
    "LineLoader",
    "Loader",
    "day_of_name",
    "midnight_ns",
]

_YEAR_FIRST: Final = re.compile(r"(?<!\d)(?P<y>\d{4})-?(?P<m>\d{2})-?(?P<d>\d{2})(?!\d)", re.ASCII)
_MONTH_FIRST: Final = re.compile(r"(?<!\d)(?P<m>\d{2})(?P<d>\d{2})(?P<y>\d{4}|\d{2})(?!\d)", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_FIRST_YEAR: Final = 1970
_END_YEAR: Final = 2200
"""First year that is refused: nanoseconds since 1970 fit into 64 bits until 2262."""


def midnight_ns(day: str) -> int:
    """Return the nanoseconds from the UTC epoch to a day's midnight in UTC.

    Files do not state their time zone. Their midnight is taken as midnight in UTC, so that a time of day reads the same
    everywhere. Raise `ExchangeConfigurationError` for text of another form, and for a day before 1970 or after 2199.

    >>> midnight_ns("1970-01-02")
    86400000000000
    """
    try:
        # Python would also accept 20120621 and 2012-W25-4.
        parsed = date.fromisoformat(day if _DAY.fullmatch(day) else "")
    except ValueError:
        raise ExchangeConfigurationError(f"expected a day as in 2012-06-21, was {day!r}") from None
    if not _FIRST_YEAR <= parsed.year < _END_YEAR:
        raise ExchangeConfigurationError(f"expected a day from {_FIRST_YEAR} to {_END_YEAR - 1}, was {day}")
    return int(datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC).timestamp()) * 1_000_000_000


def day_of_name(path: Path) -> str:
    """Return the day in a file's name, as LOBSTER and NASDAQ write it; ``1970-01-01`` if it has none.

    >>> day_of_name(Path("AAPL_2012-06-21_34200000_57600000_message_10.csv"))
    '2012-06-21'
    >>> day_of_name(Path("01302020.NASDAQ_ITCH50.gz")), day_of_name(Path("S081321-v50.txt.gz"))
    ('2020-01-30', '2021-08-13')
    >>> day_of_name(Path("feed.itch"))
    '1970-01-01'
    """
    for pattern in (_YEAR_FIRST, _MONTH_FIRST):
        for parts in pattern.finditer(path.name):
            year, month, day = (int(parts[name]) for name in "ymd")
            try:
                named = date(year + 2000 if year < 100 else year, month, day)
            except ValueError:
                continue
            if _FIRST_YEAR <= named.year < _END_YEAR:
                return named.isoformat()
    return "1970-01-01"


ANY_SYMBOL: Final = "REPLAY"
"""Symbol that is requested where none is named; for a file with symbols of its own it stands for all of them."""
BROKERS: Final = 10
"""Number of brokers of a file that names none: an order's broker is its id modulo this."""
INT64_MAX: Final = 2**63 - 1
LATEST_NS: Final = midnight_ns("2199-12-31") + 86_400 * 10**9
"""Largest time of a record in nanoseconds since 1970, the beginning of the year 2200: a later one is damage."""

_LOGGED_ERRORS: Final = 20


class Loader(ABC):
    """Reads a file record by record.

    Unusable records are counted in `errors`, the first ones are logged with their place, and reading continues. A file
    that cannot be opened or decompressed raises `ReplayFileError`.
    """

    reads_columns: ClassVar[bool] = False
    """True if `batches` reads columns directly, without making records first."""
    unit: str
    """Unit of `Record.position`: line, byte or record."""

    _log = Logger()

    def __init__(self, path: Path, symbols: tuple[str, ...]) -> None:
        self.path = path
        self.symbols = symbols
        """Symbols that records may have."""
        self.errors = 0
        """Number of unusable records."""
        self.skipped = 0
        """Number of records left out because they are known not to be events of a book."""
        self.earlier = 0
        """Number of records that were earlier than the record before them, and were given the time of that record."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """Yield all records from the beginning."""

    def batches(self, rows: int = BATCH_RECORDS) -> Iterator[RecordColumns]:
        """Yield all records as columns, about ``rows`` rows at a time; records and counts are as in `records`.

        A loader whose format is read in columns overrides this.
        """
        return batched(self.records(), self.symbols, rows)

    def columns(self) -> RecordColumns:
        """Return all records as columns, in memory (66 bytes a record)."""
        return RecordColumns.concatenated(self.batches())

    def _bad(self, position: int, error: RecordError, *, path: Path | None = None, unit: str = "") -> None:
        """Count an unusable record; ``path`` and ``unit`` describe its position, by default the loader's."""
        self.errors += 1
        if self.errors <= _LOGGED_ERRORS:
            self._log.warn(
                "replay: {path} {unit} {position}: {error}",
                path=str(path or self.path), unit=unit or self.unit, position=position, error=str(error),
            )  # fmt: skip

    def _in_order(self, time_ns: int, latest_ns: int) -> int:
        """Return the time of the next record, and count it if it was earlier than the latest one."""
        if time_ns >= latest_ns:
            return time_ns
        self.earlier += 1
        return latest_ns


class FileLoader(Loader):
    """Reads one file from its beginning to its end."""

    @abstractmethod
    def _read(self, file: IO[bytes]) -> Iterator[Record]:
        """Yield the records of a file from its beginning; call `_bad` for each unusable record."""

    def records(self) -> Iterator[Record]:
        """Yield all records from the beginning."""
        with self._reading() as file:
            yield from self._read(file)

    @contextmanager
    def _reading(self) -> Iterator[IO[bytes]]:
        """Yield the open file; raise `ReplayFileError` if it cannot be opened, or later be read."""
        try:
            with self._open() as file:
                yield file
        except ReplayFileError:
            raise
        except READ_ERRORS as error:
            raise ReplayFileError(f"expected a readable file, was {error}, at {self.path}") from error

    def _open(self) -> IO[bytes]:
        return open_recorded(self.path)

    def _warn_if_cut(self, path: Path) -> None:
        """Log that a file of text may be cut off, as its last line does not end."""
        if ends_within_a_line(path):
            self._log.warn("replay: {path} ends within a line: its last record may be cut off", path=str(path))


class LineLoader(FileLoader):
    """Reads a file of lines, all of one symbol."""

    unit = "line"

    def __init__(self, path: Path, symbol: str) -> None:
        super().__init__(path, (symbol,))
        self.symbol = symbol
        """Symbol of all records."""

    @abstractmethod
    def _parse(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
        """Yield the records of numbered lines; call `_bad` for each unusable line."""

    def _read(self, file: IO[bytes]) -> Iterator[Record]:
        # The file is read as bytes: text lines would also end at a form feed or a lone carriage return in a damaged
        # line, and one byte that is not ASCII would end the replay.
        self._warn_if_cut(self.path)
        return self._parse(enumerate(file, 1))
