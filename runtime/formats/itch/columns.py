"""Arrow columns of ITCH messages of all types: each field of any type is a column, NULL where a message lacks it.

The messages of a block are copied side by side, as records of one width, sorted by type. Types that share fields are
neighbours in this order. So a field is read as a few numpy slices with a stride, each over adjacent records that have
the field at the same offset. The values are then scattered to the order of the messages.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltabook.wire.itch import MESSAGES, Kind, MessageField
from runtime.formats.batches import characters
from runtime.formats.errors import SchemaError
from runtime.formats.schema import Field

__all__ = ["MESSAGE_TYPE", "PACKET_TYPE", "WIDE", "ItchColumns", "Wrong"]

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

MESSAGE_TYPE: Final = "message_type"
PACKET_TYPE: Final = "packet_type"
WIDE: Final[dict[str, MessageField]] = {field.name: field for message in MESSAGES.values() for field in message.fields}
"""Fields of messages of all types, by name; their offsets differ by type."""

_NEIGHBOURS: Final = "AFPUECXD"
"""Types of messages that share fields; neighbours have several of them at the same offset."""
_LETTERS: Final = [*_NEIGHBOURS, *(letter for letter in MESSAGES if letter not in _NEIGHBOURS)]
_TYPES: Final = len(_LETTERS)
_RANKS: Final = np.full(256, _TYPES, np.uint8)
_RANKS[[ord(letter) for letter in _LETTERS]] = np.arange(_TYPES, dtype=np.uint8)
_OFFSETS: Final = {
    name: [next((f.offset for f in MESSAGES[letter].fields if f.name == name), -1) for letter in _LETTERS] + [-1]
    for name in WIDE
}
_CHARACTERS: Final = pa.array([chr(i).rstrip(" ") for i in range(128)], pa.string())
_TYPE_LETTERS: Final = pa.array(["", *map(chr, range(1, 128))], pa.string())
_ALPHA_DTYPES: Final = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_FEW: Final = 64
"""Greatest number of messages that are read one by one: for so few, the calls of Arrow and numpy would cost more."""
_FORMATS: Final = {1: "B", 2: "H", 4: "I", 6: "6s", 8: "Q"}
"""Codes of `struct` for numbers by width."""
_BLANK: Final = 0x20
_BLANKS: Final = 0x2020202020202020
_NOT_ASCII: Final = 0x8080808080808080
_TIMESTAMP_MASK: Final = np.uint64((1 << 48) - 1)
_ZEROS: Final = pa.py_buffer(np.zeros(1 << 20, np.uint8))


class Wrong(msgspec.Struct, frozen=True, eq=False):
    """Malformed values of a column."""

    field: Field
    """Field of the column."""
    rows: Integers
    """Rows of the values."""
    expected: str
    """Description of the expected values."""
    reason: str
    """Description of the malformed values."""


class _Column:
    """Field of the schema, and its offset in messages of each type."""

    def __init__(self, field: Field, framing_header: int) -> None:
        self.field = field
        self.source = WIDE.get(field.name)
        self.arrow_type = field.parser.arrow_type
        known = self.source is not None or field.name in {MESSAGE_TYPE, PACKET_TYPE}
        if not known:
            raise SchemaError(f"expected a field of an ITCH message, was {field.name!r}")
        self.is_alpha = is_alpha = self.source is None or self.source.kind is Kind.ALPHA
        if is_alpha != bool(pa.types.is_string(self.arrow_type)) or (is_alpha and field.type != "string"):
            raise SchemaError(f"expected {self._accepted(is_alpha)} for {field.name}, was {field.type}")
        if not is_alpha:
            self.dtype = self._number_type(field)
        heartbeats = framing_header == 3
        always = {MESSAGE_TYPE} if heartbeats else {MESSAGE_TYPE, "stock_locate", "tracking_number", "timestamp"}
        if not field.nullable and field.name not in always | ({PACKET_TYPE} if heartbeats else set()):
            raise SchemaError(f"expected {field.name} to be nullable, since not every row has it")
        self.offsets = _OFFSETS.get(field.name, [])

    def _accepted(self, is_alpha: bool) -> str:
        return "string" if is_alpha else "an integer that holds the field, or timestamp(ns) for timestamp"

    def _number_type(self, field: Field) -> Any:
        assert self.source is not None
        if field.name == "timestamp" and field.type == "timestamp(ns)":
            return np.dtype(np.int64)
        if not pa.types.is_integer(self.arrow_type):
            raise SchemaError(f"expected {self._accepted(False)} for {field.name}, was {field.type}")
        dtype = np.dtype(self.arrow_type.to_pandas_dtype())
        bits = dtype.itemsize * 8 - (dtype.kind == "i")
        if bits < min(8 * self.source.width, 63):
            raise SchemaError(f"expected {self._accepted(False)} for {field.name}, was {field.type}")
        return dtype


class _Layout(msgspec.Struct, frozen=True):
    """Offsets of fields in messages of one type."""

    format: struct.Struct
    """Format of the fields, in the order of their offsets."""
    columns: tuple[int, ...]
    """Numbers of their columns."""


class ItchColumns:
    """Reader of columns of messages at given places; immutable, except for a cache that any thread may fill."""

    def __init__(self, fields: tuple[Field, ...], header: int, midnight_ns: int) -> None:
        """Prepare the reader.

        ``header`` is the number of bytes before a message's type byte; ``midnight_ns`` is added to timestamps.
        """
        self._columns = [_Column(field, header) for field in fields]
        self._header = header
        self._midnight_ns = midnight_ns
        nowhere = [-1] * (_TYPES + 1)
        offsets = np.array([column.offsets or nowhere for column in self._columns]).reshape(-1, _TYPES + 1)
        widths = np.array([column.source.width if column.source else 0 for column in self._columns]).reshape(-1, 1)
        self._layouts: dict[int, _Layout] = {}
        self._reach = np.where(offsets >= 0, offsets + widths, 0)
        """End of each column's field in messages of each type; 0 where the type lacks it."""

    def read(self, data: Bytes, at: Integers, kinds: Bytes) -> tuple[list[Any], list[Wrong]]:
        """Return the Arrow arrays of the messages at these places, and the malformed values.

        ``kinds`` are the messages' type bytes, 0 for a heartbeat. In the arrays a malformed value is 0 or blank.
        """
        if len(kinds) <= _FEW and (few := self._read_few(data, at, kinds)) is not None:
            return few, []
        slabs = _Slabs(kinds)
        reach = self._reach[:, slabs.present]
        if reach.any():
            slabs.gather(data, at + self._header, max(8, int(reach.max())))
        nulls = {column.arrow_type: None for column in self._columns}
        arrays: list[Any] = []
        wrong: list[Wrong] = []
        present: list[bool] = np.any(reach, axis=1).tolist()
        for column, is_present in zip(self._columns, present, strict=True):
            if column.source is None:
                arrays.append(self._letters(column, data, at, kinds))
            elif not is_present:
                if nulls[column.arrow_type] is None:
                    nulls[column.arrow_type] = _nulls(column.arrow_type, slabs.count)
                arrays.append(nulls[column.arrow_type])
            elif column.is_alpha:
                arrays.append(_alpha(slabs, column, slabs.spans(column), wrong))
            else:
                arrays.append(self._number(slabs, column, slabs.spans(column), wrong))
        return arrays, wrong

    def _read_few(self, data: Bytes, at: Integers, kinds: Bytes) -> list[Any] | None:
        """Return the arrays, read message by message; None if a value is malformed, for which `read` then searches."""
        count, view, header = len(kinds), memoryview(data), self._header  # type: ignore[arg-type]  # it is a buffer
        cells: list[list[Any] | None] = [None] * len(self._columns)
        for row, (place, kind) in enumerate(zip(at.tolist(), kinds.tolist(), strict=True)):
            layout = self._layouts.get(kind) or self._layout_of(kind)
            for number, value in zip(layout.columns, layout.format.unpack_from(view, place + header), strict=True):
                values = cells[number]
                if values is None:
                    values = cells[number] = [None] * count
                values[row] = value
        arrays: list[Any] = []
        nulls: dict[Any, Any] = {}
        for column, values in zip(self._columns, cells, strict=True):
            if column.source is None:
                arrays.append(self._letters(column, data, at, kinds))
            elif values is None:
                arrow_type = column.arrow_type
                if arrow_type not in nulls:
                    nulls[arrow_type] = _nulls(arrow_type, count)
                arrays.append(nulls[arrow_type])
            elif (converted := self._converted(column, values)) is not None:
                arrays.append(pa.array(converted, column.arrow_type))
            else:
                return None
        return arrays

    def _layout_of(self, kind: int) -> _Layout:
        """Return the offsets of the columns' fields in messages of a type."""
        rank = int(_RANKS[kind])
        fields = sorted((each.offsets[rank], number) for number, each in enumerate(self._columns) if each.offsets)
        parts, end = [">"], 0
        numbers = [number for offset, number in fields if offset >= 0]
        for number in numbers:
            column = self._columns[number]
            assert column.source is not None
            offset, width = column.offsets[rank], column.source.width
            parts.append(f"{offset - end}x{width}s" if column.is_alpha else f"{offset - end}x{_FORMATS[width]}")
            end = offset + width
        layout = self._layouts[kind] = _Layout(struct.Struct("".join(parts)), tuple(numbers))
        return layout

    def _letters(self, column: _Column, data: Bytes, at: Integers, kinds: Bytes) -> Any:
        """Return the type of each message, or of the packet that contains it."""
        if column.field.name == MESSAGE_TYPE:
            return characters(kinds, None) if kinds.all() else _TYPE_LETTERS.take(pa.array(kinds))
        if self._header != 3:
            return _nulls(column.arrow_type, len(kinds))
        packets = data.take(at + 2)
        return _CHARACTERS.take(pa.array(packets)) if (packets == _BLANK).any() else characters(packets, None)

    def _converted(self, column: _Column, values: list[Any]) -> list[Any] | None:
        """Convert values of messages to those of the column; return None if one is malformed."""
        assert column.source is not None
        if column.is_alpha:
            if not all(value is None or value.isascii() for value in values):
                return None
            return [None if value is None else value.decode("ascii").rstrip(" ") for value in values]
        width = column.source.width
        if width == 6:
            midnight_ns = self._midnight_ns
            return [None if value is None else midnight_ns + int.from_bytes(value, "big") for value in values]
        if width == 8 and column.dtype.kind == "i" and any(value is not None and value >> 63 for value in values):
            return None
        return values

    def _number(self, slabs: _Slabs, column: _Column, spans: list[_Span], wrong: list[Wrong]) -> Any:
        assert column.source is not None
        width = column.source.width
        values = np.zeros(slabs.count, column.dtype)
        for span in spans:
            if width == 6:  # numpy has no integers of 6 bytes: the two bytes before the field are read too, and masked
                times = slabs.slice(span, ">u8", -2).astype(np.uint64)
                times &= _TIMESTAMP_MASK
                if self._midnight_ns:
                    times += np.uint64(self._midnight_ns)
                slabs.put(values, span, times)
            else:
                slabs.put(values, span, slabs.slice(span, f">u{width}").astype(column.dtype))
        if width == 8 and column.dtype.kind == "i" and values.min() < 0:
            rows = np.flatnonzero(values < 0)
            values[rows] = 0
            wrong.append(Wrong(column.field, rows, "an integer below 2**63", "out of range"))
        return pa.Array.from_buffers(column.arrow_type, slabs.count, [slabs.validity(spans), pa.py_buffer(values)])


