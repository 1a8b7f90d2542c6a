"""An answer has the values that DuckDB computed, whatever their type: as JSON, and as PostgreSQL's text."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

from runtime.compiler import SqlError
from runtime.service.moments import json_values
from runtime.service.postgres.encoding import text_values
from runtime.service.postgres.types import result_type
from runtime.service.sandbox import AskLimits
from runtime.service.sandbox.database import Sandbox
from runtime.service.sandbox.messages import Given

HUGE = 2**127 - 1
WIDE = "9" * 44
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
CASES: dict[str, list[tuple[str, Any, str | None]]] = {
    "ARRAY": [("[1, 2]::INTEGER[2]", [1, 2], "{1,2}"), ("[bit '1']::BIT[1]", ["1"], "{1}")],
    "BIGINT": [("9223372036854775807", 2**63 - 1, "9223372036854775807")],
    "BIGNUM": [(WIDE, WIDE, WIDE), (f"[-{WIDE}]", [f"-{WIDE}"], f"{{-{WIDE}}}")],
    "BIT": [("bit '101'", "101", "101"), ("{'a': bit '0'}", {"a": "0"}, '{"a":"0"}')],
    "BLOB": [("'\\x00\\xFF'::BLOB", "AP8=", "\\x00ff")],
    "BOOLEAN": [("true", True, "t")],
    "DATE": [
        ("date '2024-02-29'", "2024-02-29", "2024-02-29"),
        ("date 'infinity'", "infinity", "infinity"),
        ("date '-infinity'", "-infinity", "-infinity"),
        ("date '0044-03-15 (BC)'", "0044-03-15 (BC)", "0044-03-15 BC"),
        ("date '5881580-07-10'", "5881580-07-10", "5881580-07-10"),
        ("{'a': date '10000-01-01'}", {"a": "10000-01-01"}, '{"a":"10000-01-01"}'),
    ],
    "DECIMAL": [("1.50", 1.5, "1.50"), ("[1.5]", [1.5], "{1.5}")],
    "DOUBLE": [("0.1::DOUBLE", 0.1, "0.1")],
    "ENUM": [("'a'::ENUM('a', 'b[]')", "a", "a"), ("['b[]'::ENUM('a', 'b[]')]", ["b[]"], "{b[]}")],
    "FLOAT": [("0.5::FLOAT", 0.5, "0.5")],
    "GEOMETRY": [("'POINT (1 2)'::GEOMETRY", "POINT (1 2)", "POINT (1 2)")],
    "HUGEINT": [(f"{HUGE}", HUGE, f"{HUGE}"), (f"(-{HUGE} - 1)", -HUGE - 1, f"{-HUGE - 1}")],
    "INTEGER": [("-7", -7, "-7")],
    "INTERVAL": [("interval '2562046 hours'", [0, 0, 2_562_046 * 3_600 * 10**9], "2562046:00:00")],
    "LIST": [("[[1], []]", [[1], []], "[[1],[]]")],
    "MAP": [("MAP {'a': bit '1'}", [["a", "1"]], '[["a","1"]]')],
    "NULL": [("NULL", None, "")],
    "SMALLINT": [("7::SMALLINT", 7, "7")],
    "STRUCT": [("{'a b': [date 'infinity', NULL]}", {"a b": ["infinity", None]}, '{"a b":["infinity",null]}')],
    "TIME": [("time '24:00:00'", "24:00:00", "24:00:00"), ("time '01:02:03.5'", "01:02:03.500000", "01:02:03.5")],
    "TIME WITH TIME ZONE": [("timetz '12:00:00-11:30'", "12:00:00-11:30", "12:00:00-11:30")],
    "TIMESTAMP": [
        ("timestamp 'infinity'", "infinity", "infinity"),
        ("timestamp '0044-03-15 (BC) 01:02:03'", "0044-03-15T01:02:03 (BC)", "0044-03-15 01:02:03 BC"),
        ("timestamp '290000-01-01'", "290000-01-01T00:00:00", "290000-01-01 00:00:00"),
        ("[timestamp '-infinity']", ["-infinity"], "{-infinity}"),
    ],
    "TIMESTAMP WITH TIME ZONE": [
        ("timestamptz '2024-01-01 00:00:00+02'", "2023-12-31T22:00:00Z", "2023-12-31 22:00:00+00"),
        ("timestamptz '10000-01-01 00:00:01.5+00'", "10000-01-01T00:00:01.5+00:00", "10000-01-01 00:00:01.5+00"),
    ],
    "TIMESTAMPTZ_NS": [
        ("timestamptz_ns '2024-01-01 00:00:00.000000001+00'", "2024-01-01T00:00:00.000000001+00:00", None),
    ],
    "TIMESTAMP_MS": [("timestamp_ms '2024-01-01 00:00:00.5'", "2024-01-01T00:00:00.500000", "2024-01-01 00:00:00.5")],
    "TIMESTAMP_NS": [
        ("timestamp_ns '1969-12-31 23:59:59.999999999'", "1969-12-31T23:59:59.999999999", "1969-12-31 23:59:59.999999"),
        ("make_timestamp_ns(1700000000000000000)", "2023-11-14T22:13:20", "2023-11-14 22:13:20"),
        ("timestamp_ns 'infinity'", "infinity", "infinity"),
    ],
    "TIMESTAMP_S": [("timestamp_s 'infinity'", "infinity", "infinity")],
    "TIME_NS": [("time_ns '12:00:00.123456789'", "12:00:00.123456789", "12:00:00.123456789")],
    "TINYINT": [("(-128)::TINYINT", -128, "-128")],
    "TUPLE": [("ROW(1, date 'infinity')", {"element1": 1, "element2": "infinity"}, None)],
    "TYPE": [("get_type(1)", "INTEGER", "INTEGER")],
    "UBIGINT": [("18446744073709551615", 2**64 - 1, "18446744073709551615")],
    "UHUGEINT": [(f"{HUGE}::UHUGEINT", HUGE, f"{HUGE}"), ("[5::UHUGEINT]", [5], "{5}")],
    "UINTEGER": [("4294967295::UINTEGER", 2**32 - 1, "4294967295")],
    "UNION": [("union_value(k := date 'infinity')", "infinity", '"infinity"')],
    "USMALLINT": [("65535::USMALLINT", 65_535, "65535")],
    "UTINYINT": [("255::UTINYINT", 255, "255")],
    "UUID": [(f"uuid '{UUID}'", UUID, UUID)],
    "VARCHAR": [("'ä'", "ä", "ä")],
    "VARIANT": [("5::VARIANT", "5", "5")],
}
"""Type of DuckDB → expressions, each with its value in JSON and its text in PostgreSQL; None if that is not asked."""


def answered(*expressions: str) -> list[tuple[pa.Array, str]]:
    """Return the column of each expression with its type; all columns have the same name."""
    sandbox = Sandbox(AskLimits())
    try:
        answer = sandbox.answer(f"SELECT {', '.join(f'{sql} AS v' for sql in expressions)}", Given(()), [])
        table = pa.Table.from_batches(answer.batches, answer.schema)
        assert table.column_names == ["v"] * len(expressions)
        arrays = [pa.concat_arrays(column.chunks) for column in table.columns]
        return [(array, column.type) for array, column in zip(arrays, answer.columns, strict=True)]
    finally:
        sandbox.close()


@cache
def answers() -> dict[str, tuple[pa.Array, str]]:
    """Return the answer to each case: one question for all, as a database takes time to open."""
    expressions = [sql for cases in CASES.values() for sql, _, _ in cases]
    return dict(zip(expressions, answered(*expressions), strict=True))


def test_each_type_of_duckdb_has_a_case() -> None:
    with duckdb.connect() as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT logical_type FROM duckdb_types()").fetchall()}
    assert kinds == CASES.keys()


@pytest.mark.parametrize(("expression", "value", "text"), [case for cases in CASES.values() for case in cases], ids=str)
def test_an_answer_has_the_value_that_duckdb_computed(expression: str, value: Any, text: str | None) -> None:
    array, kind = answers()[expression]
    encoded = msgspec.json.Encoder(decimal_format="number").encode(json_values(array))
    assert msgspec.json.decode(encoded) == [value]
    if text is not None:
        (shown,) = text_values(array, result_type(kind)).to_pylist()
        assert (shown or b"").decode() == text


@pytest.mark.parametrize("expression", [f"{2**128 - 1}::UHUGEINT", "to_microseconds(9223372036854775807)"])
def test_a_value_that_arrow_lacks_is_an_error(expression: str) -> None:
    with pytest.raises(SqlError, match=r"expected .* at most"):
        answered(expression)
