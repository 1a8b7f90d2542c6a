"""SQL of views reaches nothing but the relations that it names, and costs no more than is stated."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import pytest

from runtime.compiler import Column, NamedSelect, Program, Relation, SqlError, compile_program
from runtime.compiler.describe import database, time_limit, unstable_functions
from runtime.views.nodes import recompute
from tests.generators.express_lab import ExpressLab

BIDS = Relation("bids", (Column("symbol", "string"), Column("price", "int64"), Column("volume", "int64")))
OTHER = NamedSelect("other", "SELECT COUNT(*) AS n FROM bids", lane="express")
"""A view that goes on."""
REEVALUATED = "SELECT symbol, MODE(price) AS m, {call} AS x FROM bids GROUP BY symbol"
"""A view that DuckDB evaluates again."""


def compiled(sql: str) -> Program:
    return compile_program([NamedSelect("v", sql)], [BIDS])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text("hidden\n1\n")
    return path


# -- files, settings, extensions, the network, other sessions --------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        'SELECT * FROM "{file}"',
        "SELECT symbol FROM bids, LATERAL (SELECT * FROM read_text('{file}')) t",
        "SELECT (SELECT content FROM read_text('{file}')) AS x FROM bids",
        "SELECT symbol FROM bids WHERE EXISTS (SELECT 1 FROM glob('/*'))",
        "SELECT symbol FROM bids; COPY bids TO '{file}'",
        "COPY (SELECT symbol FROM bids) TO '{file}'",
        "ATTACH '{file}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '9GB'",
        "SELECT symbol FROM pg_catalog.pg_settings",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('bids')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "FROM sniff_csv('{file}')",
        "SUMMARIZE bids",
        "DESCRIBE bids",
    ],
)
def test_no_table_but_relations_is_read(secret: Path, sql: str) -> None:
    with pytest.raises(SqlError):
        compiled(sql.format(file=secret))


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT b.symbol FROM (WITH "{file}" AS (SELECT symbol FROM bids) SELECT symbol FROM "{file}") a, "{file}" b',
        'FROM "{file}" UNION ALL (WITH "{file}" AS (SELECT symbol FROM bids) SELECT symbol FROM "{file}")',
        'WITH a AS (SELECT symbol FROM "{file}"), "{file}" AS (SELECT symbol FROM bids) SELECT symbol FROM a',
        'WITH "{file}" AS (SELECT symbol FROM "{file}") SELECT symbol FROM "{file}"',
    ],
)
def test_a_table_of_with_is_known_where_it_is_in_scope(secret: Path, sql: str) -> None:
    """A name that a WITH elsewhere makes known could be that of a file."""
    with pytest.raises(SqlError, match="unknown relation"):
        compiled(sql.format(file=secret))


@pytest.mark.parametrize(
    "sql",
    [
        'WITH "{file}" AS (SELECT symbol FROM bids) SELECT symbol FROM "{file}"',
        "WITH a AS (SELECT symbol FROM bids), b AS (SELECT symbol FROM a) SELECT symbol FROM (SELECT symbol FROM b) c",
    ],
)
def test_tables_of_with_in_scope_are_read(secret: Path, sql: str) -> None:
    assert [view.name for view in compiled(sql.format(file=secret)).views] == ["v"]


@pytest.mark.parametrize(
    "call",
    [
        "getenv('HOME')",
        "\"getenv\"('HOME')",
        "main.getenv('HOME')",
        "('HOME').getenv()",
        "current_setting('threads')",
        "system.main.current_setting('threads')",
        "list_transform(['threads'], lambda s: current_setting(s))[1]",
        "getvariable('x')",
        "nextval('x')",
        "txid_current()",
        "current_query()",
        "write_log('x')",
        "sleep_ms(1)",
        "pg_sleep(1)",
        "ago(INTERVAL 1 DAY)",
        "pg_postmaster_start_time()",
        "version()",
        "json_serialize_sql('SELECT 1')",
        "json_deserialize_sql('{}')",
        "CAST(json_serialize_plan('SELECT * FROM read_csv(''/etc/passwd'')') AS VARCHAR)",
    ],
)
def test_no_function_reaches_beyond_the_rows(call: str) -> None:
    for sql in (f"SELECT {call} AS x FROM bids", REEVALUATED.format(call=f"MAX({call})")):
        with pytest.raises(SqlError, match=r"expected functions of the rows alone|DuckDB refuses"):
            compiled(sql)


def test_macros_are_as_unstable_as_what_they_call() -> None:
    assert {"pg_sleep", "ago", "current_query"} <= unstable_functions()
    assert not {"now", "repeat", "list_sum", "split_part"} & unstable_functions()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT json_serialize_plan('SELECT * FROM read_text(''{file}'')') LIKE '%permission%' AND error('refused')",
        "COPY (SELECT 1) TO '{file}.copy'",
        "ATTACH '{file}.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '9GB'",
        "RESET lock_configuration",
        "SELECT * FROM COLUMNS_OF_PYTHON",
    ],
)
def test_the_database_of_views_is_closed_to_unchecked_sql(secret: Path, statement: str) -> None:
    """The second line of defence alone."""
    COLUMNS_OF_PYTHON = [1]  # noqa: F841 - what a replacement scan would find
    with database().cursor() as connection, pytest.raises(duckdb.Error):
        connection.execute(statement.format(file=secret)).fetchall()
    assert list(secret.parent.iterdir()) == [secret]


def test_the_database_of_views_has_so_much_memory_and_no_disk() -> None:
    with database().cursor() as connection:
        settings = (
            "SELECT current_setting('memory_limit'), current_setting('temp_directory'), current_setting('threads')"
        )
        assert connection.execute(settings).fetchone() == ("2.0 GiB", "", 1)
        with pytest.raises(duckdb.OutOfMemoryException):
            connection.execute("SELECT list(range) FROM range(1000000000)").fetchall()


# -- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "length(repeat(symbol, 100000000))",
        "length(repeat('x', 1000000000))",
        "length(repeat(repeat('x', 1000), 1000))",
        "length(lpad(symbol, 1000000000, 'x'))",
        "length(rpad(symbol, 1000000000, 'x'))",
        "len(range(0, 100000000))",
        "len(range(100000000))",
        "len(range(-100000000, 0))",
        "len(generate_series(0, 100000000))",
        "len(range(0, price))",
        "list_sum(range(0, 100000000))",
        "len(list_resize([1], 1000000000))",
        "length(bitstring('1', 1000000000)::VARCHAR)",
        "length(printf('%1000000000d', 1))",
        "length(printf('%*d', 1000000000, 1))",
        "length(format('{:1000000000}', 1))",
        "length(format('{:{}}', 1, 1000000000))",
        "length(system.main.repeat('x', 1000000000))",
        "length(symbol.repeat(1000000000))",
    ],
)
def test_calls_that_make_much_out_of_little_are_refused_at_once(call: str) -> None:
    begun_s = time.monotonic()
    for sql in (f"SELECT {call} AS x FROM bids", REEVALUATED.format(call=f"MAX({call})")):
        with pytest.raises(SqlError, match=r"make at most 100000|expected constants|after a dot"):
            compiled(sql)
    assert time.monotonic() - begun_s < 10  # they were evaluated while they were described: 20 to 100 s each


def test_recursion_is_not_supported() -> None:
    with pytest.raises(SqlError, match="WITH RECURSIVE is not supported"):
        compiled("WITH RECURSIVE n AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM n) SELECT MAX(a) AS m FROM n")


def test_patterns_cannot_backtrack() -> None:
    """RE2 takes time in the length of the text, whatever the pattern is."""
    begun_s = time.monotonic()
    with database().cursor() as connection:
        sql = "SELECT regexp_matches(string_agg('a', ''), '^(a+)+$|(a|a)*b') FROM range(100000)"
        assert connection.execute(sql).fetchone() == (True,)
    assert time.monotonic() - begun_s < 10


def test_a_count_from_a_row_is_bounded_where_it_is_evaluated(tmp_path: Path) -> None:
    select = NamedSelect(
        "v", "SELECT symbol, repeat('x', price) AS x FROM bids ORDER BY symbol LIMIT 9", lane="express"
    )
    lab = ExpressLab(tmp_path, [BIDS], [select, OTHER])
    lab.change([("bids", ("A", 3, 1), 1)], [1], [1])
    assert lab.failed == {}
    lab.change([("bids", ("A", 1_000_000_000, 1), 1)], [1], [1])
    assert set(lab.failed) == {"v"}
    assert "expected a count of at most 1000 in repeat(), was 1000000000" in lab.failed["v"]


def test_what_takes_too_long_is_interrupted() -> None:
    begun_s = time.monotonic()
    with (
        database().cursor() as connection,
        pytest.raises(duckdb.InterruptException, match=r"expected an answer within 0\.2 s"),
        time_limit(connection, 0.2),
    ):
        connection.execute("SELECT COUNT(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 5")
    assert time.monotonic() - begun_s < 10


def test_a_view_whose_evaluation_takes_too_long_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "EVALUATION_S", 0.2)
    select = NamedSelect(
        "v",
        "SELECT MODE(a.price + b.price * c.price) AS m FROM bids a, bids b, bids c WHERE a.volume < b.volume",
        lane="express",
    )
    lab = ExpressLab(tmp_path, [BIDS], [select, OTHER])
    lab.change([("bids", ("A", n, n), 1) for n in range(3_000)], [3_000], [3_000])
    assert set(lab.failed) == {"v"}
    assert "expected an answer within 0.2 s, was a slower query" in lab.failed["v"]
