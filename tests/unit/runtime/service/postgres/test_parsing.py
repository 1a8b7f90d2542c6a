"""Texts cut into statements: what each asks for, and where what cannot be read stands."""

from __future__ import annotations

import pytest

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.parsing import parsed
from runtime.service.postgres.statements import (
    Begin,
    Close,
    CopyOptions,
    CopyQuestion,
    CopySubscription,
    Deallocate,
    Declare,
    Discard,
    End,
    Execute,
    Fetch,
    Ignored,
    Prepare,
    Question,
    Reset,
    Savepoint,
    Set,
    Show,
    Statement,
)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("BEGIN WORK ISOLATION LEVEL SERIALIZABLE", Begin("BEGIN", 0, writes=False)),
        ("START TRANSACTION READ WRITE", Begin("START TRANSACTION", 0, writes=True)),
        ("COMMIT AND NO CHAIN", End(commits=True)),
        ("END", End(commits=True)),
        ("abort", End(commits=False)),
        ("SAVEPOINT a", Savepoint("SAVEPOINT", "a")),
        ("RELEASE SAVEPOINT a", Savepoint("RELEASE", "a")),
        ('ROLLBACK TO "A"', Savepoint("ROLLBACK", "A")),
        ("SET work_mem = '1GB'", Set("work_mem", "1GB", is_local=False, begin=0)),
        ("SET LOCAL TIME ZONE 'UTC'", Set("timezone", "UTC", is_local=True, begin=0)),
        ("SET x.y TO DEFAULT", Set("x.y", None, is_local=False, begin=0)),
        ("SET SESSION search_path TO a, 'b'", Set("search_path", "a, b", is_local=False, begin=0)),
        ("SET extra_float_digits = -1", Set("extra_float_digits", "-1", is_local=False, begin=0)),
        ("SET NAMES 'UTF8'", Set("client_encoding", "UTF8", is_local=False, begin=0)),
        ("SET TRANSACTION READ ONLY", Ignored("SET")),
        ("SHOW TIME ZONE", Show("timezone")),
        ("SHOW TRANSACTION ISOLATION LEVEL", Show("transaction_isolation")),
        ("RESET ALL", Reset("all")),
        ("DISCARD TEMP", Discard("TEMP")),
        ("UNLISTEN *", Ignored("UNLISTEN")),
        ("DEALLOCATE PREPARE q", Deallocate("q")),
        ("DEALLOCATE ALL", Deallocate(None)),
        ("CLOSE ALL", Close(None)),
        ("FETCH c", Fetch("c", "FORWARD", 1, moves=False)),
        ("FETCH next", Fetch("next", "FORWARD", 1, moves=False)),
        ("FETCH LAST FROM c", Fetch("c", "ABSOLUTE", -1, moves=False)),
        ("FETCH BACKWARD ALL IN c", Fetch("c", "BACKWARD", None, moves=False)),
        ("MOVE RELATIVE -3 c", Fetch("c", "RELATIVE", -3, moves=True)),
        ("DECLARE c BINARY CURSOR WITH HOLD FOR SELECT 1",
         Declare("c", Question("SELECT 1", 38), is_binary=True, outlives=True)),
        ("PREPARE q AS SELECT 1", Prepare("q", (), Question("SELECT 1", 13))),
        ("PREPARE q (bigint, varchar(9), double precision, int[]) AS TABLE r",
         Prepare("q", (20, 1043, 701, 1007), Question("TABLE r", 59))),
        ("EXECUTE q", Execute("q", (), 0)),
        ("EXECUTE q (-1, 'a;b', NULL, DATE '2026-01-02', 'x'::text::varchar(3), true)",
         Execute("q", ("-1", "'a;b'", "NULL", "DATE '2026-01-02'", "'x'::text::varchar(3)", "true"), 0)),
        ("EXPLAIN SELECT 1", Question("SELECT 1", 8, explains=True)),
        ("EXPLAIN (VERBOSE, COSTS off, ANALYZE false, FORMAT text) SELECT 1", Question("SELECT 1", 57, explains=True)),
        ("EXPLAIN VERBOSE SELECT 1 AS OF EPOCH 4", Question("SELECT 1", 16, epoch=4, explains=True)),
        ("COPY r (a, b) TO STDOUT", CopyQuestion(Question('SELECT a, b FROM "r"', 5), CopyOptions())),
        ("COPY (SELECT ')') TO STDOUT (FORMAT csv, HEADER)",
         CopyQuestion(Question("SELECT ')'", 6), CopyOptions("csv", header=True))),
        ("COPY (SELECT 1) TO STDOUT BINARY", CopyQuestion(Question("SELECT 1", 6), CopyOptions("binary"))),
        ("COPY (SUBSCRIBE v AS OF 7) TO STDOUT (PROGRESS)",
         CopySubscription("v", 16, 7, CopyOptions(progress=True))),
    ],
)  # fmt: skip
def test_what_a_statement_asks_for(text: str, statement: Statement) -> None:
    assert parsed(text) == [statement]


