"""Rows 17, 22, 23, 24 and, for text, 21 of docs/features/formats.md: CSV files, NULL, malformed values, limits."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from typing import Any

import pyarrow.compute as pc
import pytest

from runtime.formats import CsvFormat, Field, InputFormatter, Limits, Malformed, Schema
from tests.conformance.formats.cutting import raw_buffers, shuffled
from tests.conformance.formats.drive import Outcome, drive
from tests.features.formatters.streams import cut_after, format_bytes, format_raws, in_pieces, schema_of, values

QUOTED = CsvFormat(quoting=True)
LETTERS, SKIP, FAIL, NULL = Malformed.DEAD_LETTER, Malformed.SKIP, Malformed.FAIL, Malformed.NULL


@pytest.mark.parametrize("field_delimiter", [b",", b";", b"|", b"\t"])
@pytest.mark.parametrize("tuple_delimiter", [b"\n", b"$", b"\x00", b"\r\n"])
def test_row_17_delimiters_are_configured(field_delimiter: bytes, tuple_delimiter: bytes) -> None:
    schema = schema_of(["int64", "string"], CsvFormat(field_delimiter=field_delimiter, tuple_delimiter=tuple_delimiter))
    data = b"".join(b"%d%sw%d%s" % (n, field_delimiter, n, tuple_delimiter) for n in range(9))
    for size in (1, 2, 100):
        assert values(format_bytes(schema, data, size=size)) == [(n, f"w{n}") for n in range(9)]


def test_row_17_a_carriage_return_belongs_to_the_line_end() -> None:
    schema = schema_of(["int64", "string"])
    for size in (1, 2, 3, 50):
        outcome = format_bytes(schema, b"1,a\r\n2,b\n\r\n3,\r\n", size=size)
        assert values(outcome) == [(1, "a"), (2, "b"), (3, "")]
        assert outcome.total("tuples") == 3
        faulty = format_bytes(schema, b"x,a\r\n\r\n2,b\r\n", size=size)
        assert (faulty.total("tuples"), [letter.data for letter in faulty.letters]) == (2, [b"x,a"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a,b"', "a,b"),
        ('"say ""so"""', 'say "so"'),
        ('"two\nlines"', "two\nlines"),
        ('"two\r\nlines\n"', "two\r\nlines\n"),
        ('""', ""),
        ('"\n"', "\n"),
        ('"""\n,"""', '"\n,"'),
    ],
)
def test_row_17_quoted_fields_wherever_a_buffer_ends(text: str, value: str) -> None:
    """With delimiter, quote and newline inside; every two cuts, and any order of the three buffers."""
    schema = schema_of(["int64", "string", "int64"], QUOTED)
    data = f'1,x,1\n2,{text},2\n3,"y",3\n'.encode()
    expected = [(1, "x", 1), (2, value, 2), (3, "y", 3)]
    orders = list(itertools.permutations((1, 2, 3)))
    for turn, places in enumerate(itertools.combinations(range(1, len(data)), 2)):
        assert values(format_raws(schema, raw_buffers(data, places), orders[turn % 6])) == expected


def test_row_17_the_state_of_quotes_is_settled_late() -> None:
    """Hundreds of tiny buffers inside and outside of quotes; the first one comes last, so that all are speculated."""
    schema = schema_of(["int64", "string"], QUOTED)
    rows = [(n, '\n,"' * (n % 7) + str(n)) for n in range(100)]
    data = b"".join(b'%d,"%s"\n' % (n, text.replace('"', '""').encode()) for n, text in rows)
    raws = cut_after(data, 3)
    assert values(format_raws(schema, [*raws[1:], raws[0]])) == rows
    for seed in range(3):
        rng = random.Random(seed)
        order = shuffled(rng, raws, 100)
        assert values(drive(InputFormatter(schema), order, rng, workers=4, most_bytes=50)[1]) == rows


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_row_17_escapes(size: int) -> None:
    schema = schema_of(["string", "int64"], CsvFormat(quoting=True, escape=b"\\"))
    data = rb'"a\"b",1' + b"\n" + rb'"c\\",2' + b"\n" + rb"d\,e,3" + b"\n" + b'"f\\\ng",4\n"h\\"\ni",5\n'
    assert values(format_bytes(schema, data, size=size)) == [
        ('a"b', 1),
        ("c\\", 2),
        ("d,e", 3),
        ("f\ng", 4),
        ('h"\ni', 5),
    ]


def test_row_17_empty_fields_and_surrounding_blanks() -> None:
    schema = schema_of(["string", "int64?", "string"], CsvFormat(trim=True))
    assert values(format_bytes(schema, b" a , 1\t,\n,, \n\tb c,  ,d\n")) == [
        ("a", 1, ""),
        ("", None, ""),
        ("b c", None, "d"),
    ]
    assert values(format_bytes(schema_of(["string", "string"]), b" a , \n")) == [(" a ", " ")]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_row_17_a_header_or_none(size: int) -> None:
    data = b"f0,f1\n1,a\n2,b\n"
    outcome = format_bytes(schema_of(["int64", "string"], CsvFormat(header=True)), data, size=size)
    assert values(outcome) == [(1, "a"), (2, "b")]
    assert (outcome.total("tuples"), outcome.total("bad")) == (2, 0)
    without = format_bytes(schema_of(["int64", "string"]), data, size=size)
    assert (without.total("tuples"), without.total("bad")) == (3, 1)


