"""The day of a recorded file that counts its times from midnight."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from exchange_server.errors import ExchangeConfigurationError

__all__ = ["day_of_name", "midnight_ns"]

_YEAR_FIRST: Final = re.compile(r"(?<!\d)(?P<y>\d{4})-?(?P<m>\d{2})-?(?P<d>\d{2})(?!\d)", re.ASCII)
_MONTH_FIRST: Final = re.compile(r"(?<!\d)(?P<m>\d{2})(?P<d>\d{2})(?P<y>\d{4}|\d{2})(?!\d)", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_FIRST_YEAR: Final = 1970
_END_YEAR: Final = 2200
"""Nanoseconds since 1970 have 64 bits until 2262."""


def midnight_ns(day: str) -> int:
    """Nanoseconds from the UTC epoch to a day's midnight in UTC; raises `ExchangeConfigurationError` for what
    is no day.

    Files do not say what their clock's zone is: their midnight is taken for that of UTC, so that a time of day reads
    the same everywhere.

    >>> midnight_ns("1970-01-02")
    86400000000000
    """
    try:
        # Python also reads 20120621 and 2012-W25-4.
        parsed = date.fromisoformat(day if _DAY.fullmatch(day) else "")
    except ValueError:
        raise ExchangeConfigurationError(f"expected a day as in 2012-06-21, was {day!r}") from None
    if not _FIRST_YEAR <= parsed.year < _END_YEAR:
        raise ExchangeConfigurationError(f"expected a day from {_FIRST_YEAR} to {_END_YEAR - 1}, was {day}")
    return int(datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC).timestamp()) * 1_000_000_000


def day_of_name(path: Path) -> str:
    """The day that a file's name has, as LOBSTER and NASDAQ write it; ``1970-01-01`` if it has none.

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
