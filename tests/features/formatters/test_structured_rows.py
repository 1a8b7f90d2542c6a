"""Rows 18, 19, 20 and, for them, 21 and 22 of docs/features/formats.md: JSON lines, native records, ITCH 5.0."""

from __future__ import annotations

import itertools
import random
import struct
from typing import Any

import numpy as np
import pytest

from deltabook.wire.itch import MESSAGES, encode_message, frame
from runtime.formats import Block, Field, InputFormatter, Malformed, Pushdown, RawBuffer, Schema, Section
from runtime.formats.itch import itch_schema
from runtime.formats.jsonlines import JsonFormat
from runtime.formats.native import NativeFormat
from tests.conformance.formats.cutting import raw_buffers, shuffled
from tests.conformance.formats.itch_files import library_messages, random_message
from tests.features.formatters.streams import cut_after, format_bytes, format_raws, schema_of, values


def json_schema(*fields: Field, **settings: Any) -> Schema:
    return Schema(fields, format=JsonFormat(), **settings)


PAIR = json_schema(Field("n", "int64"), Field("word", "string", nullable=True))


def test_row_18_any_order_of_keys_and_unknown_ones_ignored() -> None:
    data = b'{"n":1,"word":"a"}\n{"x":[{"n":9}],"word":"b","n":2}\n {"n" : 3 , "y":{"word":"z"}, "word":"c" } \n'
    for size in (1, 3, 100):
        assert values(format_bytes(PAIR, data, size=size)) == [(1, "a"), (2, "b"), (3, "c")]


def test_row_18_a_missing_key_or_null_is_null_or_else_an_error() -> None:
    outcome = format_bytes(PAIR, b'{"n":1}\n{"n":2,"word":null}\n{"word":"a"}\n{"n":null}\n{}\n{"n":3,"word":"b"}\n')
    assert values(outcome) == [(1, None), (2, None), (3, "b")]
    assert outcome.total("bad") == 3
    assert {letter.field for letter in outcome.letters} == {"n"}


def test_row_18_nested_objects_by_path() -> None:
    bid = Field("bid", "float64", nullable=True, path="quote.bid.price")
    schema = json_schema(
        Field("ask", "int64", nullable=True, path="quote.ask"), bid, Field("quote_id", "int64", path="id")
    )
    data = b'{"id":1,"quote":{"bid":{"price":1.5},"ask":2}}\n{"id":2,"quote":{"bid":null}}\n'
    data += b'{"quote":null,"id":3}\n{"id":4}\n'
    assert values(format_bytes(schema, data, size=7)) == [
        (2, 1.5, 1),
        (None, None, 2),
        (None, None, 3),
        (None, None, 4),
    ]


def test_row_18_arrays_become_list_columns_that_unnest() -> None:
    levels = Field("levels", "array<struct<price:int64,size:int64>>")
    data = b'{"levels":[{"price":1,"size":2},{"price":3,"size":4}]}\n{"levels":[]}\n{"levels":[{"size":6,"price":5}]}\n'
    outcome = format_bytes(json_schema(levels), data)
    assert values(outcome) == [
        ([{"price": 1, "size": 2}, {"price": 3, "size": 4}],),
        ([],),
        ([{"price": 5, "size": 6}],),
    ]
    (column,) = [batch.rows.column("levels") for batch in outcome.batches if batch.rows.num_rows]
    assert column.flatten().field("price").to_pylist() == [1, 3, 5]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_row_18_escapes_and_utf8(size: int) -> None:
    """Escapes that a buffer cuts, line ends and braces inside of texts, letters of several bytes, raw and escaped."""
    texts = ["a\nb", 'say "so"', "back\\slash", "€é😀", "\t\x01", '}\n{"n":9}']
    lines = [b'{"n":1,"word":"\\ud83d\\ude00\\u00e9"}\n']
    for text in texts:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        lines.append(f'{{"n":1,"word":"{quoted}"}}\n'.replace("\x01", "\\u0001").encode())
    assert values(format_bytes(PAIR, b"".join(lines), size=size)) == [(1, "😀é"), *((1, text) for text in texts)]