def test_a_text_is_cut_at_semicolons_outside_of_literals() -> None:
    found = parsed("SELECT ';'; ; /* ; */ SHOW all;")
    assert found == [Question("SELECT ';'", 0), Show("all")]
    assert parsed(" ; ") == []


def test_parameters_have_their_places() -> None:
    (found,) = parsed("SELECT $2, '$3', $10")
    assert isinstance(found, Question)
    assert found.parameters == 10
    assert [(token.text, token.begin, token.end) for token in found.places] == [("$2", 7, 9), ("$10", 17, 20)]


@pytest.mark.parametrize(
    ("text", "sqlstate", "position"),
    [
        ("INSERT INTO r VALUES (1)", "25006", 1),
        ("SELECT 1; DROP TABLE r", "25006", 11),
        ("LISTEN x", "0A000", 1),
        ("SET", "42601", 4),
        ("SET a b", "42601", 7),
        ("SET SESSION AUTHORIZATION x", "0A000", 1),
        ("FETCH ABSOLUTE x FROM c", "42601", 16),
        ("FETCH ABSOLUTE ² FROM c", "42601", 16),
        ("CLOSE", "42601", 6),
        ("COMMIT x", "42601", 8),
        ("SELECT $0", "42601", 8),
        ("SELECT $999999", "42601", 8),
        ("SELECT 1 AS OF EPOCH 1234567890123456789", "42601", 22),
        ("AS OF EPOCH 5", "42601", 1),
        ("PREPARE q SELECT 1", "42601", 11),
        ("PREPARE q (nothing) AS SELECT 1", "42704", 12),
        ("PREPARE q AS", "42601", 13),
        ("EXECUTE q (1 + 1)", "42601", 14),
        ("EXECUTE q ((SELECT 1))", "42601", 12),
        ("EXECUTE q (1", "42601", 13),
        ("EXPLAIN", "42601", 8),
        ("EXPLAIN (", "42601", 10),
        ("EXPLAIN ANALYZE SELECT 1", "0A000", 9),
        ("EXPLAIN (FORMAT json) SELECT 1", "0A000", 10),
        ("EXPLAIN (NONSENSE) SELECT 1", "42601", 10),
        ("COPY r FROM STDIN", "25006", 1),
        ("COPY r TO STDOUT (", "42601", 19),
        ("COPY r TO '/x'", "42501", 11),
        ("COPY (SELECT 1 TO STDOUT", "42601", 6),
        ("COPY r TO STDOUT (FORMAT xml)", "22023", 0),
        ("COPY r TO STDOUT (DELIMITER ';')", "0A000", 0),
        ("COPY (SUBSCRIBE) TO STDOUT", "42601", 16),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(text: str, sqlstate: str, position: int) -> None:
    with pytest.raises(PostgresError, match="expected") as raised:
        parsed(text)
    assert (raised.value.sqlstate, raised.value.position) == (sqlstate, position), raised.value
