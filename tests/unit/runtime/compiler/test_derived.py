"""CREATE STREAM … AS SELECT: its clauses, and errors with their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from queries import QUERIES_DIR
from runtime.compiler import Script, SqlError, StreamClauses, parse_script, read_script

MINUTE = 60 * 10**9


def parsed(text: str) -> Script:
    return parse_script(text, name="s.sql", base_dir=Path.cwd())


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("", StreamClauses()),
        ("RETAIN 5 ROWS", StreamClauses(5, 1 << 62)),
        ("RETAIN INTERVAL '5' MINUTE", StreamClauses(1_000_000, 5 * MINUTE)),
        ("retain interval 5 minutes RETAIN 7 ROWS", StreamClauses(7, 5 * MINUTE)),
        ("LATENESS INTERVAL '3 seconds'", StreamClauses(lateness_ns=3 * 10**9)),
        ("LATENESS INTERVAL '0' DAY RETAIN 1 ROW", StreamClauses(1, 1 << 62)),
    ],
)
def test_clauses_say_what_is_kept(clauses: str, expected: StreamClauses) -> None:
    (stream,) = parsed(f"CREATE STREAM Big {clauses} AS SELECT t FROM trades; SELECT 1 FROM bids").derived
    assert (stream.name, stream.clauses, stream.select.sql) == ("big", expected, "SELECT t FROM trades")
    assert stream.select.line == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE STREAM x RETAIN 0 ROWS AS SELECT 1", "s.sql:1:24: expected 1 to 10000000 rows, was 0"),
        ("CREATE STREAM x RETAIN 5 AS SELECT 1", "s.sql:1:26: expected ROWS or ROW, was 'AS'"),
        ("CREATE STREAM x RETAIN 5 ROWS RETAIN 6 ROWS AS SELECT 1", "s.sql:1:31: expected RETAIN … ROWS once, was a"),
        ("CREATE STREAM x LATENESS 5 AS SELECT 1", "s.sql:1:26: expected INTERVAL, was '5'"),
        ("CREATE STREAM x LATENESS INTERVAL '1.5' DAY AS SELECT 1", "s.sql:1:35: expected a whole number in INTERVAL"),
        ("CREATE STREAM x LATENESS INTERVAL '5' MONTH AS SELECT 1", "s.sql:1:39: expected a unit of time (NANOSECOND"),
        ("CREATE STREAM x RETAIN INTERVAL '99999999' DAY AS SELECT 1", "s.sql:1:33: expected an INTERVAL of less than"),
        ("CREATE STREAM x RETAIN 5 ROWS (a INT)", "s.sql:1:31: expected RETAIN, LATENESS or AS, was '('"),
        ("CREATE STREAM x AS\nVALUES (1)", "s.sql:2:1: expected SELECT or WITH, was 'VALUES'"),
        ("CREATE OR REPLACE STREAM x AS SELECT 1", "s.sql:1:1: expected CREATE STREAM x AS, was CREATE OR REPLACE"),
        ("CREATE STREAM x AS SELECT 1;\nCREATE STREAM x AS SELECT 2", "s.sql:2:1: expected one declaration of 'x'"),
    ],
)
def test_errors_have_their_place(text: str, expected: str) -> None:
    with pytest.raises(SqlError) as error:
        parsed(text)
    assert str(error.value).startswith(expected)


@pytest.mark.parametrize(
    ("name", "streams"),
    [
        ("quotes", ["quotes"]),
        ("signed_trades", ["quotes", "signed_trades"]),
        ("bars_1s", ["bars_1s"]),
        ("bars_1m", ["bars_1m"]),
        ("spread_1s", ["quotes", "spread_1s"]),
    ],
)
def test_shipped_streams_are_read(name: str, streams: list[str]) -> None:
    """Each file has what it needs of the others."""
    script = read_script(QUERIES_DIR / f"{name}.sql")
    assert [stream.name for stream in script.derived] == streams
    assert not script.selects


def test_the_same_stream_may_be_declared_by_several_files(tmp_path: Path) -> None:
    (tmp_path / "base.sql").write_text("CREATE STREAM x RETAIN 5 ROWS AS SELECT t FROM trades;")
    (tmp_path / "more.sql").write_text("INCLUDE 'base.sql'; CREATE STREAM y AS SELECT t FROM x;")
    script = parse_script("INCLUDE 'base.sql'; INCLUDE 'more.sql';", name="s.sql", base_dir=tmp_path)
    assert [stream.select.name for stream in script.derived] == ["x", "y"]
    with pytest.raises(SqlError, match="expected one declaration of 'x'"):
        parse_script("INCLUDE 'base.sql'; CREATE STREAM x AS SELECT t FROM trades;", name="s.sql", base_dir=tmp_path)
