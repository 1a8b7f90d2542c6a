"""Fields of native records: conversion of their bytes to Arrow arrays, and the malformed ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.batches import characters
from runtime.formats.errors import SchemaError
from runtime.formats.fields import Field

__all__ = ["NativeField", "native_field"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_NONE: Final = np.zeros(0, np.int64)


class NativeField(ABC):
    """Field of a record; immutable."""

    expected: str = ""
    """Expected kind of value."""
    reason: str = ""
    """Actual kind of a malformed value."""

    def __init__(self, field: Field, stored: str, dtype: str) -> None:
        self.name = field.name
        self.nullable = field.nullable
        self.arrow_type = field.parser.arrow_type
        self.stored = np.dtype(stored)
        """Type by which the bytes are read."""
        self.dtype = np.dtype(dtype)
        """Type to which they are copied."""
        self.width = self.stored.itemsize

    @abstractmethod
    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        """Return the Arrow array of copied values, and the rows of malformed ones; these and NULLs may be anything."""


def _bitmap(nulls: Flags | None) -> Any:
    if nulls is None or not nulls.any():
        return None
    return pa.py_buffer(np.packbits(~nulls, bitorder="little"))


def _rows(bad: Flags, nulls: Flags | None) -> Integers:
    return np.flatnonzero(bad if nulls is None else bad & ~nulls)


class _Plain(NativeField):
    """Field in which every bit pattern is a value."""

    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        return pa.Array.from_buffers(self.arrow_type, len(values), [_bitmap(nulls), pa.py_buffer(values)]), _NONE


class _Bool(NativeField):
    expected = "a byte of 0 or 1"
    reason = "another byte"

    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        bad = _rows(values > 1, nulls) if len(values) and values.max() > 1 else _NONE
        bits = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(self.arrow_type, len(values), [_bitmap(nulls), bits]), bad


class _Decimal(NativeField):
    reason = "out of range"

    def __init__(self, field: Field, swap: bool) -> None:
        super().__init__(field, "V16", "V16")
        self._swap = swap
        self.expected = f"a {field.type}"
        limit = 10 ** (field.parser.digits or self.arrow_type.precision)
        self._low, self._high = np.uint64(limit & (2**64 - 1)), np.int64(limit >> 64)

    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        words = values.view(np.uint64).reshape(-1, 2)
        if self._swap:
            words = np.ascontiguousarray(words[:, ::-1].byteswap())
        low, high = words[:, 0], words[:, 1].view(np.int64)
        negative = high < 0
        low = np.where(negative, np.uint64(0) - low, low)
        high = np.where(negative, -high - (low != 0), high)
        bad = (high > self._high) | (high < 0) | ((high == self._high) & (low >= self._low))
        array = pa.Array.from_buffers(self.arrow_type, len(values), [_bitmap(nulls), pa.py_buffer(words)])
        return array, _rows(bad, nulls) if bad.any() else _NONE


class _Text(NativeField):
    expected = "UTF-8"
    reason = "another encoding"

    def __init__(self, field: Field, width: int, padding: str) -> None:
        super().__init__(field, f"V{width}", f"V{width}")
        self._padding = padding

    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        count, width = len(values), self.width
        data = values.view(np.uint8)
        bad = _NONE
        if count and data.max() > 127:
            raw = pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(data)])
            bad = np.array(_misencoded(raw, 0), np.int64)
            if nulls is not None:
                bad = bad[~nulls[bad]]
                data = np.where(np.repeat(nulls, width), np.uint8(0), data)
            data = data.copy()
            data.reshape(count, width)[bad] = 0
        if count * width >= 2**31:
            raise SchemaError(f"expected blocks of at most 2 GiB of {self.name}, was {count * width} bytes")
        offsets = np.arange(0, width * (count + 1), width, dtype=np.int32)
        buffers = [_bitmap(nulls), pa.py_buffer(offsets), pa.py_buffer(data)]
        texts = pa.Array.from_buffers(pa.string(), count, buffers)
        if count and (data[width - 1 :: width] == ord(self._padding)).any():
            texts = pc.ascii_rtrim(texts, self._padding)
        return texts, bad


def _misencoded(raw: Any, base: int) -> list[int]:
    """Return rows that are not UTF-8, found by bisection."""
    try:
        raw.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        if len(raw) == 1:
            return [base]
        half = len(raw) // 2
        return _misencoded(raw.slice(0, half), base) + _misencoded(raw.slice(half), base + half)
    return []


class _Char(_Text):
    expected = "one character of ASCII"
    reason = "another byte"

    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        data = values.view(np.uint8)
        bad = _NONE
        if len(data) and (data.max() > 127 or data.min() == 0):
            wrong = (data > 127) | (data == 0)
            bad = _rows(wrong, nulls)
            data = np.where(wrong, np.uint8(32), data)
        return characters(data, _bitmap(nulls)), bad


def native_field(field: Field, byte_order: str, padding: str, width: str | None) -> NativeField:
    """Return the field of a schema, with its ``width`` in the layout; raise `SchemaError`."""
    type_ = field.parser.arrow_type
    mark = "<" if byte_order == "little" else ">"
    if field.type == "string":
        if width is None or not 0 < int(width) <= 1 << 16:
            raise SchemaError(f"expected a width of 1 to 65536 for the string {field.name} in layout, was {width}")
        return _Text(field, int(width), "\0" if padding == "nul" else " ")
    made = _of_type(field, type_, mark)
    if width is not None and int(width) != made.width:
        raise SchemaError(f"expected {made.width} bytes for {field.name} of type {field.type}, was {width}")
    return made


def _of_type(field: Field, type_: Any, mark: str) -> NativeField:
    if field.type == "char":
        return _Char(field, 1, "\0")
    if pa.types.is_boolean(type_):
        return _Bool(field, "u1", "u1")
    if pa.types.is_decimal128(type_):
        return _Decimal(field, mark == ">")
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        dtype = np.dtype(type_.to_pandas_dtype())
        return _Plain(field, dtype.newbyteorder(mark).str, dtype.str)
    if pa.types.is_date32(type_):
        return _Plain(field, mark + "i4", "=i4")
    if pa.types.is_timestamp(type_):
        return _Plain(field, mark + "i8", "=i8")
    raise SchemaError(f"expected a type of fixed size for {field.name}, was {field.type}")