@pytest.mark.parametrize(
    "wrong", [b'"1"', b"1.5", b"true", b"[1]", b'{"a":1}', b"9223372036854775808", b"1e2", b"nul", b'1}{"n":2']
)
def test_row_18_a_wrong_type_is_an_error(wrong: bytes) -> None:
    outcome = format_bytes(PAIR, b'{"n":1}\n{"n":%s}\n{"n":3}\n' % wrong)
    assert values(outcome) == [(1, None), (3, None)]
    assert outcome.letters[0].data == b'{"n":%s}' % wrong


RECORD = struct.Struct("<q4sdb")
NATIVE = NativeFormat(layout="f1:4")


def records(count: int) -> tuple[bytes, list[tuple[Any, ...]]]:
    rows = [(n * 2**40, "wxyz"[: n % 5], n / 4, n % 128) for n in range(count)]
    return b"".join(RECORD.pack(a, b.encode(), c, d) for a, b, c, d in rows), rows


@pytest.mark.parametrize("size", [1, 5, 21, 22, 1000])
def test_row_19_native_records_without_a_delimiter(size: int) -> None:
    """Fields by offset, records over any number of buffers, in any order."""
    data, rows = records(60)
    schema = schema_of(["int64", "string", "float64", "int8"], NATIVE)
    raws = cut_after(data, size)
    for seed in range(3):
        outcome = format_raws(schema, raws, shuffled(random.Random(seed), range(1, len(raws) + 1), 50))
        assert values(outcome) == rows
        assert outcome.ends == list(range(21, 21 * 60 + 1, 21))


def test_row_19_fields_stand_where_the_layout_says() -> None:
    schema = schema_of(["int64", "int8"], NativeFormat(layout="f0@4 f1@1", record_bytes=16, byte_order="big"))
    data = b"".join(struct.pack(">xbxxqxxxx", n, -n) for n in range(9))
    assert values(format_bytes(schema, data, size=11)) == [(-n, n) for n in range(9)]


def test_row_19_a_record_that_the_end_cuts_off_is_bad() -> None:
    data, rows = records(3)
    outcome = format_bytes(schema_of(["int64", "string", "float64", "int8"], NATIVE), data[:-1])
    assert values(outcome) == rows[:2]
    assert (outcome.total("bad"), outcome.letters[0].byte_offset) == (1, 42)


def test_row_19_a_field_of_contiguous_records_is_copied_once() -> None:
    """Indexing looks at no byte, and parsing makes one column a field: no text, no object a value."""
    indexer = NativeFormat().indexer(schema_of(["int64"], NativeFormat()), Pushdown())
    data = np.arange(100_000, dtype=np.int64).tobytes()
    parsed = indexer.parse(Block([memoryview(data)], [Section(0, len(data))]))
    column = parsed.rows.column(0)
    assert column.buffers()[1].size == len(data)
    assert column.to_numpy(zero_copy_only=True).tobytes() == data


@pytest.mark.parametrize("letter", sorted(MESSAGES))
def test_row_20_every_message_type(letter: str) -> None:
    """All 23, each byte of them cut, against the reader of others."""
    rng = random.Random(letter)
    data = b"".join(frame(random_message(rng, letter)) for _ in range(10))
    schema = itch_schema()
    expected = list(library_messages(data))
    names = ["message_type", *(field.name for field in MESSAGES[letter].fields)]
    for size in (1, 7, 10_000):
        raws = cut_after(data, size)
        outcome = format_raws(schema, raws, shuffled(rng, range(1, len(raws) + 1), 20))
        rows = [row for batch in outcome.batches for row in batch.rows.to_pylist()]
        assert [{name: row[name] for name in names} for row in rows] == expected
        assert all(value is None for row in rows for name, value in row.items() if name not in names)


def test_row_20_messages_span_buffers() -> None:
    """Cut within the length prefix, behind it, and within the message; the three buffers in any order."""
    data = b"".join(frame(encode_message("D", order_reference_number=n)) for n in range(3))
    schema = Schema((Field("order_reference_number", "int64", nullable=True),), format=itch_schema().format)
    orders = list(itertools.permutations((1, 2, 3)))
    for turn, places in enumerate(itertools.combinations(range(1, len(data)), 2)):
        assert values(format_raws(schema, raw_buffers(data, places), orders[turn % 6])) == [(0,), (1,), (2,)]


