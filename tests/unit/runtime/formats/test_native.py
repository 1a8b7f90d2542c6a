"""Native records: every type in both byte orders, any cuts, NULLs, what is no value, layouts."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from runtime.formats import (
    Condition,
    Field,
    InOrder,
    InputFormatter,
    Limits,
    Malformed,
    Pushdown,
    RawBuffer,
    Run,
    Schema,
    SchemaError,
)
from runtime.formats.native import NativeFormat

Order = Literal["little", "big"]
ORDERS: tuple[Order, ...] = ("little", "big")
NUMBERS = (
    *(("int8", "b"), ("int16", "h"), ("int32", "i"), ("int64", "q")),
    *(("uint8", "B"), ("uint16", "H"), ("uint32", "I"), ("uint64", "Q")),
)
_ALL = Pushdown()


def pack(types: Sequence[str], row: Sequence[Any], order: Order, width: int = 6) -> bytes:
    """One record, field behind field."""
    letters = {**dict(NUMBERS), "float32": "f", "float64": "d", "bool": "?", "date": "i", "timestamp(us)": "q"}
    parts = []
    for type_, value in zip(types, row, strict=True):
        if type_ == "string":
            parts.append(value.encode().ljust(width, b"\0"))
        elif type_ == "char":
            parts.append(value.encode())
        elif type_.startswith("decimal"):
            parts.append(int(value.scaleb(2)).to_bytes(16, order, signed=True))
        else:
            parts.append(struct.pack(("<" if order == "little" else ">") + letters[type_], value))
    return b"".join(parts)


def schema_of(types: Sequence[str], format_: NativeFormat, **options: Any) -> Schema:
    fields = tuple(Field(f"f{i}", type_) for i, type_ in enumerate(types))
    return Schema(fields, format=format_, **options)


def formatted(
    schema: Schema, buffers: Sequence[bytes], pushdown: Pushdown = _ALL, *, placed: bool = True, shuffle: int = 0
) -> list[Any]:
    """The batches in stream order; ``placed``: whether offsets are known."""
    formatter, order = InputFormatter(schema, pushdown), InOrder(1 << 16)
    raws = []
    offset = 0
    for number, data in enumerate(buffers, start=1):
        raws.append(RawBuffer(1, number, data, offset if placed else -1))
        offset += len(data)
    if shuffle:
        random.Random(shuffle).shuffle(raws)
    batches = []
    while raws:
        result = formatter.format([raws.pop(0)])
        batches += order.add(result.batches)
        raws += result.again
    return [*batches, *order.add(formatter.finish(1))]


def values(batches: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.rows.to_pylist()]


def split(data: bytes, most: int, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    buffers = []
    while data:
        size = rng.randint(1, most)
        buffers.append(data[:size])
        data = data[size:]
    return buffers


def pa_value(type_: str, value: int) -> Any:
    return pa.scalar(value, pa.date32() if type_ == "date" else pa.timestamp("us")).as_py()


class TestTypes:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize(("type_", "letter"), NUMBERS)
    def test_integers_have_their_whole_range(self, type_: str, letter: str, order: Order) -> None:
        bits = 8 * struct.calcsize("<" + letter)
        ends = (0, 1 << bits) if type_.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
        rows = [(ends[0],), (0,), (ends[1] - 1,)]
        data = b"".join(pack((type_,), row, order) for row in rows)
        assert values(formatted(schema_of((type_,), NativeFormat(order)), [data])) == rows

    @pytest.mark.parametrize("order", ORDERS)
    def test_floats_bools_dates_times_characters_and_texts(self, order: Order) -> None:
        types = ("float32", "float64", "bool", "date", "timestamp(us)", "char", "string")
        rows: list[tuple[Any, ...]] = [
            (-0.5, 1.7976931348623157e308, True, 0, 0, "B", "ACME"),
            (float("inf"), 5e-324, False, -1, -1, " ", ""),
            (1.5, 0.1, True, 2_000_000, 2**52, "~", "äöü"),
        ]
        data = b"".join(pack(types, row, order) for row in rows)
        found = values(formatted(schema_of(types, NativeFormat(order, layout="f6:6")), [data]))
        assert found == [(*row[:3], pa_value("date", row[3]), pa_value("", row[4]), *row[5:]) for row in rows]

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("digits", [5, 18, 19, 38])
    def test_decimals_have_their_digits_and_no_more(self, digits: int, order: Order) -> None:
        type_, most = f"decimal({digits},2)", 10**digits
        good = [0, 1, -1, most - 1, 1 - most]
        bad = [most, -most, -(1 << 127), *([most << 40] if digits < 38 else [])]
        data = b"".join(number.to_bytes(16, order, signed=True) for number in [*good, *bad])
        batches = formatted(schema_of((type_,), NativeFormat(order)), [data])
        assert [str(row[0]) for row in values(batches)] == [
            f"{'-' if number < 0 else ''}{abs(number) // 100}.{abs(number) % 100:02}" for number in good
        ]
        assert [letter.row for batch in batches for letter in batch.dead] == list(
            range(len(good), len(good) + len(bad))
        )

    def test_types_without_a_fixed_size_are_refused(self) -> None:
        for type_ in ("array<int64>", "struct<a:int64>"):
            with pytest.raises(SchemaError, match="expected a type of fixed size for f0"):
                InputFormatter(schema_of((type_,), NativeFormat()))


class TestCuts:
    @pytest.mark.parametrize("placed", [True, False])
    @pytest.mark.parametrize("most", [1, 2, 7, 33, 400])
    def test_any_buffers_in_any_order_give_the_same_records(self, most: int, placed: bool) -> None:
        types = ("int32", "char", "int64", "string")
        rows = [(i - 50, chr(65 + i % 26), i << 40, "x" * (i % 7)) for i in range(120)]
        data = b"".join(pack(types, row, "little") for row in rows)
        schema = schema_of(types, NativeFormat(layout="f3:6"))
        for seed in range(1, 4):
            batches = formatted(schema, split(data, most, seed), placed=placed, shuffle=seed)
            assert values(batches) == rows
            assert [end for batch in batches for end in batch.row_ends] == [19 * i for i in range(1, 121)]

    def test_where_records_end_follows_from_the_place_alone(self) -> None:
        indexer = NativeFormat().indexer(schema_of(("int64",), NativeFormat()), Pushdown())
        for length, offset, first, last, state in (
            *((0, 3, -1, -1, 3), (4, 3, -1, -1, 7), (5, 3, 5, 5, 0), (4, 0, 0, 0, 4)),
            *((8, 0, 0, 8, 0), (20, 16, 0, 16, 4), (20, 17, 7, 15, 5)),
        ):
            run = Run([bytes(length)], offset)
            settled = indexer.index(run).settled
            assert settled is not None
            assert (settled.first, settled.last, settled.end_state) == (first, last, state)
            assert indexer.index(Run([bytes(length)], -1)).settled is None
            assert indexer.index(Run([bytes(length)], -1)).cut(offset % 8) == settled

    def test_a_record_that_is_cut_off_at_the_end_is_told(self) -> None:
        batches = formatted(schema_of(("int64",), NativeFormat()), [bytes(8), bytes(5)])
        assert values(batches) == [(0,)]
        assert sum(batch.bad for batch in batches) == 1


class TestNulls:
    def test_a_bit_for_each_field_says_null(self) -> None:
        fields = tuple(Field(f"f{i}", "int16", nullable=i != 1) for i in range(10))
        schema = Schema(fields, format=NativeFormat(null_bitmap=True))
        nulls = [0b00_0000_0000, 0b10_0000_0001, 0b01_1111_1101]
        data = b"".join(struct.pack("<H10h", bits, *range(10)) for bits in nulls)
        expected = [tuple(None if bits >> i & 1 else i for i in range(10)) for bits in nulls]
        assert values(formatted(schema, split(data, 5, 1))) == expected

    def test_what_stands_in_a_null_is_not_looked_at(self) -> None:
        types = ("bool", "string", "char", "decimal(3,0)")
        fields = tuple(Field(f"f{i}", type_, nullable=True) for i, type_ in enumerate(types))
        schema = Schema(fields, format=NativeFormat(null_bitmap=True, layout="f1:3"))
        batches = formatted(schema, [b"\x0f" + b"\xff" * 21])
        assert values(batches) == [(None,) * 4]
        assert sum(batch.nulled + batch.bad for batch in batches) == 0

    def test_without_a_bitmap_no_field_may_be_nullable(self) -> None:
        with pytest.raises(SchemaError, match="expected no nullable field without a null_bitmap, was a"):
            InputFormatter(Schema((Field("a", "int8", nullable=True),), format=NativeFormat()))

    def test_null_in_a_field_that_is_not_nullable_is_malformed(self) -> None:
        schema = Schema((Field("a", "int8"), Field("b", "int8")), format=NativeFormat(null_bitmap=True))
        batches = formatted(schema, [b"\x00\x01\x02\x02\x03\x04"])
        assert values(batches) == [(1, 2)]
        assert [(letter.field, letter.row) for batch in batches for letter in batch.dead] == [("b", 1)]


class TestMalformed:
    RECORDS = (b"\x01ok\0A", b"\x02ok\0A", b"\x00\xff\xfe\0A", b"\x00\xc3\xa4xA", b"\x00ok\0\x80", b"\x00ok\0\0")

    def schema(self, *, nullable: bool = False, **options: Any) -> Schema:
        fields = (Field("a", "bool", nullable), Field("b", "string", nullable), Field("c", "char", nullable))
        return Schema(fields, format=NativeFormat(layout="b:3", null_bitmap=nullable), **options)

    def test_the_others_stay_and_each_bad_one_is_described(self) -> None:
        batches = formatted(self.schema(), [b"".join(self.RECORDS)])
        assert values(batches) == [(True, "ok", "A"), (False, "äx", "A")]
        letters = [letter for batch in batches for letter in batch.dead]
        assert [(letter.row, letter.field, letter.byte_offset) for letter in letters] == [
            *((1, "a", 5), (2, "b", 10), (4, "c", 20), (5, "c", 25)),
        ]
        assert letters[0].data == self.RECORDS[1]

    def test_in_nullable_fields_they_become_null_and_are_counted(self) -> None:
        batches = formatted(self.schema(nullable=True), [b"".join(b"\0" + record for record in self.RECORDS)])
        assert values(batches)[1:3] == [(None, "ok", "A"), (False, None, "A")]
        assert sum(batch.nulled for batch in batches) == 4

    def test_or_make_their_record_bad_where_the_schema_says_so(self) -> None:
        schema = self.schema(nullable=True, malformed_nullable=Malformed.SKIP)
        batches = formatted(schema, [b"".join(b"\0" + record for record in self.RECORDS)])
        assert len(values(batches)) == 2
        assert sum(batch.bad for batch in batches) == 4


class TestLayout:
    def test_fields_stand_where_the_layout_says(self) -> None:
        fields = (Field("b", "int16"), Field("a", "int8"), Field("s", "string"), Field("c", "int8"))
        schema = Schema(fields, format=NativeFormat(layout="b@4 a@0 s@8:3", record_bytes=16, padding="blank"))
        records = [b"\x01...\x02\x00..ab \x03....", b"\x04...\x05\x00..   \x06...."]
        assert values(formatted(schema, [b"".join(records)])) == [(2, 1, "ab", 3), (5, 4, "", 6)]

    @pytest.mark.parametrize(
        ("format_", "text"),
        [
            (NativeFormat(), "expected a width"),
            (NativeFormat(layout="f1:0"), "expected a width"),
            (NativeFormat(layout="f1:4 f0:3"), "expected 8 bytes for f0"),
            (NativeFormat(layout="f1:4 f1:4"), "at most once"),
            (NativeFormat(layout="f1:4 f9"), "expected name@offset:width"),
            (NativeFormat(layout="f1:4 f0@x"), "expected name@offset:width"),
            (NativeFormat(layout="f1:4", record_bytes=11), "expected fields between 0 and 11"),
            (NativeFormat(layout="f0@0 f1:4", null_bitmap=True), "expected fields between 1"),
        ],
    )
    def test_a_layout_that_makes_no_sense_is_refused(self, format_: NativeFormat, text: str) -> None:
        with pytest.raises(SchemaError, match=text):
            InputFormatter(schema_of(("int64", "string"), format_))

    def test_a_record_beyond_the_limit_is_refused(self) -> None:
        with pytest.raises(SchemaError, match="expected records of at most 10 bytes, was 16"):
            InputFormatter(schema_of(("int64", "int64"), NativeFormat(), limits=Limits(tuple_bytes=10)))


class TestPushdown:
    def test_only_wanted_columns_and_records_are_read(self) -> None:
        schema = schema_of(("int8", "bool", "int8"), NativeFormat())
        data = bytes([1, 9, 10, 2, 9, 20, 3, 9, 30])
        batches = formatted(schema, [data], Pushdown(("f2",), (Condition("f0", ">", 1),)))
        assert values(batches) == [(20,), (30,)]
        assert (sum(b.filtered for b in batches), sum(b.bad for b in batches)) == (1, 0)
        assert [number for batch in batches for number in batch.tuple_numbers] == [1, 2]

    def test_without_columns_records_are_counted(self) -> None:
        batches = formatted(schema_of(("int8",), NativeFormat()), [bytes(7)], Pushdown(()))
        assert sum(batch.rows.num_rows for batch in batches) == 7


@pytest.mark.parametrize("record_bytes", [8, 41, 600_000])
@pytest.mark.parametrize("buffer_bytes", [30_000, 200_000, 1_500_000])
def test_large_buffers_are_copied_by_whole_records(record_bytes: int, buffer_bytes: int) -> None:
    schema = schema_of(["int64"], NativeFormat(record_bytes=record_bytes), limits=Limits(tuple_bytes=1 << 20))
    count = 12_000_000 // record_bytes
    records = np.zeros((count, record_bytes), np.uint8)
    records[:, :8] = np.arange(count).view(np.uint8).reshape(count, 8)
    data = records.tobytes()
    cuts = [data[i : i + buffer_bytes] for i in range(0, len(data), buffer_bytes)]
    raws = [RawBuffer(1, i + 1, piece, i * buffer_bytes) for i, piece in enumerate(cuts)]
    formatter, order = InputFormatter(schema), InOrder(1 << 16)
    random.Random(1).shuffle(raws)

    half = formatter.format(raws[::2]).batches
    batches = [*order.add(half), *order.add(formatter.format(raws[1::2]).batches)]

    rows = pa.concat_arrays([batch.rows.column(0) for batch in batches])
    assert np.array_equal(rows.to_numpy(), np.arange(count))
    ends = np.concatenate([batch.row_ends for batch in batches])
    assert np.array_equal(ends, np.arange(record_bytes, record_bytes * count + 1, record_bytes))
