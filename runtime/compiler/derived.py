"""CREATE STREAM … AS SELECT: how long the rows of a derived stream stay, and how late its input may come.

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
"""The largest number of RETAIN … ROWS."""
UNLIMITED_NS: Final = 1 << 62
"""RETAIN … ROWS alone: rows stay whatever their age."""
_ROWS_OF_INTERVAL: Final = 1_000_000
"""RETAIN INTERVAL alone: at most so many rows stay."""
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
    """The clauses between the name of a derived stream and its SELECT."""

    retain_rows: int = _DEFAULT_ROWS
    """At most so many rows stay, the newest; by default as of TRADES."""
    retain_ns: int = _DEFAULT_NS
    """No row stays that is older than this against the newest; by default as of TRADES."""
    lateness_ns: int = 0
    """How much later than the watermark a row may come."""


DEFAULT_CLAUSES: Final = StreamClauses()
"""Those of a stream without any clause."""


def parse_clauses(cursor: Cursor) -> StreamClauses:
    """Read the clauses, in any order and each once, and AS behind them; raises `SqlError` with its position."""
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
    """Nanoseconds of ``INTERVAL '5' MINUTE``, ``INTERVAL 5 MINUTES`` or ``INTERVAL '5 minutes'``."""
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
