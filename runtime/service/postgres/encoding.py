"""Encoding of Arrow columns as the bytes of rows: whole columns at a time, never row by row.

A column becomes an array with a byte string for each value, and NULL for each NULL. The arrays are joined into rows,
with the length of each value before the value, and the buffer of the joined array is sent. Values are encoded one by
one only in columns of structs or maps; in text formats also in columns of intervals, and in columns with a year before
1 or after 9999. The time is proportional to the number of bytes.

```
pa.Array ──text_values, binary_values──▶ pa.BinaryArray ──data_rows──▶ DataRow, or CopyData in binary
                                               └──copy_lines──▶ CopyData as text or CSV
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.service.moments import (
    INFINITE_DAY,
    INFINITE_TIME,
    TIME_24_US,
    date_text,
    json_values,
    microseconds,
    timestamp_text,
    whole_values,
)
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.types import ResultType

__all__ = ["BINARY_HEADER", "BINARY_TRAILER", "binary_values", "combined", "copy_lines", "data_rows", "text_values"]

BINARY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""Header before the rows of a binary COPY."""
BINARY_TRAILER: Final = b"\xff\xff"
"""Trailer after the rows of a binary COPY."""

_UNIX_DAYS: Final = 10_957
"""Number of days from 1970 to 2000, when PostgreSQL's days begin."""
_UNIX_MICROS: Final = _UNIX_DAYS * TIME_24_US
_FIRST_DAY: Final = -719_162
"""First day of the year 1, as days since 1970; Arrow's text of earlier days has no era."""
_LAST_DAY: Final = 2_932_896
"""Last day of the year 9999, as days since 1970."""
_ERA: Final = " BC"
_DIGITS: Final = 38
"""Number of digits of Arrow's decimals of 128 bits."""
_GROUP: Final = 4
"""Number of decimal digits in each digit of a binary numeric."""
_POWERS: Final = np.array([1000, 100, 10, 1], dtype=np.int64)
_NEGATIVE: Final = 0x4000
"""Sign field of a negative binary numeric."""
_HEXADECIMAL: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_INTERVAL: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
_WIDENED: Final = {"int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "oid": pa.uint32()}


def text_values(array: pa.Array, kind: ResultType) -> pa.Array:
    """Return the values in PostgreSQL's text formats, as byte strings."""
    if kind.is_array:
        return _joined_lists(array, kind, _text_element, b",", lambda joined, _: _concatenated(b"{", joined, b"}"))
    return pc.cast(_text(array, kind.element.name), pa.binary())


def binary_values(array: pa.Array, kind: ResultType) -> pa.Array:
    """Return the values in PostgreSQL's binary formats, as byte strings."""
    if kind.is_array:
        return _joined_lists(array, kind, _binary_element, b"", lambda joined, own: _with_head(joined, own, kind))
    return _binary(array, kind.element.name)


def data_rows(columns: Sequence[pa.Array], count: int, code: bytes = b"D") -> memoryview:
    """Return a message for each row: the number of fields, then for each field its length (-1 for NULL) and its bytes.

    ``columns`` are values in binary or text formats; ``count`` is the number of rows, ``code`` the first byte of a
    message.
    """
    lengths = [_lengths(column) for column in columns]
    totals = np.full(count, 6, dtype=np.int64)
    for own in lengths:
        totals += 4 + np.maximum(own, 0)
    head = np.empty((count, 7), dtype=np.uint8)
    head[:, 0] = code[0]
    head[:, 1:5] = _big_endian(totals, ">i4")
    head[:, 5:7] = _big_endian(np.full(count, len(columns)), ">i2")
    pieces = [_fixed(head)]
    for column, own in zip(columns, lengths, strict=True):
        pieces += [_fixed(_big_endian(own, ">i4")), column.fill_null(b"")]
    return _buffer(_concatenated(*pieces))


def copy_lines(columns: Sequence[pa.Array], kinds: Sequence[ResultType], count: int, *, is_csv: bool) -> memoryview:
    """Return CopyData messages of one line each, from values as returned by `text_values`."""
    pieces: list[Any] = []
    for number, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if number:
            pieces.append(b"," if is_csv else b"\t")
        # Values of digits and signs contain nothing to escape.
        is_plain = not kind.is_array and kind.element.category in "NBD" and kind.element.name != "regclass"
        if not is_plain:
            column = _quoted(column) if is_csv else _escaped(column)  # noqa: PLW2901
        pieces.append(column.fill_null(b"" if is_csv else b"\\N"))
    lines = _concatenated(*pieces, b"\n") if pieces else pa.array([b"\n"] * count, pa.binary())
    head = np.empty((count, 5), dtype=np.uint8)
    head[:, 0] = ord("d")
    head[:, 1:5] = _big_endian(_lengths(lines) + 4, ">i4")
    return _buffer(_concatenated(_fixed(head), lines))


# Text formats


def _text(array: pa.Array, name: str) -> pa.Array:
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(array, "t", "f")
    if pa.types.is_integer(kind):
        return pc.cast(array, pa.string())
    if pa.types.is_floating(kind):
        return _float_text(array)
    if pa.types.is_decimal(kind):
        return _decimal_text(array, kind.scale)
    if name == "bytea":
        return _hexadecimal(array)
    if pa.types.is_date(kind):
        return _date_text(array)
    if pa.types.is_time(kind):
        return pc.if_else(
            pc.equal(pc.cast(array.view(pa.int64()), pa.int64()), TIME_24_US),
            "24:00:00",
            _without_zeros(pc.cast(array, pa.string())),
        )
    if pa.types.is_timestamp(kind):
        return _timestamp_text(array)
    if pa.types.is_interval(kind):
        return pa.array([None if each is None else _interval_text(*each) for each in array.to_pylist()], pa.string())
    return _other_text(array)


def _other_text(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pc.cast(array, pa.string())
    if pa.types.is_string(kind):
        return array
    written = [None if each is None else msgspec.json.encode(each).decode() for each in json_values(array)]
    return pa.array(written, pa.string())


def _float_text(array: pa.Array) -> pa.Array:
    text = pc.cast(array, pa.string())
    if not pc.all(pc.is_finite(array), min_count=0).as_py():
        text = pc.if_else(pc.is_nan(array), "NaN", text)
        text = pc.if_else(pc.is_inf(array), pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity"), text)
    return text


def _unscaled(array: pa.Array) -> pa.Array:
    """Return the digits of decimals as text, without a point; in Arrow's own text small values have an exponent."""
    if array.type.bit_width != 128:
        array = pc.cast(array, pa.decimal128(min(_DIGITS, array.type.precision), array.type.scale))
    whole = pa.Array.from_buffers(pa.decimal128(_DIGITS, 0), len(array), array.buffers(), offset=array.offset)
    return pc.cast(whole, pa.string())


def _decimal_text(array: pa.Array, scale: int) -> pa.Array:
    text = _unscaled(array)
    if not scale:
        return text
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    return pc.binary_join_element_wise(sign, whole, ".", pc.utf8_slice_codeunits(digits, -scale), "")


def _hexadecimal(array: pa.Array) -> pa.Array:
    own = pa.concat_arrays([pc.cast(array, pa.binary()).fill_null(b"")])
    offsets = np.frombuffer(own.buffers()[1], np.int32, len(own) + 1, own.offset * 4)
    data = np.frombuffer(own.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    moved = (offsets - offsets[0]) * 2
    pairs = np.ascontiguousarray(_HEXADECIMAL[data])
    text = pa.Array.from_buffers(pa.string(), len(own), [None, pa.py_buffer(moved), pa.py_buffer(pairs)])
    return pc.if_else(pc.is_valid(array), pc.binary_join_element_wise("\\x", text, ""), pa.scalar(None, pa.string()))


def _date_text(array: pa.Array) -> pa.Array:
    days = whole_values(array)
    if _are_all_between(days, _FIRST_DAY, _LAST_DAY):
        return pc.cast(array, pa.string())
    return pa.array([None if each is None else date_text(each, _ERA) for each in days.to_pylist()], pa.string())


def _timestamp_text(array: pa.Array) -> pa.Array:
    zone = "+00" if array.type.tz else ""
    micros = microseconds(array)
    if _are_all_between(micros, _FIRST_DAY * TIME_24_US, (_LAST_DAY + 1) * TIME_24_US - 1):
        text = _without_zeros(pc.cast(pc.cast(micros, pa.timestamp("us")), pa.string()))
        return pc.binary_join_element_wise(text, zone, "") if zone else text
    listed = micros.to_pylist()
    return pa.array([None if at is None else timestamp_text(at, zone=zone, era=_ERA) for at in listed], pa.string())


def _are_all_between(values: pa.Array, least: int, most: int) -> bool:
    limits = pc.min_max(values)
    return limits["min"].as_py() is None or (limits["min"].as_py() >= least and limits["max"].as_py() <= most)


def _without_zeros(text: pa.Array) -> pa.Array:
    """Remove trailing zeros of fractions: ``01:02:03.500000`` becomes ``01:02:03.5``."""
    if not pc.any(pc.match_substring(text, "."), min_count=0).as_py():
        return text
    return pc.replace_substring_regex(text, r"\.?0*$", "") if _all_have_a_point(text) else _trimmed(text)


def _all_have_a_point(text: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring(text, "."), min_count=0).as_py())


def _trimmed(text: pa.Array) -> pa.Array:
    trimmed = pc.replace_substring_regex(text, r"\.?0*$", "")
    return pc.if_else(pc.match_substring(text, "."), trimmed, text)


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval in PostgreSQL's IntervalStyle ``postgres``."""
    years, months = int(months / 12), months - 12 * int(months / 12)
    parts = []
    for number, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            parts.append(f"{number} {unit}{'s' * (number != 1)}")
    micros = nanoseconds // 1000
    if micros or not parts:
        seconds, micros = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        fraction = f".{micros:06d}".rstrip("0") if micros else ""
        parts.append(("-" if nanoseconds < 0 else "") + clock + fraction)
    return " ".join(parts)


# Binary formats


def _binary(array: pa.Array, name: str) -> pa.Array:
    encode = _ENCODERS.get(name)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary())
    if encode is None:
        return pc.cast(_text(array, name), pa.binary())
    return encode(array)


def _numbers(array: pa.Array, form: str) -> pa.Array:
    """Return integers or floats of one width as byte strings; NULL stays NULL."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return _masked(_fixed(_big_endian(values, form)), array)


def _shifted(whole: pa.Array, infinite: int, shift: int, form: str) -> pa.Array:
    """Return days or microseconds, given since 1970, as byte strings that count from 2000.

    ``infinite`` is the value of infinity, and ``shift`` the beginning of the year 2000 in the same unit. In PostgreSQL,
    the two ends of the range are the infinities.

    Raises `PostgresError` for a value before PostgreSQL's first one.
    """
    values = whole.fill_null(0).to_numpy(zero_copy_only=False)
    if ((values < shift - infinite - 1) & (values != -infinite)).any():
        raise PostgresError("22008", "expected dates and times of PostgreSQL's range, was one before it")
    moved = np.where(values == infinite, infinite, np.where(values == -infinite, -infinite - 1, values - shift))
    return _masked(_fixed(_big_endian(moved, form)), whole)


def _bool_binary(array: pa.Array) -> pa.Array:
    return _numbers(pc.cast(array, pa.int8()), ">i1")


def _int_binary(name: str, form: str) -> Callable[[pa.Array], pa.Array]:
    return lambda array: _numbers(pc.cast(array, _WIDENED[name]), form)


def _date_binary(array: pa.Array) -> pa.Array:
    return _shifted(whole_values(array), INFINITE_DAY, _UNIX_DAYS, ">i4")


def _time_binary(array: pa.Array) -> pa.Array:
    return _numbers(pc.cast(pc.cast(array, pa.time64("us")), pa.int64()), ">i8")


def _timestamp_binary(array: pa.Array) -> pa.Array:
    return _shifted(microseconds(array), INFINITE_TIME, _UNIX_MICROS, ">i8")


def _interval_binary(array: pa.Array) -> pa.Array:
    parts = np.frombuffer(array.buffers()[1] or b"", _INTERVAL, len(array), array.offset * _INTERVAL.itemsize)
    fields = [
        _big_endian(parts["nanos"] // 1000, ">i8"),
        _big_endian(parts["days"], ">i4"),
        _big_endian(parts["months"], ">i4"),
    ]
    return _masked(_fixed(np.concatenate(fields, axis=1)), array)


def _numeric_binary(array: pa.Array) -> pa.Array:
    """Return numerics in base 10,000: number of digits, weight of the first digit, sign, scale, and the digits."""
    if pa.types.is_integer(array.type):
        array = pc.cast(array, pa.decimal128(20, 0))
    scale, count = array.type.scale, len(array)
    if not count:
        return pa.array([], pa.binary())
    text = _unscaled(array).fill_null("0")
    digits = pc.utf8_ltrim(text, "-")
    longest = pc.max(pc.binary_length(digits)).as_py() or 1
    whole_groups = max(1, -(-(longest - scale) // _GROUP))
    fraction_groups = -(-scale // _GROUP)
    own = pc.utf8_lpad(digits, whole_groups * _GROUP + scale, "0")
    padded = pc.utf8_rpad(own, (whole_groups + fraction_groups) * _GROUP, "0")
    matrix = np.frombuffer(_buffer(padded), np.uint8).reshape(count, -1).astype(np.int64) - ord("0")
    groups = matrix.reshape(count, -1, _GROUP) @ _POWERS
    used = groups != 0
    some = used.any(axis=1)
    first = np.where(some, used.argmax(axis=1), 0)
    last = np.where(some, used.shape[1] - 1 - used[:, ::-1].argmax(axis=1), -1)
    places = np.arange(used.shape[1])
    kept = (places >= first[:, None]) & (places <= last[:, None])
    numbers = last - first + 1
    numbers[~some] = 0
    head = np.concatenate(
        [
            _big_endian(numbers, ">i2"),
            _big_endian(np.where(some, whole_groups - 1 - first, 0), ">i2"),
            _big_endian(np.where(pc.starts_with(text, "-").to_numpy(zero_copy_only=False), _NEGATIVE, 0), ">i2"),
            _big_endian(np.full(count, scale), ">i2"),
        ],
        axis=1,
    )
    offsets = np.concatenate([[0], np.cumsum(2 * numbers)]).astype(np.int32)
    body = groups[kept & some[:, None]].astype(">i2").tobytes()
    tail = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    return _masked(_concatenated(_fixed(head), tail), array)


def _uuid_binary(array: pa.Array) -> pa.Array:
    digits = pc.replace_substring(pc.cast(array, pa.string()).fill_null("0" * 32), "-", "")
    pairs = np.frombuffer(_buffer(digits), np.uint8).reshape(len(array), 16, 2)
    values = np.where(pairs >= ord("a"), pairs - (ord("a") - 10), pairs - ord("0"))
    return _masked(_fixed((values[:, :, 0] * 16 + values[:, :, 1]).astype(np.uint8)), array)


_ENCODERS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "bool": _bool_binary,
    "int2": _int_binary("int2", ">i2"),
    "int4": _int_binary("int4", ">i4"),
    "int8": _int_binary("int8", ">i8"),
    "oid": _int_binary("oid", ">u4"),
    "float4": lambda array: _numbers(array, ">f4"),
    "float8": lambda array: _numbers(array, ">f8"),
    "numeric": _numeric_binary,
    "date": _date_binary,
    "time": _time_binary,
    "timestamp": _timestamp_binary,
    "timestamptz": _timestamp_binary,
    "interval": _interval_binary,
    "uuid": _uuid_binary,
    "bytea": lambda array: pc.cast(array, pa.binary()),
}
"""Type → encoder of its binary format; all other types are sent as text."""


# Arrays


def _joined_lists(
    array: pa.Array,
    kind: ResultType,
    element: Callable[[pa.Array, ResultType], pa.Array],
    separator: bytes,
    finished: Callable[[pa.Array, pa.Array], pa.Array],
) -> pa.Array:
    """Return each list as one byte string.

    ``element`` encodes all elements, which are joined with ``separator``; ``finished`` gets the joined elements and the
    lists, and returns the whole values.
    """
    own = pa.concat_arrays([array]) if array.offset else array
    if pa.types.is_fixed_size_list(own.type):
        own = pc.cast(own, pa.list_(own.type.value_type))
    lists = pc.if_else(pc.is_valid(own), own, pa.scalar([], own.type))
    encoded = element(lists.flatten(), ResultType(kind.element))
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False))])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), encoded), separator)
    return _masked(finished(joined, lists), array)


def _text_element(values: pa.Array, kind: ResultType) -> pa.Array:
    text = pc.cast(text_values(values, kind), pa.string())
    if kind.element.category not in "NB":
        is_odd = pc.match_substring_regex(text, r'(?i)[{},"\\\s]|^$|^null$')
        escaped = pc.replace_substring_regex(text, r'(["\\])', r"\\\1")
        text = pc.if_else(is_odd, pc.binary_join_element_wise('"', escaped, '"', ""), text)
    return pc.cast(text.fill_null("NULL"), pa.binary())


def _binary_element(values: pa.Array, kind: ResultType) -> pa.Array:
    encoded = binary_values(values, kind)
    return _concatenated(_fixed(_big_endian(_lengths(encoded), ">i4")), encoded.fill_null(b""))


def _with_head(joined: pa.Array, lists: pa.Array, kind: ResultType) -> pa.Array:
    """Return the joined elements of arrays after a head.

    The head has the number of dimensions, a flag for NULL, and the OID of the elements. If there are elements, the head
    also has their number and the index of the first element.
    """
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    has_null = int(lists.flatten().null_count > 0)
    fields = [counts > 0, np.full(len(counts), has_null), np.full(len(counts), kind.element.oid)]
    head = np.concatenate([_big_endian(np.asarray(field, np.int64), ">i4") for field in fields], axis=1)
    dimension = np.concatenate([_big_endian(counts, ">i4"), _big_endian(np.ones(len(counts)), ">i4")], axis=1)
    shown = pc.if_else(pa.array(counts > 0), _fixed(dimension), b"")
    return _concatenated(_fixed(head), shown, joined)


# Lines of COPY


def _escaped(column: pa.Array) -> pa.Array:
    text = pc.cast(column, pa.string())
    if not pc.any(pc.match_substring_regex(text, r"[\\\n\r\t]"), min_count=0).as_py():
        return column
    for character, written in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = pc.replace_substring(text, character, written)
    return pc.cast(text, pa.binary())


def _quoted(column: pa.Array) -> pa.Array:
    text = pc.cast(column, pa.string())
    is_odd = pc.match_substring_regex(text, r'[,"\n\r]|^$|^\\\.$')
    if not pc.any(is_odd, min_count=0).as_py():
        return column
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.cast(pc.if_else(is_odd, quoted, text), pa.binary())


# Bytes


def _big_endian(values: Any, form: str) -> Any:
    """Return values as a matrix of bytes, one row for each value."""
    own = np.ascontiguousarray(np.asarray(values).astype(form))
    return own.view(np.uint8).reshape(len(own), own.itemsize)


def _fixed(matrix: Any) -> pa.Array:
    """Return one byte string for each row of the matrix."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _masked(values: pa.Array, nulls: pa.Array) -> pa.Array:
    """Return the values, with NULL where the other array has NULL."""
    return pc.if_else(pc.is_valid(nulls), values, pa.scalar(None, values.type)) if nulls.null_count else values


def _lengths(column: pa.Array) -> Any:
    """Return the size of each value in bytes, -1 for NULL."""
    return pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _concatenated(*pieces: Any) -> pa.Array:
    """Return arrays of byte strings joined row by row; a piece of type bytes is repeated in every row."""
    return pc.binary_join_element_wise(*[pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in pieces],
                                       pa.scalar(b"", pa.binary()))  # fmt: skip


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Return the chunks of a column as one array."""
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _buffer(array: pa.Array) -> memoryview:
    """Return the bytes of all values, concatenated."""
    if not len(array):
        return memoryview(b"")
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    return memoryview(array.buffers()[2] or b"")[int(offsets[0]) : int(offsets[-1])]