def _alpha(slabs: _Slabs, column: _Column, spans: list[_Span], wrong: list[Wrong]) -> Any:
    assert column.source is not None
    width = column.source.width
    values = np.concatenate([slabs.slice(span, _ALPHA_DTYPES[width]) for span in spans])
    mask = values.dtype.type(_NOT_ASCII & ((1 << 8 * width) - 1))
    if np.bitwise_or.reduce(values) & mask:
        at_fault = np.flatnonzero(values & mask)
        rows = np.sort(np.concatenate([slabs.rows(span) for span in spans])[at_fault])
        wrong.append(Wrong(column.field, rows, "ASCII characters", "a byte above 127"))
        values[at_fault] = _BLANK
    texts: Any = _CHARACTERS
    if width > 1:
        encoded = pa.array(values).dictionary_encode()
        texts = _stripped(encoded.dictionary, width)
        values = encoded.indices.to_numpy() + np.int32(1)
    indices = np.zeros(slabs.count, values.dtype)
    begin = 0
    for span in spans:
        end = begin + span.stop - span.start
        slabs.put(indices, span, values[begin:end])
        begin = end
    if width == 1 and not (values == _BLANK).any():
        return characters(indices, slabs.validity(spans))
    taken = texts.take(pa.array(indices))  # with NULLs among the indices this would take several times as long
    return pa.Array.from_buffers(pa.string(), slabs.count, [slabs.validity(spans), *taken.buffers()[1:]])


