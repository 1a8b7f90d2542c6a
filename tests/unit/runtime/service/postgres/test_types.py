"""Types: PostgreSQL's for DuckDB's, their names in SQL, and values of parameters as literals."""

from __future__ import annotations

import struct
from decimal import Decimal

import duckdb
import pytest

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.types import BY_NAME, literal, result_type, type_oid, typed_expression


@pytest.mark.parametrize(
    ("duckdb", "name", "is_array"),
    [
        ("BIGINT", "int8", False),
        ("HUGEINT", "numeric", False),
        ("DECIMAL(21,2)", "numeric", False),
        ("VARCHAR[]", "text", True),
        ("BIGINT[][]", "text", False),
        ("STRUCT(a INTEGER)", "text", False),
        ("TIMESTAMP WITH TIME ZONE", "timestamptz", False),
    ],
)
def test_a_column_has_the_nearest_type(duckdb: str, name: str, is_array: bool) -> None:
    found = result_type(duckdb)
    assert (found.element.name, found.is_array) == (name, is_array)
    assert found.oid == (BY_NAME[name].array_oid if is_array else BY_NAME[name].oid)


def test_a_decimal_has_its_digits_in_the_modifier() -> None:
    assert result_type("DECIMAL(21,2)").modifier == (21 << 16 | 2) + 4


@pytest.mark.parametrize(
    ("name", "oid"),
    [
        ("bigint", 20), ("int8", 20), ("int", 23), ("integer", 23), ("text", 25), ("varchar", 1043), ("char", 1042),
        ("character varying", 1043), ("double precision", 701), ("decimal", 1700), ("timestamp", 1114),
        ("timestamp with time zone", 1184), ("boolean", 16), ("int[]", 1007), ("nothing", None), ("", None),
    ],
)  # fmt: skip
def test_a_name_of_sql_has_its_number(name: str, oid: int | None) -> None:
    assert type_oid(name) == oid


@pytest.mark.parametrize(
    ("value", "oid", "is_binary", "sql"),
    [
        (b"it's", 0, False, "'it''s'"),
        (None, 0, False, "NULL"),
        (None, 20, False, "CAST(NULL AS BIGINT)"),
        (b"41", 20, False, "CAST('41' AS BIGINT)"),
        (struct.pack("!q", -41), 20, True, "CAST('-41' AS BIGINT)"),
        (b"1.50", 1700, False, "CAST('1.50' AS DECIMAL(38, 2))"),
        (b"1.5E+3", 1700, False, "CAST('1500' AS DECIMAL(38, 0))"),
        (b"1e-3", 1700, False, "CAST('0.001' AS DECIMAL(38, 3))"),
        (b"1E+99", 1700, False, "CAST('1E+99' AS DOUBLE)"),
        (b"NaN", 1700, False, "CAST('NaN' AS DOUBLE)"),
        (struct.pack("!HhHH2H", 2, 0, 0, 2, 12, 3400), 1700, True, "CAST('12.34' AS DECIMAL(38, 2))"),
        (b"\x00\xff", 17, True, "unhex('00ff')"),
        (struct.pack("!i", 1), 1082, True, "CAST('2000-01-02' AS DATE)"),
        (b'{1,NULL,"3"}', 1016, False, "CAST(ARRAY[CAST('1' AS BIGINT), NULL, CAST('3' AS BIGINT)] AS BIGINT[])"),
        (b"{ }", 1009, False, "CAST(ARRAY[] AS VARCHAR[])"),
        (rb'{ a\,b , "", "null", null}', 1009, False,
         "CAST(ARRAY[CAST('a,b' AS VARCHAR), CAST('' AS VARCHAR), CAST('null' AS VARCHAR), NULL] AS VARCHAR[])"),
    ],
)  # fmt: skip
def test_a_value_is_a_literal_of_its_type(value: bytes | None, oid: int, is_binary: bool, sql: str) -> None:
    assert literal(value, oid, is_binary=is_binary) == sql


@pytest.mark.parametrize(
    ("value", "oid", "is_binary", "sqlstate"),
    [
        (b"x", 999_999, False, "0A000"),
        (b"\xff", 25, False, "22021"),
        (b"a\0b", 25, False, "22021"),
        (b"123", 20, True, "22P03"),
        (b"\\xzz", 17, False, "22P02"),
        (b"1", 1016, False, "22P02"),
        (b"{{1},{2}}", 1016, False, "0A000"),
        (b'{{"a"},{"b"}}', 1009, False, "0A000"),
        (b"{a,,b}", 1009, False, "22P02"),
        (b"{a,}", 1009, False, "22P02"),
        (b'{"a"b}', 1009, False, "22P02"),
        (b"{a}b}", 1009, False, "22P02"),
        (b'{"a}', 1009, False, "22P02"),
        (b'{"a\\' * 200_000 + b"}", 1009, False, "22P02"),
        (struct.pack("!iiiii", 1, 0, 20, -1, 1), 1016, True, "22P03"),
        (struct.pack("!i", 2**31 - 1), 1082, True, "22008"),
        (struct.pack("!iii", 2, 0, 20), 1016, True, "0A000"),
    ],
)
def test_a_value_that_is_none_is_refused(value: bytes, oid: int, is_binary: bool, sqlstate: str) -> None:
    with pytest.raises(PostgresError, match="expected") as raised:
        literal(value, oid, is_binary=is_binary)
    assert raised.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    ("values", "is_binary"),
    [
        (b"{1,0.12345678901,NULL,1E+3}", False),
        (struct.pack("!iiiii", 1, 1, 1700, 4, 1) + b"".join(
            struct.pack("!i", -1 if value is None else len(value)) + (value or b"") for value in (
                struct.pack("!HhHHH", 1, 0, 0, 0, 1), struct.pack("!HhHHHHH", 3, -1, 0, 11, 1234, 5678, 9010),
                None, struct.pack("!HhHHH", 1, 0, 0, 0, 1000))), True),
    ],
    ids=["text", "binary"],
)  # fmt: skip
def test_an_array_of_decimals_is_not_rounded(values: bytes, is_binary: bool) -> None:
    """DuckDB gives an array the type of one of its elements, so that 0.12 beside 1 could become 0."""
    ((found,),) = duckdb.execute(f"SELECT {literal(values, 1231, is_binary=is_binary)}").fetchall()
    assert found == [Decimal(1), Decimal("0.12345678901"), None, Decimal(1000)]


def test_casts_are_applied_except_to_decimals_and_unknowns() -> None:
    assert typed_expression("'1'", 20) == "CAST('1' AS BIGINT)"
    assert typed_expression("NULL", 1016) == "CAST(NULL AS BIGINT[])"
    assert typed_expression("1.25", 1700) == "CAST('1.25' AS DECIMAL(38, 2))"
    assert typed_expression("1.25::DOUBLE", 1700) == "(1.25::DOUBLE)"
    assert typed_expression("'x'", 0) == "('x')"
    with pytest.raises(PostgresError, match="was one of OID 999999"):
        typed_expression("1", 999_999)
