"""A question is one SELECT over relations and views; everything else is refused with its place."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from runtime.compiler import SqlError
from runtime.service.sandbox import AskError
from runtime.service.sandbox.question import checked, with_epoch


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", ()),
        ("SELECT * FROM Bids JOIN asks USING (symbol)", ("bids", "asks")),
        ("FROM bids", ("bids",)),
        ("WITH x AS (SELECT * FROM bids) SELECT * FROM x, range(3), unnest([1])", ("bids",)),
        ("WITH RECURSIVE n AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM n WHERE a < 5) SELECT * FROM n", ()),
        ("SELECT (SELECT MAX(price) FROM bids) WHERE EXISTS (FROM asks)", ("bids", "asks")),
        ("VALUES (1), (2)", ()),
        ("SELECT 1 UNION ALL SELECT price FROM trades;", ("trades",)),
        ("SELECT * FROM (PIVOT bids ON symbol IN ('A') USING SUM(volume))", ("bids",)),
        ("SELECT * FROM bids, (WITH bids AS (SELECT 7 AS y) SELECT * FROM bids) AS z", ("bids",)),
        ("SELECT * FROM (WITH bids AS (SELECT 7 AS y) SELECT * FROM bids) AS z", ()),
        ("WITH bids AS (SELECT * FROM bids) SELECT * FROM bids", ("bids",)),
        ("WITH x AS (SELECT * FROM bids), bids AS (SELECT 1) SELECT * FROM x", ("bids",)),
        ("WITH bids AS (SELECT 1 AS a), x AS (SELECT * FROM bids) SELECT * FROM x", ()),
        ("WITH bids AS (SELECT 1 AS a) SELECT (SELECT MAX(a) FROM BIDS) FROM (SELECT * FROM bids) AS y", ()),
        ("WITH x AS (WITH bids AS (SELECT 1 AS a) SELECT * FROM bids) SELECT * FROM x, bids", ("bids",)),
        ("(WITH bids AS (SELECT 1 AS a) SELECT * FROM bids) UNION ALL SELECT * FROM bids", ("bids",)),
        ("WITH RECURSIVE n AS (SELECT a FROM n UNION ALL SELECT a + 1 FROM n WHERE a < 5) SELECT * FROM n", ("n",)),
    ],
)
def test_what_is_read(connection: duckdb.DuckDBPyConnection, sql: str, names: tuple[str, ...]) -> None:
    assert tuple(name for name, _ in checked(sql, connection).names) == names


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "question: expected one SELECT, was no statements"),
        ("SELECT 1; SELECT 2", "question: expected one SELECT, was 2 statements"),
        ("COPY bids TO 'x.csv'", "question:1:1: expected a SELECT, was COPY"),
        ("PIVOT bids ON symbol USING SUM(volume)", "question:1:1: expected PIVOT … ON column IN (values), as the"),
        ("ATTACH 'x.db'", "question:1:1: expected a SELECT, was ATTACH"),
        ("INSTALL httpfs", "question:1:1: expected a SELECT, was LOAD"),
        ("LOAD httpfs", "question:1:1: expected a SELECT, was LOAD"),
        ("PRAGMA database_list", "question:1:1: expected a SELECT, was PRAGMA"),
        ("SET threads = 9", "question:1:1: expected a SELECT, was SET"),
        ("CREATE TABLE x AS SELECT 1", "question:1:1: expected a SELECT, was CREATE"),
        ("DROP VIEW bids", "question:1:1: expected a SELECT, was DROP"),
        ("WITH x AS (INSERT INTO bids VALUES (1)) SELECT 1", "question:1:12: expected a SELECT in WITH, was INSERT"),
        ("WITH x AS ( update bids SET a = 1) FROM x", "question:1:13: expected a SELECT in WITH, was UPDATE"),
        ("SELECT (WITH x AS MATERIALIZED (DELETE FROM bids RETURNING a) FROM x)",
         "question:1:33: expected a SELECT in WITH, was DELETE"),
        ("WITH x AS (COPY (SELECT 1) TO 'x.csv') SELECT 1", "question:1:12: expected a SELECT in WITH, was COPY"),
        ("CALL pragma_version()", "question:1:1: expected a SELECT, was CALL"),
        ("EXPLAIN SELECT 1", "question:1:1: expected a SELECT, was EXPLAIN"),
        ("DESCRIBE bids", "question:1:1: expected a SELECT, was DESCRIBE, SHOW or SUMMARIZE"),
        ("SELECT * FROM (SUMMARIZE bids)", "question:1:1: expected a SELECT, was DESCRIBE, SHOW or SUMMARIZE"),
        ("SELECT *\nFROM read_csv('/etc/passwd')",
         "question:2:6: expected a relation, a view or one of the functions generate_series, range, unnest in FROM"),
        ("SELECT * FROM read_text('/etc/passwd')", "was read_text()"),
        ("SELECT * FROM read_parquet('x')", "was read_parquet()"),
        ("SELECT * FROM glob('/*')", "was glob()"),
        ("SELECT * FROM duckdb_settings()", "was duckdb_settings()"),
        ("SELECT * FROM query('SELECT 1')", "was query()"),
        ("SELECT * FROM bids WHERE volume IN (SELECT size FROM glob('/*'))", "question:1:54: expected a relation"),
        ("SELECT getenv('HOME')", "question:1:8: expected functions of the rows alone, was getenv()"),
        ("SELECT 'ä', current_setting('threads')",
         "question:1:13: expected functions of the rows alone, was current_setting()"),
        ("SELECT * FROM information_schema.tables",
         "question:1:15: expected a relation or a view, was 'information_schema.tables'"),
        ("SELECT * FROM memory.main.bids", "expected a relation or a view, was 'memory.main.bids'"),
        ("SELECT system.main.now()", "question:1:8: expected now() without a schema, which has the time of the epoch"),
        ("SELECT price FROM bids WHERE", 'question:1:24: Parser Error: syntax error at or near "WHERE"'),
        ("SELECT price FRM bids x y", "Parser Error"),
    ],
)  # fmt: skip
def test_what_is_refused(connection: duckdb.DuckDBPyConnection, sql: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        checked(sql, connection)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "epoch", "expected"),
    [
        ("SELECT 1", None, ("SELECT 1", None)),
        ("SELECT 1", 7, ("SELECT 1", 7)),
        ("SELECT 1 AS OF EPOCH 12", None, ("SELECT 1 ", 12)),
        ("SELECT 1 as of\nepoch 12 ;", 12, ("SELECT 1 ", 12)),
        ("SELECT ' AS OF EPOCH 12'", None, ("SELECT ' AS OF EPOCH 12'", None)),
        ("SELECT 1 -- AS OF EPOCH 12", 3, ("SELECT 1 -- AS OF EPOCH 12", 3)),
        ("SELECT 1 AS OF", None, ("SELECT 1 AS OF", None)),
        ("SELECT 'x", None, ("SELECT 'x", None)),
    ],
)
def test_the_epoch_of_a_question(sql: str, epoch: int | None, expected: tuple[str, int | None]) -> None:
    assert with_epoch(sql, epoch) == expected


def test_two_epochs_are_one_too_many() -> None:
    with pytest.raises(AskError, match="expected one epoch, was 3 and AS OF EPOCH 4"):
        with_epoch("SELECT 1 AS OF EPOCH 4", 3)


@pytest.mark.parametrize(
    ("sql", "reads_clock"),
    [
        ("SELECT now()", True),
        ("SELECT a FROM bids WHERE t > CURRENT_TIMESTAMP - INTERVAL 1 DAY", True),
        ("SELECT age(t) FROM bids", True),
        ("SELECT localtime", True),
        ("SELECT 'now', t AS now FROM bids", False),
    ],
)
def test_a_question_that_may_read_the_clock(connection: duckdb.DuckDBPyConnection, sql: str, reads_clock: bool) -> None:
    assert checked(sql, connection).reads_clock is reads_clock


@pytest.mark.parametrize("digits", [str(2**63), "9" * 30, "9" * 5000])
def test_an_epoch_that_cannot_be_is_refused(digits: str) -> None:
    with pytest.raises(AskError, match="expected the number of an epoch, was 9"):
        with_epoch(f"SELECT 1 AS OF EPOCH {digits}", None)
    assert with_epoch(f"SELECT 1 AS OF EPOCH {2**63 - 1}", None) == ("SELECT 1 ", 2**63 - 1)
