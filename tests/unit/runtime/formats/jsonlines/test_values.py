"""JSON lines: which texts are values of which type.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from runtime.formats.schema import Field
from tests.generators.json_lines import indexer, parse

INTEGERS = [(f"{sign}int{bits}", bits) for bits in (8, 16, 32, 64) for sign in ("", "u")]


def value(type_: str, text: str, **options: Any) -> Any:
    """What a field of a type makes of a JSON text; the reason if it refuses."""
    parsed = parse(indexer(Field("a", type_), **options), f'{{"a":{text}}}')
    return parsed.bad[0].reason if parsed.bad else parsed.rows.column(0).to_pylist()[0]


def is_bad(type_: str, text: str) -> bool:
    parsed = parse(indexer(Field("a", type_)), f'{{"a":{text}}}')
    return len(parsed.bad) == 1 and (parsed.bad[0].field, parsed.bad[0].expected) == ("a", type_)


def test_arrays_become_lists_and_objects_structs() -> None:
    fields = (Field("a", "array<int64>"), Field("s", "struct<x:float64,d:array<date>>", nullable=True))
    parsed = parse(indexer(*fields), '{"a":[1,null,3],"s":{"d":["2026-01-31"],"x":1,"more":[]}}', '{"a":[],"s":{}}')
    assert parsed.rows.to_pylist() == [
        {"a": [1, None, 3], "s": {"x": 1.0, "d": [date(2026, 1, 31)]}},
        {"a": [], "s": {"x": None, "d": None}},
    ]
    assert is_bad("array<int64>", "[1,1.5]")
    assert is_bad("array<int64>", '[1,"a"]')
    assert is_bad("array<float64>", "[1,NaN]")
    assert is_bad("array<array<int8>>", "[[1],[128]]")
    assert is_bad("array<char>", '["a","bc"]')
    assert is_bad("array<date>", '["2026-02-30"]')
    assert is_bad("struct<x:int8>", '{"x":true}')
    assert is_bad("struct<x:decimal(4,2)>", '{"x":100}')
    assert is_bad("struct<x:int8>", "[]")


# Row 21: every type, its ends, and what is none of its values.


@pytest.mark.parametrize(("type_", "bits"), INTEGERS)
def test_integers_reach_their_ends_and_no_further(type_: str, bits: int) -> None:
    low, high = (0, 2**bits - 1) if type_.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    assert value(type_, str(low)) == low
    assert value(type_, str(high)) == high
    assert value(type_, str(high + 1)) == f"out of range: {high + 1}"
    assert is_bad(type_, str(low - 1))
    for text in ("1.0", "1e2", '"1"', "true", "[]", "{}", "1" + "0" * 50):
        assert is_bad(type_, text), text


@pytest.mark.parametrize("text", ["01", "+1", "1.", ".5", "0x10", "1_0", "", "tru", "None"])
def test_what_no_json_knows_makes_the_tuple_bad(text: str) -> None:
    for type_ in ("int64", "float64", "bool"):
        parsed = parse(indexer(Field("a", type_)), f'{{"a":{text}}}')
        assert [(bad.field, bad.expected) for bad in parsed.bad] == [("", "a JSON object")]


def test_floats_are_finite_numbers_in_range() -> None:
    assert value("float64", "1.7976931348623157e308") == 1.7976931348623157e308
    assert value("float64", "-5e-324") == -5e-324
    assert value("float64", "7") == 7.0
    assert value("float32", "3.4028234663852886e38") == 3.4028234663852886e38
    assert is_bad("float32", "1e39")
    rounded = [f'{{"x":1,"f":{text}}}' for text in ("3.4028235e38", "1.5", "-3.4028235e+38", "1e39", '"1"')]
    parsed = parse(indexer(Field("x", "int8"), Field("f", "float32")), *rounded)
    assert parsed.bad_tuples.tolist() == [3, 4]  # whatever is looked at beside the bad one
    parsed = parse(indexer(Field("f", "array<float32>")), '{"f":[3.4028235e38]}', '{"f":["1"]}')
    assert parsed.bad_tuples.tolist() == [1]
    for text in ("NaN", "Infinity", "-Infinity", "Inf", '"1"', "false"):
        assert is_bad("float64", text), text
    assert len(parse(indexer(Field("a", "float64")), '{"a":1e400}').bad) == 1


def test_bools_are_true_or_false() -> None:
    assert [value("bool", text) for text in ("true", "false")] == [True, False]
    assert all(is_bad("bool", text) for text in ("0", "1", '"true"', "[]"))


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("decimal(10,2)", "1", "1.00"),
        ("decimal(10,2)", "-99999999.99", "-99999999.99"),
        ("decimal(10,2)", '"1.50"', "1.50"),
        ("decimal(10,2)", "1.500", "1.50"),
        ("decimal(10,2)", "1e7", "10000000.00"),
        ("decimal(38,10)", "9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999"),
        ("decimal(38,0)", "9" * 38, "9" * 38),
    ],
)
def test_decimals_are_exact(type_: str, text: str, expected: str) -> None:
    assert value(type_, text) == Decimal(expected)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("decimal(10,2)", "1.234"),
        ("decimal(10,2)", "100000000"),
        ("decimal(10,2)", "1e8"),
        ("decimal(10,2)", '""'),
        ("decimal(10,2)", '"abc"'),
        ("decimal(10,2)", "true"),
        ("decimal(10,2)", "NaN"),
        ("decimal(38,10)", "12345678901234567890123456789012345678"),
        ("decimal(38,10)", "1e28"),
        ("decimal(38,0)", "9" * 39),
    ],
)
def test_decimals_that_do_not_fit_are_bad(type_: str, text: str) -> None:
    """Arrow's reader alone would let some pass, one of them as another number."""
    assert is_bad(type_, text)


def test_char_is_one_character() -> None:
    assert [value("char", text) for text in ('"a"', '"€"', '"😀"', r'"\n"')] == ["a", "€", "😀", "\n"]
    assert all(is_bad("char", text) for text in ('""', '"ab"', "1"))


def test_dates_and_timestamps_are_texts() -> None:
    assert [value("date", f'"{text}"') for text in ("0001-01-01", "9999-12-31")] == [date(1, 1, 1), date(9999, 12, 31)]
    for text in ("2026-2-3", "2026-02-30", "20260203", "2026-02-03T00:00:00", ""):
        assert is_bad("date", f'"{text}"'), text
    assert is_bad("date", "18262")
    moment = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC).replace(tzinfo=None)
    for text in ("2026-02-03T04:05:06.789", "2026-02-03 04:05:06.789Z", "2026-02-03T06:05:06.789+02:00"):
        assert value("timestamp(ms)", f'"{text}"') == moment
    assert value("timestamp(s)", '"2026-02-03"') == datetime(2026, 2, 3)  # noqa: DTZ001
    for text in ("2026-02-03T04:05:06.7891", "2026-13-01", "2026-02-30T00:00:00", "x", "", "2026-02-03T25:00:00"):
        assert is_bad("timestamp(ms)", f'"{text}"'), text
    assert is_bad("timestamp(ns)", '"1600-01-01"')
    assert is_bad("timestamp(ms)", "1770000000000")
