"""Native records: fixed size, no delimiter, fields by offset; columns are one strided copy for each field.

```
record  = [NULL bitmap] field field … [padding]
run ──arithmetic on its offset──▶ cut        block ──one strided copy for each field──▶ columns
```
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.batches import characters, record_batch
from runtime.formats.errors import SchemaError
from runtime.formats.format import (
    BadTuple,
    Block,
    InputFormatIndexer,
    ParsedBlock,
    Piece,
    Run,
    RunIndex,
    SettledIndex,
    TupleRange,
    joined_array,
)
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Field, Malformed, Schema

__all__ = ["NativeFormat"]


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
        """Type to which the values are copied."""
        self.width = self.stored.itemsize

    @abstractmethod
    def column(self, values: Any, nulls: Flags | None) -> tuple[Any, Integers]:
        """Return the Arrow array of copied values, and the rows of malformed values.

        In the rows of malformed values, and in rows that are NULL, the array has arbitrary values.
        """


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
    """Return the `NativeField` that reads ``field`` of the schema from a record; ``width`` is its width in the layout.

    ``width`` is None if the layout does not state one.

    Raise `SchemaError` if the type has another width, or if a string has no width.
    """
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


_PLACE: Final = re.compile(r"([^\s@:]+)(?:@(\d+))?(?::(\d+))?")

_TILE_BYTES: Final = 1 << 19
"""Size in bytes of the parts in which a block is copied, so that a part stays in the processor's cache."""
_LARGE_BYTES: Final = 1 << 14
"""If the pieces of a block are smaller than this on average, in bytes, they are joined into one."""


class NativeFormat(msgspec.Struct, frozen=True):
    """Binary records of one size.

    A field's type determines its bytes:

    * integers and floats: the width of the type;
    * dates: int32 days;
    * timestamps: int64 in the unit of the type;
    * bool: one byte, 0 or 1;
    * char: one byte of ASCII, except 0;
    * decimals: 16 bytes of two's complement;
    * strings: UTF-8 of the width in ``layout``; padding at the end is removed.
    """

    byte_order: Literal["little", "big"] = "little"
    """Byte order of all fields except chars and strings."""
    layout: str = ""
    """Offsets of fields and widths of strings: words ``name@offset:width``, with blanks between them. A field without
    an offset follows the previous field of the schema. Every string needs a width.
    """
    record_bytes: int = 0
    """Size of a record in bytes; 0 if a record ends with its last field."""
    null_bitmap: bool = False
    """True if a record starts with a bit for each field of the schema, from the lowest bit of the first byte on: 1 is
    NULL. Without it no field may be nullable."""
    padding: Literal["nul", "blank"] = "nul"
    """Padding of strings."""

    @property
    def name(self) -> str:
        return "native"

    def indexer(self, schema: Schema, pushdown: Pushdown) -> NativeIndexer:
        return NativeIndexer(self, schema, pushdown)

    def places(self, fields: tuple[Field, ...]) -> tuple[list[int], list[int], int]:
        """Return offset and width of each field, and the size of a record.

        Raise `SchemaError` if the layout does not fit.
        """
        given: dict[str, tuple[str | None, str | None]] = {}
        for word in self.layout.split():
            match = _PLACE.fullmatch(word)
            if match is None or match[1] in given or match[1] not in {field.name for field in fields}:
                raise SchemaError(f"expected name@offset:width of each field at most once in layout, was {word!r}")
            given[match[1]] = (match[2], match[3])
        offsets: list[int] = []
        widths: list[int] = []
        end = (len(fields) + 7) // 8 if self.null_bitmap else 0
        bitmap = end
        for field in fields:
            offset, width = given.get(field.name, (None, None))
            widths.append(native_field(field, self.byte_order, self.padding, width).width)
            offsets.append(end if offset is None else int(offset))
            end = offsets[-1] + widths[-1]
            if field.nullable and not self.null_bitmap:
                raise SchemaError(f"expected no nullable field without a null_bitmap, was {field.name}")
        size = max(offset + width for offset, width in zip(offsets, widths, strict=True))
        if min(offsets) < bitmap or (self.record_bytes and self.record_bytes < size):
            raise SchemaError(f"expected fields between {bitmap} and {self.record_bytes}, was one to {size}")
        return offsets, widths, self.record_bytes or size