def test_row_20_an_unknown_message_is_skipped_by_length() -> None:
    good = frame(encode_message("D", order_reference_number=7))
    wrong = [b"?" * 19, b"D" * 12, b"", b"?", b"?" * 255, b"?" * 256, b"?" * 1000]
    data = good + b"".join(map(frame, wrong)) + good
    for size in (1, 5, 300, 10_000):
        outcome = format_bytes(itch_schema(), data, size=size)
        assert [row[0] for row in values(outcome)] == ["D", "D"]
        assert (outcome.total("tuples"), outcome.total("bad")) == (9, 7)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_row_21_least_and_greatest_integer_in_json_and_native(bits: int) -> None:
    signed, unsigned = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), (0, 2**bits - 1)
    types = [f"int{bits}", f"uint{bits}"]
    rows = list(zip(signed, unsigned, strict=True))
    lines = "".join(f'{{"f0":{low},"f1":{high}}}\n' for low, high in rows).encode()
    assert values(format_bytes(schema_of(types, JsonFormat()), lines)) == rows
    packed = b"".join(
        low.to_bytes(bits // 8, "little", signed=True) + high.to_bytes(bits // 8, "little") for low, high in rows
    )
    assert values(format_bytes(schema_of(types, NativeFormat()), packed)) == rows
    beyond = f'{{"f0":{signed[1] + 1},"f1":0}}\n{{"f0":0,"f1":{unsigned[1] + 1}}}\n{{"f0":0,"f1":-1}}\n'.encode()
    assert format_bytes(schema_of(types, JsonFormat()), beyond).total("bad") == 3


def test_row_22_null_by_a_bit_in_native_records() -> None:
    schema = schema_of(["int8?", "int8"], NativeFormat(null_bitmap=True))
    outcome = format_bytes(schema, b"\x00\x01\x02\x01\x03\x04\x02\x05\x06")
    assert values(outcome) == [(1, 2), (None, 4)]
    assert outcome.letters[0].field == "f1"


@pytest.mark.parametrize("form", ["json", "native", "itch"])
def test_row_23_policies_hold_in_every_format(form: str) -> None:
    """A bad tuple between good ones: skipped and counted, described, or the end of the stream."""
    if form == "json":
        schema, pieces = PAIR, [b'{"n":1}\n', b'{"n":"x"}\n', b'{"n":3}\n']
    elif form == "native":
        schema, pieces = schema_of(["bool"], NativeFormat()), [b"\x00", b"\x07", b"\x01"]
    else:
        schema, good = itch_schema(), frame(encode_message("D", order_reference_number=1))
        pieces = [good, frame(b"?"), good]
    for policy, kept in ((Malformed.SKIP, 2), (Malformed.DEAD_LETTER, 2), (Malformed.FAIL, 1)):
        strict = Schema(schema.fields, format=schema.format, malformed=policy)
        for size in (1, 1000):
            outcome = format_bytes(strict, b"".join(pieces), size=size)
            assert len(values(outcome)) == kept
            letter = outcome.failure if policy is Malformed.FAIL else next(iter(outcome.letters), None)
            assert (letter is None) == (policy is Malformed.SKIP)
            assert letter is None or (letter.row, letter.byte_offset) == (1, len(pieces[0]))
            if policy is not Malformed.FAIL:
                assert outcome.total("bad") == 1


def test_row_24_too_long_and_too_deep_in_json() -> None:
    deep = b'{"n":1,"x":' + b"[" * 40 + b"]" * 40 + b"}\n"
    long = b'{"n":2,"word":"' + b"x" * 70_000 + b'"}\n'
    formatter = InputFormatter(PAIR)
    batches = formatter.format([RawBuffer(1, 1, deep + long + b'{"n":3}\n', 0)]).batches
    assert [row["n"] for batch in batches for row in batch.rows.to_pylist()] == [3]
    assert sum(batch.bad for batch in batches) == 2
