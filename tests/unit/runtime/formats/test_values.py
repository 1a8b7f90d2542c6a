"""Every type reads its extremes, NULL is what the schema says, and arrays and structs are JSON in a field.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from runtime.formats import (
    CsvFormat,
    Field,
    InputFormatter,
    Malformed,
    Schema,
    SchemaError,
    ValueParser,
    register,
    value_parser,
)
from runtime.formats.values import nesting, registered_types
from tests.generators.text_buffers import cut, format_all, rows_of

EXTREMES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("int8", {"-128": -128, "127": 127}, ["-129", "128", "x", ""]),
    ("int16", {"-32768": -(2**15), "32767": 2**15 - 1}, ["-32769", "32768"]),
    ("int32", {"-2147483648": -(2**31), "2147483647": 2**31 - 1}, ["-2147483649", "2147483648"]),
    (
        "int64",
        {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1},
        ["-9223372036854775809", "9223372036854775808"],
    ),
    ("uint8", {"0": 0, "255": 255}, ["-1", "256"]),
    ("uint16", {"0": 0, "65535": 2**16 - 1}, ["-1", "65536"]),
    ("uint32", {"0": 0, "4294967295": 2**32 - 1}, ["-1", "4294967296"]),
    ("uint64", {"0": 0, "18446744073709551615": 2**64 - 1}, ["-1", "18446744073709551616"]),
    ("float32", {"-3.4028235e38": -3.4028234663852886e38, "1.5": 1.5}, ["one", "1.5.1"]),
    ("float64", {"-1.7976931348623157e308": -1.7976931348623157e308, "5e-324": 5e-324}, ["1.5.1", "1e", ""]),
    ("bool", {"true": True, "0": False, "FALSE": False}, ["yes", "", "2"]),
    ("char", {"x": "x", "ä": "ä"}, ["xy", ""]),
    ("string", {"": "", "any thing": "any thing"}, []),
    ("date", {"1970-01-01": date(1970, 1, 1), "9999-12-31": date(9999, 12, 31)}, ["1970-02-30", "now"]),
    ("decimal(5,2)", {"-999.99": Decimal("-999.99"), "999.99": Decimal("999.99")}, ["1000.00", "x", ""]),
    ("decimal(38,0)", {"9" * 38: Decimal("9" * 38), "-" + "9" * 38: Decimal("-" + "9" * 38)}, ["1" + "0" * 38]),
    ("timestamp(s)", {"1677-09-21 00:12:44": datetime(1677, 9, 21, 0, 12, 44)}, ["2026-11-21 25:00:00"]),  # noqa: DTZ001
    ("timestamp(ms)", {"2026-11-21T10:00:00.123": datetime(2026, 11, 21, 10, 0, 0, 123000)}, ["2026-11-21 10:61"]),  # noqa: DTZ001
    ("timestamp(us)", {"9999-12-31 23:59:59.999999": datetime(9999, 12, 31, 23, 59, 59, 999999)}, ["12:00"]),  # noqa: DTZ001
    ("timestamp(ns)", {"2026-11-21 10:00:00.123456": datetime(2026, 11, 21, 10, 0, 0, 123456)}, ["2026-13-01", "x"]),  # noqa: DTZ001
]


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize(("type_name", "good", "bad"), EXTREMES)
def test_extremes_of_every_type(type_name: str, good: dict[str, Any], bad: list[str], trim: bool) -> None:
    """Row 21: the smallest and the largest value of every type are read, the next ones beyond are dead letters."""
    schema = Schema((Field("value", type_name), Field("n", "int8")), CsvFormat(trim=trim))
    blank = " \t" if trim else ""
    text = "".join(f"{blank}{value}{blank},{n}\n" for n, value in enumerate([*good, *bad])).encode()
    batches = format_all(InputFormatter(schema), cut(text, []))
    assert rows_of(batches) == list(zip(good.values(), range(len(good)), strict=True))
    letters = [letter for batch in batches for letter in batch.dead]
    assert [letter.field for letter in letters] == ["value"] * len(bad)
    assert [letter.expected for letter in letters] == [type_name] * len(bad)


def test_nanoseconds_are_kept() -> None:
    """Row 21: the last nanosecond of int64, and the first whole second."""
    schema = Schema((Field("t", "timestamp(ns)"),), CsvFormat())
    text = b"2262-04-11 23:47:16.854775807\n1677-09-21 00:12:44\n2262-04-12 00:00:00\n"
    (batch,) = format_all(InputFormatter(schema), cut(text, []))
    assert batch.rows.column(0).cast(pa.int64()).to_pylist() == [2**63 - 1, -9223372036 * 10**9]
    assert batch.bad == 1


def test_null_values() -> None:
    """Row 22: NULL is an empty field or a reserved word, per schema, in nullable fields only."""
    fields = (Field("n", "int64", nullable=True), Field("word", "string", nullable=True), Field("plain", "string"))
    schema = Schema(fields, CsvFormat(), null_values=("NULL", ""))
    batches = format_all(InputFormatter(schema), cut(b"1,a,NULL\nNULL,NULL,\n,,x\n", []))
    assert rows_of(batches) == [(1, "a", "NULL"), (None, None, ""), (None, None, "x")]
    assert sum(batch.nulled for batch in batches) == 0


def test_a_null_text_is_no_value_of_a_required_field() -> None:
    """Row 22: unless the field holds text; whether other fields are nullable does not matter."""
    for nullable in (False, True):
        fields = (Field("x", "float64"), Field("word", "string"), Field("other", "int8", nullable=nullable))
        schema = Schema(fields, CsvFormat(), null_values=("nan",))
        batches = format_all(InputFormatter(schema), cut(b"nan,nan,1\n1.5,nan,2\n", []))
        assert rows_of(batches) == [(1.5, "nan", 2)]
        assert [letter.field for batch in batches for letter in batch.dead] == ["x"]


@pytest.mark.parametrize("policy", list(Malformed))
def test_a_malformed_value_of_a_nullable_field(policy: Malformed) -> None:
    """Row 23: it becomes NULL and is counted, or its tuple is bad, as the schema says."""
    schema = Schema((Field("n", "int64", nullable=True), Field("m", "int8")), CsvFormat(), malformed_nullable=policy)
    batches = format_all(InputFormatter(schema), cut(b"1,1\nx,2\n,3\n", []))
    nulls = policy == Malformed.NULL
    assert rows_of(batches) == ([(1, 1), (None, 2), (None, 3)] if nulls else [(1, 1), (None, 3)])
    assert [sum(batch.nulled for batch in batches), sum(batch.bad for batch in batches)] == [nulls, not nulls]


def test_arrays_and_structs_are_json() -> None:
    """Row 21: nested values are JSON in a field; characters in them are still single ones."""
    fields = (
        Field("sizes", "array<int32>", nullable=True),
        Field("level", "struct<price:decimal(9,2), flags:array<char>, at:timestamp(ms)>"),
    )
    schema = Schema(fields, CsvFormat(field_delimiter=b";"))
    good = b'[1, 2];{"price": "1.50", "flags": ["a", "\xc3\xa4"], "at": "2026-11-21 10:00:00"}\n;{"flags": null}\n'
    bad = b'[1];{"flags": ["ab"]}\n[1;{"flags": []}\n[1];\n[1];null\n[1];{"other": 1}\n[2];{}}\n[3];{}},{"value":{}\n'
    (batch,) = format_all(InputFormatter(schema), cut(good + bad, []))
    level = {"price": Decimal("1.50"), "flags": ["a", "ä"], "at": datetime(2026, 11, 21, 10)}  # noqa: DTZ001
    nothing = {"price": None, "flags": None, "at": None}
    assert rows_of([batch]) == [([1, 2], level), (None, nothing), (None, nothing | {"flags": []})]
    assert (batch.nulled, batch.bad) == (1, 6)
    assert {letter.field for letter in batch.dead} == {"level"}


def test_quoted_json() -> None:
    """Row 21: arrays in quoted fields, which may hold commas and line ends."""
    schema = Schema((Field("n", "int8"), Field("words", "array<string>")), CsvFormat(quoting=True))
    text = b'1,"[""a,b"", ""c""]"\n2,"[\n]"\n3,[]\n'
    assert rows_of(format_all(InputFormatter(schema), cut(text, [9, 15]))) == [(1, ["a,b", "c"]), (2, []), (3, [])]


@pytest.mark.parametrize(
    "type_name",
    [
        "decimal(50,2)",
        "decimal(5)",
        "timestamp(h)",
        "array<int7>",
        "struct<>",
        "struct<a>",
        "struct<a:int8,a:int8>",
        "array<" * 70 + "int8" + ">" * 70,
    ],
)
def test_what_is_not_a_type(type_name: str) -> None:
    """The registry names what it knows."""
    with pytest.raises(SchemaError, match="expected "):
        value_parser(type_name)


def test_a_type_is_registered_once() -> None:
    """Row 29: a new type is one registration, and nobody changes the meaning of another's."""
    with pytest.raises(SchemaError, match="int64"):
        register(ValueParser("int64", value_parser("int64").arrow_type))
    assert {"int64", "array<TYPE>"} <= set(registered_types())


def test_nesting() -> None:
    """Arrays and structs are counted together."""
    assert [nesting(value_parser(t).arrow_type) for t in ("int8", "array<int8>", "struct<a:array<int8>,b:char>")] == [
        0,
        1,
        2,
    ]
