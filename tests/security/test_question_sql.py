"""Ad-hoc questions reach nothing but relations and views, and cost no more than is stated."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from runtime.compiler import SqlError
from runtime.service.sandbox import AskLimits
from runtime.service.sandbox.database import Sandbox
from runtime.service.sandbox.messages import Given
from runtime.service.sandbox.question import checked


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


def answered(sql: str) -> list[dict[str, object]]:
    sandbox = Sandbox(AskLimits())
    try:
        return [row for batch in sandbox.answer(sql, Given(()), []).batches for row in batch.to_pylist()]
    finally:
        sandbox.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('bids')",
        "SELECT json_serialize_sql('SELECT 1')",
        "SELECT json_serialize_plan('SELECT * FROM read_csv(''/etc/passwd'')')",
        "SELECT json_deserialize_sql('{}')",
        "SELECT * FROM json_execute_serialized_sql('{}')",
        "PRAGMA json_execute_serialized_sql('{}')",
        "SELECT pg_sleep(100)",
        "SELECT sleep_ms(100000)",
        "SELECT main.getenv('HOME')",
        "SELECT ('threads').current_setting()",
        "SELECT list_transform(['threads'], lambda s: current_setting(s))",
    ],
)
def test_sql_inside_sql_is_refused(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    with pytest.raises(SqlError, match=r"expected (functions of the rows alone|a relation, a view|a SELECT)"):
        checked(sql, connection)


@pytest.mark.parametrize(
    "call",
    [
        "len(range(0, 100000000))",
        "len(generate_series(100000000))",
        "len(range(0, n))",
        "length(repeat('x', 1000000000))",
        "length(repeat(repeat('x', 1000), 1000))",
        "length(repeat(repeat('x', n), n))",
        "length(lpad('x', 1000000000, 'y'))",
        "length(('x').repeat(1000000000))",
        "length(system.main.repeat('x', 1000000000))",
        "length(main.repeat('x', 1000000000))",
        "printf('%1000000000d', 1)",
        "printf('%*d', 1000000000, 1)",
        "format('{:1000000000}', 1)",
        "format('{:{}}', 1, 1000000000)",
        "bitstring('1', 1000000000)",
        "list_resize([1], 1000000000)",
        "array_resize([1], 1000000000)",
        "array_to_string(range(0, 50000000), '')",
    ],
)
def test_calls_that_make_much_out_of_little_are_refused(connection: duckdb.DuckDBPyConnection, call: str) -> None:
    """Each of them took GiB of memory, past the limit of 512 MiB, and 5 to 40 s, past that of 10 s."""
    with pytest.raises(SqlError, match=r"make at most 100000|expected constants|without a schema"):
        checked(f"SELECT {call} FROM range(3) AS t(n)", connection)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('*', n) AS bar, lpad(n::VARCHAR, 8, ' ') FROM range(3) AS t(n)",
        "SELECT unnest(range(0, 50000))",
        "SELECT COUNT(*) FROM range(1000000)",
        "SELECT format('{:>10}', 1), printf('%5.2f', 1.5), bar(1, 0, 10, 20)",
    ],
)
def test_what_people_ask_is_answered(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert answered(checked(sql, connection).sql)


def test_a_count_from_a_row_is_bounded_where_it_is_evaluated() -> None:
    assert answered("SELECT length(repeat('x', n)) AS n FROM range(1000, 1001) AS t(n)") == [{"n": 1000}]
    for call in ("repeat('x', n)", "lpad('x', n::INTEGER, 'y')", "rpad('x', n::INTEGER, 'y')", "('x').repeat(n)"):
        with pytest.raises(SqlError, match="expected a count of at most 1000 in"):
            answered(f"SELECT length({call}) FROM range(1001, 1002) AS t(n)")