class _UnplacedIndex(RunIndex):
    """Index of a run whose offset in the stream is unknown.

    The *open record* is the record that begins before the run and does not end before it. The run's cut is computed
    from the number of bytes that the open record has before the run.
    """

    __slots__ = ("_length", "_size")

    def __init__(self, length: int, size: int) -> None:
        self._length, self._size = length, size

    def cut(self, state: int) -> TupleRange:
        return _cut(self._length, state, self._size)


def _cut(length: int, state: int, size: int) -> TupleRange:
    """Return the cut of a run of ``length`` bytes.

    ``state`` is the number of bytes that the open record has before the run.
    """
    first = (size - state) % size
    last = length - (length + state) % size
    if not length or first > length:
        return TupleRange(-1, -1, (state + length) % size)
    return TupleRange(first, last, length - last)


class NativeIndexer(InputFormatIndexer):
    """Indexer of `NativeFormat`.

    A record may begin in one run and end in a later one. The state is the number of bytes of such a
    record that come before the present run.
    """

    block_bytes = 1 << 22

    def __init__(self, format_: NativeFormat, schema: Schema, pushdown: Pushdown) -> None:
        offsets, widths, self._size = format_.places(schema.fields)
        if self._size > schema.limits.tuple_bytes:
            raise SchemaError(f"expected records of at most {schema.limits.tuple_bytes} bytes, was {self._size}")
        wanted = {field.name for field in schema.select(pushdown.parsed_columns)}
        self._parsed = schema.arrow_schema(pushdown.parsed_columns)
        self._result = schema.arrow_schema(pushdown.columns)
        self._fields: list[tuple[NativeField, int, int]] = [
            (native_field(field, format_.byte_order, format_.padding, str(width)), offset, bit)
            for bit, (field, offset, width) in enumerate(zip(schema.fields, offsets, widths, strict=True))
            if field.name in wanted
        ]
        self._has_nulls = format_.null_bitmap
        self._conditions = Pushdown(conditions=pushdown.conditions)
        self._keeps_wrong = schema.malformed_nullable == Malformed.NULL
        self._described = schema.limits.described

    def index(self, run: Run) -> RunIndex:
        """Index by arithmetic: no byte is read."""
        if run.offset < 0:
            return _UnplacedIndex(run.length, self._size)
        return SettledIndex(_cut(run.length, run.offset % self._size, self._size))

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        """Return None, as a record that is cut off cannot be completed."""
        del tail, state
        return None

    def empty_rows(self) -> Any:
        return pa.RecordBatch.from_pylist([], self._result)

    def parse(self, block: Block) -> ParsedBlock:
        """Copy the block in one pass for each wanted field, into arrays that Arrow takes over."""
        size = self._size
        count = block.length // size
        tiles = self._tiles(block)
        copies = [np.empty(count, field.dtype) for field, _, _ in self._fields]
        places = [(copy, field.stored, offset) for copy, (field, offset, _) in zip(copies, self._fields, strict=True)]
        begin = 0
        for data, start, records in tiles:
            end = begin + records
            for copy, stored, offset in places:
                copy[begin:end] = np.ndarray((records,), stored, data, start + offset, (size,))
            begin = end
        arrays: list[Any] = []
        wrong: list[tuple[NativeField, Integers]] = []
        for (field, _, bit), values in zip(self._fields, copies, strict=True):
            nulls = self._nulls(tiles, count, bit) if self._has_nulls else None
            array, bad = field.column(values, nulls)
            arrays.append(array)
            if nulls is not None and not field.nullable and nulls.any():
                bad = np.union1d(bad, np.flatnonzero(nulls))
            if len(bad):
                wrong.append((field, bad))
        rows = record_batch(arrays, self._parsed, count) if not wrong else None
        refused, nulled = np.zeros(0, np.bool_), _NONE
        if rows is None:
            arrays, refused, nulled = self._judge(arrays, wrong, count)
            rows = record_batch(arrays, self._parsed, count)
        mask = self._conditions.wanted(rows)
        if refused.any():
            good = pa.array(~refused)
            mask = good if mask is None else pc.and_(mask, good)
        kept = None
        if mask is not None:
            rows = rows.filter(mask)
            kept = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
        return ParsedBlock(
            rows=rows if self._parsed == self._result else rows.select(self._result.names),
            tuples=count,
            ends=lambda: np.arange(size, size * (count + 1), size, dtype=np.int64),
            kept=kept,
            bad=self._bad(wrong),
            bad_tuples=np.flatnonzero(refused),
            nulled=nulled,
            delimiters=lambda start, stop: (stop - start) // size,
        )

    def _tiles(self, block: Block) -> list[tuple[Any, int, int]]:
        """Return parts of the block that fit the cache: bytes, an offset in them, and a number of whole records."""
        most = max(1, _TILE_BYTES // self._size)
        return [
            (data, first * self._size, min(most, records - first))
            for data, records in self._chunks(block)
            for first in range(0, records, most)
        ]

    def _chunks(self, block: Block) -> list[tuple[Any, int]]:
        """Return the block as chunks of whole records, each with its number of records.

        Large pieces are not copied. Small pieces are joined, and so are the parts of a record that continues from one
        large piece into the next.
        """
        size, pieces = self._size, block.pieces
        if block.length < _TILE_BYTES or size > _TILE_BYTES or block.length < _LARGE_BYTES * len(pieces):
            return [(block.array, block.length // size)]
        chunks: list[tuple[Any, int]] = []
        open_: list[Piece] = []
        length = 0
        for piece in pieces:
            if len(piece) >= _TILE_BYTES and length:  # only its beginning is copied
                missing = -length % size
                chunks.append((joined_array([*open_, memoryview(piece)[:missing]]), (length + missing) // size))
                piece = memoryview(piece)[missing:]  # noqa: PLW2901
                open_, length = [], 0
            open_.append(piece)
            length += len(piece)
            if length >= _TILE_BYTES or not length % size:
                data = open_[0] if len(open_) == 1 else joined_array(open_)
                chunks.append((data, length // size))
                rest = length % size
                open_, length = ([memoryview(data)[-rest:]] if rest else []), rest
        return chunks

    def _nulls(self, tiles: list[tuple[Any, int, int]], count: int, bit: int) -> Any:
        """Return which records have NULL in the field of this bit."""
        flags = np.empty(count, np.uint8)
        begin = 0
        for data, start, records in tiles:
            flags[begin : begin + records] = np.ndarray((records,), np.uint8, data, start + bit // 8, (self._size,))
            begin += records
        flags &= np.uint8(1 << bit % 8)
        return flags != 0

    def _judge(
        self, arrays: list[Any], wrong: list[tuple[NativeField, Integers]], count: int
    ) -> tuple[list[Any], Flags, Integers]:
        """Replace malformed values by NULL where the schema requires it.

        Return the arrays, a flag for each record that is True if the record is refused, and the numbers of the records
        in which a value became NULL.
        """
        refused = np.zeros(count, np.bool_)
        for field, bad in wrong:
            if not (field.nullable and self._keeps_wrong):
                refused[bad] = True
        nulled = [_NONE]
        arrays = list(arrays)
        for field, bad in wrong:
            if field.nullable and self._keeps_wrong:
                mask = np.zeros(count, np.bool_)
                mask[bad] = True
                i = self._parsed.get_field_index(field.name)
                arrays[i] = pc.if_else(pa.array(mask), pa.scalar(None, arrays[i].type), arrays[i])
                nulled.append(bad[~refused[bad]])
        return arrays, refused, np.sort(np.concatenate(nulled))

    def _bad(self, wrong: list[tuple[NativeField, Integers]]) -> tuple[BadTuple, ...]:
        """Return descriptions of the first bad records, each with the first malformed value of the record."""
        described: dict[int, BadTuple] = {}
        for field, bad in wrong:
            if field.nullable and self._keeps_wrong:
                continue
            for i in bad[: self._described].tolist():
                start = i * self._size
                bad_tuple = BadTuple(i, start, start + self._size, field.name, field.expected, field.reason)
                described.setdefault(i, bad_tuple)
        return tuple(described[i] for i in sorted(described)[: self._described])
