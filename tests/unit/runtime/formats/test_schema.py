"""Schemas are checked when they are made, and every registered type reads its extremes."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.formats import FEED_SCHEMA, Field, InputFormatter, Schema, SchemaError, ValueParser, register, value_parser
from tests.generators.text_buffers import cut, format_all, rows_of


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ()}, "at least one field"),
        ({"fields": (Field("a", "int8"), Field("a", "int8"))}, "distinct names"),
        ({"fields": (Field("a", "int7"),)}, "expected a type out of bool, char"),
        ({"fields": (Field("a", "decimal(50,2)"),)}, "at most 38 digits"),
        ({"field_delimiter": b"||"}, "field delimiter of one byte"),
        ({"tuple_delimiter": b""}, "tuple delimiter of one byte"),
        ({"tuple_delimiter": b","}, "field delimiter of its own"),
        ({"field_delimiter": b"\r"}, "field delimiter of its own"),
        ({"quoting": True}, "quoting False"),
        ({"fields": (Field("a", "int8", nullable=True), Field("b", "int8")), "null_values": ()}, "null_values"),
        ({"fields": (Field("a", "int8", nullable=True),)}, "first null value with letters"),
    ],
)
def test_what_is_not_a_schema(options: dict[str, Any], message: str) -> None:
    """A schema that contradicts itself says what was expected."""
    with pytest.raises(SchemaError, match=message):
        Schema(**({"fields": (Field("a", "int8"),)} | options))


def test_unknown_column() -> None:
    """Asking for a column that is not there names those that are."""
    with pytest.raises(SchemaError, match=r"expected columns out of sequence, .*, was nothing"):
        FEED_SCHEMA.select(("nothing",))


def test_a_type_is_registered_once() -> None:
    """Row 29: a new type is one registration, and nobody changes the meaning of another's."""
    with pytest.raises(SchemaError, match="int64"):
        register(ValueParser("int64", value_parser("int64").arrow_type))


@pytest.mark.parametrize(
    ("type_name", "good", "bad"),
    [
        ("int8", ["-128", "127"], ["-129", "128"]),
        ("int16", ["-32768", "32767"], ["-32769", "32768"]),
        ("int32", ["-2147483648", "2147483647"], ["-2147483649", "2147483648"]),
        ("int64", ["-9223372036854775808", "9223372036854775807"], ["-9223372036854775809", "9223372036854775808"]),
        ("uint8", ["0", "255"], ["-1", "256"]),
        ("uint16", ["0", "65535"], ["-1", "65536"]),
        ("uint32", ["0", "4294967295"], ["-1", "4294967296"]),
        ("uint64", ["0", "18446744073709551615"], ["-1", "18446744073709551616"]),
        ("float32", ["-3.4028235e38", "1.5"], ["one"]),
        ("float64", ["-1.7976931348623157e308", "5e-324"], ["1.5.1"]),
        ("bool", ["true", "0"], ["yes"]),
        ("char", ["x", "ä"], ["xy", ""]),
        ("string", ["", "any thing"], []),
        ("date", ["1970-01-01", "9999-12-31"], ["1970-02-30"]),
        ("decimal(5,2)", ["-999.99", "999.99"], ["1000.00", "x"]),
        ("timestamp(ns)", ["2026-11-21 10:00:00.123456789"], ["2026-11-21 25:00:00"]),
    ],
)
def test_extremes_of_every_type(type_name: str, good: list[str], bad: list[str]) -> None:
    """Row 21: the smallest and the largest value of every type are read, the next ones beyond are dead letters."""
    schema = Schema((Field("value", type_name), Field("n", "int8")))
    text = "".join(f"{value},{n}\n" for n, value in enumerate([*good, *bad])).encode()
    batches = format_all(InputFormatter(schema), cut(text, []))
    assert [row[1] for row in rows_of(batches)] == list(range(len(good)))
    letters = [letter for batch in batches for letter in batch.dead]
    assert [letter.field for letter in letters] == ["value"] * len(bad)


def test_null_values() -> None:
    """Row 22: NULL is an empty field or a reserved word, per schema, in nullable fields only."""
    fields = (Field("n", "int64", nullable=True), Field("word", "string", nullable=True), Field("plain", "string"))
    schema = Schema(fields, null_values=("NULL", ""))
    batches = format_all(InputFormatter(schema), cut(b"1,a,NULL\nNULL,NULL,\n,,x\n", []))
    assert rows_of(batches) == [(1, "a", "NULL"), (None, None, ""), (None, None, "x")]


@pytest.mark.parametrize(
    ("tuple_delimiter", "field_delimiter"), [(b"\n", b"\t"), (b"|", b","), (b";", b"|"), (b"\0", b" ")]
)
def test_delimiters(tuple_delimiter: bytes, field_delimiter: bytes) -> None:
    """Row 17: both delimiters are the schema's choice; a line end is then an ordinary character."""
    schema = Schema(
        (Field("n", "int64"), Field("word", "string")),
        tuple_delimiter=tuple_delimiter,
        field_delimiter=field_delimiter,
    )
    words = ["a", "b\nc" if tuple_delimiter != b"\n" else "bc", '"quoted"', ""]
    text = b"".join(b"%d%s%s%s" % (n, field_delimiter, word.encode(), tuple_delimiter) for n, word in enumerate(words))
    for at in ([], list(range(1, len(text)))):
        assert rows_of(format_all(InputFormatter(schema), cut(text, at))) == list(enumerate(words))


def test_hundreds_of_columns() -> None:
    """Row 17: a tuple may have more than 300 fields."""
    schema = Schema(tuple(Field(f"c{n}", "int64") for n in range(350)))
    text = b"".join(b",".join(b"%d" % (n + row) for n in range(350)) + b"\n" for row in range(5))
    rows = rows_of(format_all(InputFormatter(schema), cut(text, [500, 3_000])))
    assert [row[349] for row in rows] == [349, 350, 351, 352, 353]


def test_byte_order_mark_is_data_in_the_middle_of_a_stream() -> None:
    """Row 30: a buffer that happens to start with the bytes of a mark loses nothing."""
    schema = Schema((Field("word", "string"),))
    text = "a\n\ufeffb\nc\n".encode()
    assert rows_of(format_all(InputFormatter(schema), cut(text, [2]))) == [("a",), ("\ufeffb",), ("c",)]
