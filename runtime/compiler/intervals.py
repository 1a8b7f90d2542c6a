"""Lengths of time in SQL that are a fixed number of nanoseconds."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from sqlglot import exp

__all__ = ["UNITS_NS", "nanoseconds_of"]

UNITS_NS: Final = {
    "nanosecond": 1,
    "microsecond": 10**3,
    "millisecond": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3600 * 10**9,
    "day": 86400 * 10**9,
    "week": 7 * 86400 * 10**9,
}
"""Unit of time → its length in nanoseconds; months and years have no fixed length."""
_SHORT: Final = {
    "ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "m": "minute",
    "min": "minute", "h": "hour", "d": "day",
}  # fmt: skip


def nanoseconds_of(node: exp.Expr) -> int | None:
    """Return the length of an interval such as ``INTERVAL '1' SECOND``.

    Return None for other expressions, for units without a fixed length, and for fractions of a nanosecond.
    """
    if not isinstance(node, exp.Interval) or node.this is None:
        return None
    value, sign = node.this.unnest(), 1
    if isinstance(value, exp.Neg):
        value, sign = value.this.unnest(), -1
    unit = node.text("unit").lower()
    unit = _SHORT.get(unit, unit.removesuffix("s"))
    if not isinstance(value, exp.Literal) or unit not in UNITS_NS:
        return None
    try:
        length = sign * Fraction(value.name) * UNITS_NS[unit]
    except (ValueError, ZeroDivisionError):
        return None
    return int(length) if length.denominator == 1 else None