def test_row_17_three_hundred_columns() -> None:
    schema = schema_of(["int64"] * 320)
    data = b"".join(b",".join(b"%d" % (n * column) for column in range(320)) + b"\n" for n in range(20))
    expected = [tuple(n * column for column in range(320)) for n in range(20)]
    for size in (7, 1000, 1 << 20):
        assert values(format_bytes(schema, data, size=size)) == expected


BOUNDS: list[tuple[str, str, Any]] = [
    *((f"int{n}", str(value), value) for n in (8, 16, 32, 64) for value in (-(2 ** (n - 1)), 2 ** (n - 1) - 1)),
    *((f"uint{n}", str(value), value) for n in (8, 16, 32, 64) for value in (0, 2**n - 1)),
    ("float64", "1.7976931348623157e308", 1.7976931348623157e308),
    ("float64", "-2.2250738585072014e-308", -2.2250738585072014e-308),
    ("float32", "3.4028234663852886e38", 3.4028234663852886e38),
    ("float32", "-1.1754943508222875e-38", -1.1754943508222875e-38),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(9,2)", "-9999999.99", Decimal("-9999999.99")),
    ("bool", "true", True),
    ("bool", "false", False),
    ("char", "€", "€"),
    ("string", "x" * 60_000, "x" * 60_000),
]


@pytest.mark.parametrize(("type_name", "text", "value"), BOUNDS, ids=lambda part: str(part)[:12])
def test_row_21_least_and_greatest_value_in_text(type_name: str, text: str, value: Any) -> None:
    outcome = format_bytes(schema_of(["int8", type_name]), f"1,{text}\n".encode(), size=1000)
    assert values(outcome) == [(1, value)]


@pytest.mark.parametrize(("type_name", "texts"), [
    ("int8", ("-129", "128")), ("int16", ("-32769", "32768")), ("int32", ("-2147483649", "2147483648")),
    ("int64", (f"-{2**63 + 1}", f"{2**63}")), ("uint8", ("-1", "256")), ("uint16", ("-1", "65536")),
    ("uint32", ("-1", f"{2**32}")), ("uint64", ("-1", f"{2**64}")), ("decimal(9,2)", ("10000000.00", "1.234")),
    ("bool", ("2", "yes")), ("char", ("", "ab")), ("timestamp(s)", ("2026-11-21 24:00:01", "x")),
])  # fmt: skip
def test_row_21_what_is_beyond_is_malformed(type_name: str, texts: tuple[str, ...]) -> None:
    schema = schema_of(["int8", type_name])
    for text in texts:
        outcome = format_bytes(schema, f"1,{text}\n".encode())
        assert (outcome.total("bad"), values(outcome)) == (1, [])


@pytest.mark.parametrize(
    ("unit", "least", "greatest"),
    [
        ("s", "0000-01-01 00:00:00", "9999-12-31 23:59:59"),
        ("ms", "0000-01-01 00:00:00.000", "9999-12-31 23:59:59.999"),
        ("us", "0000-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999"),
        ("ns", "1677-09-21 00:12:44.000000000", "2262-04-11 23:47:16.854775807"),
    ],
)
def test_row_21_least_and_greatest_timestamp(unit: str, least: str, greatest: str) -> None:
    """Of nanoseconds as far as whole seconds go into an int64."""
    outcome = format_bytes(schema_of([f"timestamp({unit})"] * 2), f"{least},{greatest}\n".encode())
    (columns,) = [batch.rows.columns for batch in outcome.batches if batch.rows.num_rows]
    assert [pc.strftime(column, format="%Y-%m-%d %H:%M:%S")[0].as_py() for column in columns] == [least, greatest]


@pytest.mark.parametrize(("null_values", "text"), [(("",), ""), (("NULL",), "NULL"), (("", "n/a"), "n/a")])
@pytest.mark.parametrize("type_name", ["int64", "float64", "bool", "decimal(9,2)", "timestamp(s)", "string", "char"])
def test_row_22_null_by_word_or_by_an_empty_field(null_values: tuple[str, ...], text: str, type_name: str) -> None:
    schema = schema_of(["int8", f"{type_name}?"], null_values=null_values)
    outcome = format_bytes(schema, f"1,{text}\n".encode())
    assert values(outcome) == [(1, None)]
    assert outcome.total("nulled") == 0
    strict = format_bytes(schema_of(["int8", type_name], null_values=null_values), f"1,{text}\n".encode())
    if type_name == "string":
        assert values(strict) == [(1, text)]
    else:
        assert (values(strict), strict.total("bad")) == ([], 1)


