"""Dates and times of answers, also those that Python does not have: infinity, years before 1 and after 9999, 24:00.

In DuckDB a date is a number of days in 32 bits, and a timestamp a number of microseconds in 64 bits; the two ends of
each range are the infinities. Python's types have the years 1 to 9999, and no nanoseconds. Values that Python does not
have are written as text.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "INFINITE_DAY",
    "INFINITE_TIME",
    "TIME_24_US",
    "date_text",
    "is_infinite",
    "json_values",
    "microseconds",
    "timestamp_text",
    "whole_values",
]

INFINITE_DAY: Final = 2**31 - 1
"""Day that is infinity; its negative is minus infinity."""
INFINITE_TIME: Final = 2**63 - 1
"""Value of the timestamp infinity, in every unit; its negative is minus infinity."""
TIME_24_US: Final = 86_400_000_000
"""End of a day, 24:00, as a time in microseconds."""
_BEGIN: Final = date(1970, 1, 1).toordinal()
_CYCLE_DAYS: Final = 146_097
"""Number of days after which the calendar repeats itself."""
_CYCLE_YEARS: Final = 400
"""Number of years after which the calendar repeats itself."""
_FIRST_DAY: Final = date.min.toordinal() - _BEGIN
_LAST_DAY: Final = date.max.toordinal() - _BEGIN
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def whole_values(array: pa.Array) -> pa.Array:
    """Return the integers by which Arrow represents dates, times or timestamps, as int64."""
    width = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pc.cast(array.view(width), pa.int64())


def is_infinite(array: pa.Array) -> Any:
    """Return a mask of the dates or timestamps that are infinity or minus infinity."""
    most = INFINITE_DAY if pa.types.is_date(array.type) else INFINITE_TIME
    return np.abs(whole_values(array).fill_null(0).to_numpy(zero_copy_only=False)) == most


def microseconds(array: pa.Array) -> pa.Array:
    """Return timestamps of any unit in microseconds, as int64; fractions of a microsecond are rounded down."""
    per_second = _PER_SECOND[array.type.unit]
    whole = whole_values(array)
    if per_second == 10**6:
        return whole
    values = whole.fill_null(0).to_numpy(zero_copy_only=False)
    changed = values // (per_second // 10**6) if per_second > 10**6 else values * (10**6 // per_second)
    changed = np.where(is_infinite(array), values, changed)
    return pc.if_else(pc.is_valid(whole), pa.array(changed, pa.int64()), pa.scalar(None, pa.int64()))


def date_text(days: int, era: str = " (BC)") -> str:
    """Return the text of a date, given in days since 1970, as DuckDB writes it; ``era`` follows years before 1.

    >>> [date_text(days) for days in (19_000, 2**31 - 1, -735_204, 3_000_000)]
    ['2022-01-08', 'infinity', '0044-01-30 (BC)', '10183-09-21']
    """
    if abs(days) == INFINITE_DAY:
        return "infinity" if days > 0 else "-infinity"
    cycles, place = divmod(days + _BEGIN - 1, _CYCLE_DAYS)
    day = date.fromordinal(place + 1)
    year = day.year + _CYCLE_YEARS * cycles
    month_and_day = day.isoformat()[4:]
    return f"{year:04d}{month_and_day}" if year > 0 else f"{1 - year:04d}{month_and_day}{era}"


def timestamp_text(value: int, unit: str = "us", *, separator: str = " ", zone: str = "", era: str = " (BC)") -> str:
    """Return the text of a timestamp, given in units since 1970; its fraction has no trailing zeros.

    >>> timestamp_text(1_500, "ms"), timestamp_text(-1, "ns", separator="T", zone="+00:00")
    ('1970-01-01 00:00:01.5', '1969-12-31T23:59:59.999999999+00:00')
    """
    if abs(value) == INFINITE_TIME:
        return "infinity" if value > 0 else "-infinity"
    per_second = _PER_SECOND[unit]
    days, rest = divmod(value, 86_400 * per_second)
    seconds, fraction = divmod(rest, per_second)
    digits = f"{fraction:0{len(str(per_second)) - 1}d}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" + (f".{digits}" if digits else "")
    day, _, own_era = date_text(days).partition(" ")
    return f"{day}{separator}{clock}{zone}{era if own_era else ''}"


def json_values(array: pa.Array) -> list[Any]:
    """Return the values of an array for an encoder of JSON; dates and times that Python does not have are text."""
    kind = array.type
    if not _has_moments(kind):
        values: list[Any] = array.to_pylist()
        return values
    if pa.types.is_struct(kind):
        fields = [json_values(part) for part in array.flatten()]
        names = [field.name for field in kind]
        rows = zip(*fields, strict=True)
        return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, _valid(array), strict=True)]
    if pa.types.is_map(kind):
        return [None if not entry.is_valid else _entries(entry.values) for entry in array]
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return [None if not entry.is_valid else json_values(entry.values) for entry in array]
    if pa.types.is_union(kind):
        return [json_values(pa.array([entry.value]))[0] if entry.is_valid else None for entry in array]
    return _moments(array)


def _has_moments(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_moments(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


def _valid(array: pa.Array) -> list[bool]:
    valid: list[bool] = pc.is_valid(array).to_pylist()
    return valid


def _entries(entries: pa.StructArray) -> list[tuple[Any, Any]]:
    keys, values = (json_values(part) for part in entries.flatten())
    return list(zip(keys, values, strict=True))


def _moments(array: pa.Array) -> list[Any]:
    kind = array.type
    whole = whole_values(array).to_pylist()
    if pa.types.is_date(kind):
        return [None if days is None else _day(days) for days in whole]
    if pa.types.is_time(kind):
        plain = pc.cast(array, pa.time64("us"), safe=False).to_pylist()
        end = 86_400 * _PER_SECOND[kind.unit]
        return ["24:00:00" if at == end else shown for at, shown in zip(whole, plain, strict=True)]
    return [None if at is None else _timestamp(at, kind) for at in whole]


def _day(days: int) -> date | str:
    return date.fromordinal(days + _BEGIN) if _FIRST_DAY <= days <= _LAST_DAY else date_text(days)


def _timestamp(value: int, kind: pa.TimestampType) -> datetime | str:
    per_second = _PER_SECOND[kind.unit]
    micros, rest = divmod(value * 10**6, per_second)
    is_plain = not rest and _FIRST_DAY <= micros // TIME_24_US <= _LAST_DAY
    if not is_plain:
        return timestamp_text(value, kind.unit, separator="T", zone="+00:00" if kind.tz else "")
    zone = UTC if kind.tz else None
    return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=micros)
