"""Parsing of CREATE STREAM … AS SELECT: retention of a derived stream's rows, and lateness of its input.

::

    CREATE STREAM name [RETAIN n ROWS] [RETAIN INTERVAL 'n' unit] [LATENESS INTERVAL 'n' unit] AS SELECT …
"""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.compiler.declarations import Cursor
from runtime.compiler.tokens import Token

__all__ = ["DEFAULT_CLAUSES", "MOST_RETAINED_ROWS", "UNLIMITED_NS", "StreamClauses", "parse_clauses"]

MOST_RETAINED_ROWS: Final = 10_000_000
"""Largest number of RETAIN … ROWS."""
UNLIMITED_NS: Final = 1 << 62
"""Retention time of RETAIN … ROWS alone: rows of any age stay."""
_ROWS_OF_INTERVAL: Final = 1_000_000
"""Greatest number of rows for RETAIN INTERVAL alone."""
_DEFAULT_ROWS: Final = 20_000
_DEFAULT_NS: Final = 5 * 60 * 1_000_000_000
_UNITS_NS: Final = {
    "NANOSECOND": 1,
    "MICROSECOND": 1_000,
    "MILLISECOND": 1_000_000,
    "SECOND": 1_000_000_000,
    "MINUTE": 60 * 1_000_000_000,
    "HOUR": 3_600 * 1_000_000_000,
    "DAY": 86_400 * 1_000_000_000,
}


class StreamClauses(msgspec.Struct, frozen=True):
    """Clauses between the name of a derived stream and its SELECT."""

    retain_rows: int = _DEFAULT_ROWS
    """Greatest number of retained rows, the newest; by default that of TRADES."""
    retain_ns: int = _DEFAULT_NS
    """Greatest age of a row against the newest; by default that of TRADES."""
    lateness_ns: int = 0
    """Greatest lateness of a row behind the watermark."""


DEFAULT_CLAUSES: Final = StreamClauses()
"""Clauses of a stream without any."""


def parse_clauses(cursor: Cursor) -> StreamClauses:
    """Parse the clauses, in any order and each once, and AS after them; raise `SqlError` with its position."""
    rows: int | None = None
    age: int | None = None
    lateness: int | None = None
    while (token := cursor.token).is_word("RETAIN", "LATENESS"):
        cursor.advance()
        if token.is_word("LATENESS"):
            lateness = _once(cursor, token, "LATENESS", lateness, _interval(cursor))
        elif cursor.token.kind == "number":
            rows = _once(cursor, token, "RETAIN … ROWS", rows, _row_count(cursor))
        else:
            age = _once(cursor, token, "RETAIN INTERVAL", age, _interval(cursor))
    cursor.expect("RETAIN, LATENESS or AS", lambda following: following.is_word("AS"))
    if rows is None and age is None:
        return StreamClauses(lateness_ns=lateness or 0)
    return StreamClauses(
        _ROWS_OF_INTERVAL if rows is None else rows, UNLIMITED_NS if age is None else age, lateness or 0
    )


def _once(cursor: Cursor, token: Token, clause: str, before: int | None, value: int) -> int:
    if before is not None:
        raise cursor.text.error(token.start, f"expected {clause} once, was a second")
    return value


def _row_count(cursor: Cursor) -> int:
    token = cursor.number("a number of rows")
    rows = int(token.text)
    if not 1 <= rows <= MOST_RETAINED_ROWS:
        raise cursor.text.error(token.start, f"expected 1 to {MOST_RETAINED_ROWS} rows, was {rows}")
    cursor.keyword("ROWS", "ROW")
    return rows


def _interval(cursor: Cursor) -> int:
    """Parse the nanoseconds of ``INTERVAL '5' MINUTE``, ``INTERVAL 5 MINUTES`` or ``INTERVAL '5 minutes'``."""
    cursor.keyword("INTERVAL")
    token = cursor.expect("a number in quotes", lambda following: following.kind in ("string", "number"))
    number, _, unit = token.text.strip().partition(" ")
    if not (number.isascii() and number.isdigit()):
        raise cursor.text.error(token.start, f"expected a whole number in INTERVAL, was {token.text!r}")
    place = token.start
    if not unit:
        word = cursor.word("a unit of time")
        unit, place = word.text, word.start
    size = _UNITS_NS.get(unit.strip().upper().removesuffix("S"))
    if size is None:
        known = ", ".join(_UNITS_NS)
        raise cursor.text.error(place, f"expected a unit of time ({known}), was {unit.strip()!r}")
    if (length := int(number) * size) >= UNLIMITED_NS:
        raise cursor.text.error(token.start, f"expected an INTERVAL of less than 2^62 nanoseconds, was {length}")
    return length