FAULTY = b"1,10\n2,x\n3,30\n4,\xff\n5,50\n"


def faulty(nullable: bool, policy: Malformed, size: int = 4) -> Outcome:
    schema = Schema((Field("n", "int64"), Field("v", "int64", nullable=nullable)), CsvFormat(), malformed=policy)
    return format_bytes(schema, FAULTY, size=size)


def test_row_23_a_malformed_nullable_value_is_null() -> None:
    for size in (1, 4, 100):
        outcome = faulty(True, LETTERS, size)
        assert values(outcome) == [(1, 10), (2, None), (3, 30), (4, None), (5, 50)]
        assert (outcome.total("nulled"), outcome.total("bad"), outcome.letters) == (2, 0, [])


def test_row_23_skip_counts_and_loses_nothing_else() -> None:
    for size in (1, 4, 100):
        outcome = faulty(False, SKIP, size)
        assert values(outcome) == [(1, 10), (3, 30), (5, 50)]
        assert (outcome.total("tuples"), outcome.total("bad"), outcome.letters) == (5, 2, [])


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_row_23_a_dead_letter_has_its_tuple_and_place(size: int) -> None:
    outcome = faulty(False, LETTERS, size)
    assert values(outcome) == [(1, 10), (3, 30), (5, 50)]
    first, second = outcome.letters
    assert (first.data, first.row, first.byte_offset, first.field) == (b"2,x", 1, 5, "v")
    assert (second.data, second.row, second.byte_offset, second.field) == (b"4,\xff", 3, 14, "v")
    assert [letter.sequence_number for letter in (first, second)] == [(9 - 1) // size + 1, (18 - 1) // size + 1]


def test_row_23_letters_of_several_origins_in_one_call() -> None:
    """Each counts from the start of its own stream."""
    schema = schema_of(["int64"])
    raws = [*in_pieces([b"1\n2\nx\n"], 1), *in_pieces([b"1\n", b"y\n3\n"], 2)]
    outcomes = drive(InputFormatter(schema), raws, random.Random(0), most=1000)
    places = {origin: [(x.row, x.byte_offset, x.data) for x in outcome.letters] for origin, outcome in outcomes.items()}
    assert places == {1: [(2, 4, b"x")], 2: [(1, 2, b"y")]}


@pytest.mark.parametrize("size", [1, 4, 100])
def test_row_23_fail_names_everything(size: int) -> None:
    """Sequence number, row, column, expected type and the bytes, escaped; nothing of the stream follows."""
    outcome = faulty(False, FAIL, size)
    assert values(outcome) == [(1, 10)]
    failure = outcome.failure
    assert failure is not None
    said = str(failure)
    for part in (f"buffer {(9 - 1) // size + 1}", "row 1", "byte 5", "field v", "int64", "b'2,x'", "origin 1"):
        assert part in said
    assert r"\xff" in str(faulty(False, LETTERS).letters[1])


def test_row_23_long_bytes_are_cut() -> None:
    outcome = format_bytes(schema_of(["int64"]), b"x" * 5000 + b"\n1\n")
    assert values(outcome) == [(1,)]
    assert outcome.letters[0].data == b"x" * 256
    assert len(str(outcome.letters[0])) < 1000


@pytest.mark.parametrize("policy", [LETTERS, SKIP, FAIL])
@pytest.mark.parametrize("bad", [b"2", b"2,b,c", b"2,b" + b"x" * 2000], ids=["few", "many", "long"])
@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_row_24_number_of_fields_and_length_of_a_tuple(policy: Malformed, bad: bytes, size: int) -> None:
    schema = schema_of(["int64", "string"], malformed=policy, limits=Limits(tuple_bytes=1000))
    data = b"1,a\n" + bad + b"\n3,c\n"
    outcome = format_bytes(schema, data, size=size)
    letter = outcome.failure if policy is FAIL else next(iter(outcome.letters), None)
    if policy is FAIL:
        assert values(outcome) == [(1, "a")]
    else:
        assert values(outcome) == [(1, "a"), (3, "c")]
        assert (outcome.total("tuples"), outcome.total("bad")) == (3, 1)
    if policy is SKIP:
        assert letter is None
        return
    assert letter is not None
    assert (letter.row, letter.byte_offset, letter.data) == (1, 4, bad[:256])
    assert ("1000 bytes" if len(bad) > 1000 else "2 fields") in letter.expected


def test_row_24_a_tuple_without_end_is_not_held() -> None:
    """The bound holds while the tuple comes in: its bytes are counted, not kept."""
    formatter = InputFormatter(schema_of(["int64", "string"], limits=Limits(tuple_bytes=1000)))
    raws = cut_after(b"1,a\n2," + b"x" * 300_000 + b"\n3,c\n", 100)
    for raw in raws[:2000]:
        formatter.format([raw])
        assert formatter.held_bytes() <= 1100
    outcome = format_raws(formatter.schema, raws)
    assert values(outcome) == [(1, "a"), (3, "c")]
    assert outcome.total("bad") == 1