def _stripped(words: Any, width: int) -> Any:
    """Return an empty string, followed by the strings whose bytes are these integers, without trailing blanks."""
    data = pa.py_buffer(
        np.append(np.array([_BLANKS], np.uint64).astype(words.type.to_pandas_dtype()), words.to_numpy())
    )
    texts = pa.Array.from_buffers(pa.binary(width), len(words) + 1, [None, data])
    return pc.ascii_rtrim(texts.cast(pa.binary()).cast(pa.string()), " ")


def _nulls(arrow_type: Any, count: int) -> Any:
    """Return an array of NULLs; up to 1 MiB all of these arrays share their buffers."""
    zeros = _ZEROS if 8 * (count + 1) <= _ZEROS.size else pa.py_buffer(np.zeros(8 * (count + 1), np.uint8))
    buffers = [zeros, zeros, zeros] if pa.types.is_string(arrow_type) else [zeros, zeros]
    return pa.Array.from_buffers(arrow_type, count, buffers, count)


class _Span(msgspec.Struct, frozen=True):
    """Adjacent records that have a field at the same offset."""

    start: int
    """First record."""
    stop: int
    """Record after the last one."""
    offset: int
    """Offset of the field in them."""


class _Slabs:
    """Messages of a block, copied side by side as records of one width, in order of their types' ranks."""

    def __init__(self, kinds: Bytes) -> None:
        self.count = len(kinds)
        self._validity: dict[tuple[tuple[int, int], ...], Any] = {}
        rank = _RANKS.take(kinds)
        sizes = np.bincount(rank, minlength=_TYPES + 1)
        self.present = np.flatnonzero(sizes).tolist()
        """Ranks of the present types."""
        self._bounds = [0, *np.cumsum(sizes).tolist()]
        self._order = np.argsort(rank, kind="stable") if len(self.present) > 1 else None

    def gather(self, data: Bytes, at: Integers, width: int) -> None:
        """Copy the ``width`` bytes of each message that begin at its place."""
        self._width = width
        self._records = _gather(data, at if self._order is None else at.take(self._order), width)

    def spans(self, column: _Column) -> list[_Span]:
        """Return the spans of records that have the column's field."""
        spans: list[_Span] = []
        for rank in self.present:
            offset = column.offsets[rank]
            if offset < 0:
                continue
            start, stop = self._bounds[rank], self._bounds[rank + 1]
            if spans and spans[-1].stop == start and spans[-1].offset == offset:
                spans[-1] = _Span(spans[-1].start, stop, offset)
            else:
                spans.append(_Span(start, stop, offset))
        return spans

    def slice(self, span: _Span, dtype: str, shift: int = 0) -> Any:
        """Return the field's values in a span as a numpy view; ``shift`` is added to the field's offset."""
        start = span.start * self._width + span.offset + shift
        return np.ndarray((span.stop - span.start,), dtype, self._records, start, (self._width,))

    def rows(self, span: _Span) -> Any:
        """Return the row of each record in a span: its message's place in the block."""
        return np.arange(span.start, span.stop) if self._order is None else self._order[span.start : span.stop]

    def put(self, column: Any, span: _Span, values: Any) -> None:
        """Scatter values to their rows."""
        if self._order is None:
            column[span.start : span.stop] = values
        else:
            column[self._order[span.start : span.stop]] = values

    def validity(self, spans: list[_Span]) -> Any:
        """Return a bitmap of the rows of some spans; None if these are all rows."""
        key = tuple((span.start, span.stop) for span in spans)
        if key not in self._validity:
            bitmap = None
            if sum(stop - start for start, stop in key) < self.count:
                mask = np.zeros(self.count, np.bool_)
                for span in spans:
                    self.put(mask, span, True)
                bitmap = pa.py_buffer(np.packbits(mask, bitorder="little"))
            self._validity[key] = bitmap
        return self._validity[key]


def _gather(data: Bytes, at: Integers, width: int) -> Any:
    """Return the records of this width that begin at these offsets; bytes beyond the data are 0."""
    size = len(data)
    last = size - width
    if not len(at):
        return np.empty(0, f"V{width}")
    late = np.flatnonzero(at > last)
    if not late.size:
        return np.ndarray((last + 1,), f"V{width}", data, 0, (1,))[at]
    begin = max(0, last + 1)
    end = np.zeros(2 * width, np.uint8)
    end[: size - begin] = data[begin:]
    tail = np.ndarray((width + 1,), f"V{width}", end, 0, (1,))
    records = np.empty(len(at), f"V{width}")
    if last >= 0:
        records[:] = np.ndarray((last + 1,), f"V{width}", data, 0, (1,))[np.minimum(at, last)]
    records[late] = tail[np.minimum(at[late] - begin, width)]
    return records
