"""Sessions: simple and extended queries, transaction blocks, cursors, settings, and what each message may not do."""

from __future__ import annotations

import struct

import pytest
from twisted.internet.defer import Deferred

from tests.generators.postgres_lab import (
    Client,
    PostgresLab,
    bind,
    execute,
    fields_of,
    message,
    parse,
    query,
    rows_of,
    text,
)

SYNC = message(b"S")
DESCRIBE_PORTAL = message(b"D", b"P", text(""))
DESCRIBE_STATEMENT = message(b"D", b"S", text(""))


@pytest.fixture
def lab() -> PostgresLab:
    return PostgresLab()


@pytest.fixture
def client(lab: PostgresLab) -> Client:
    return lab.session()


def codes(messages: list[tuple[str, bytes]]) -> str:
    return "".join(code for code, _ in messages)


def tags(messages: list[tuple[str, bytes]]) -> list[str]:
    return [content[:-1].decode() for code, content in messages if code == "C"]


def test_several_statements_of_one_text_are_done_in_order(client: Client) -> None:
    found = client.query("SELECT 1 AS a, NULL; SHOW server_encoding; ; SET application_name = 'x'")
    assert codes(found) == "TDCTDCSCZ"
    assert tags(found) == ["SELECT 1", "SHOW", "SET"]
    assert rows_of(found) == [["1", None], ["UTF8"]]
    assert codes(client.query("")) == codes(client.query(" ; -- nothing\n")) == "IZ"


def test_an_error_ends_the_text_and_no_more(client: Client) -> None:
    found = client.query("SELECT 1; SELECT nothing FROM r; SELECT 2")
    assert codes(found) == "TDCEZ"
    error = fields_of(found[3][1])
    assert (error["C"], error["P"]) == ("42703", "18")
    assert client.rows("SELECT 3") == [["3"]]


@pytest.mark.parametrize(
    ("sql", "sqlstate", "place"),
    [
        ("INSERT INTO r VALUES (1)", "25006", "1"),
        (" CREATE TABLE x (a int)", "25006", "2"),
        ("WITH x AS (INSERT INTO r VALUES (1)) SELECT * FROM x", "25006", "12"),
        ("WITH x AS (SELECT 1) DELETE FROM r", "25006", "1"),
        ("COPY (UPDATE r SET a = 1) TO STDOUT", "25006", "7"),
        ("SELECT relname, " + "(" * 101 + "1" + ")" * 101 + " FROM pg_class", "54001", "117"),
        ("SELECT * FROM\n missing", "42P01", "16"),
        ("SELECT 'abc", "42601", "8"),
        ("SELEC 1", "42601", "1"),
        ("SELECT nofunction(1)", "42883", "8"),
        ("SELECT 'x'::INTEGER", "22P02", "11"),
        ("COPY r FROM STDIN", "25006", "1"),
        ("COPY r TO '/tmp/x'", "42501", "11"),
        ("SET nonsense = 1", "42704", "1"),
        ("FETCH 1 FROM nobody", "34000", ""),
        ("DECLARE c CURSOR FOR SELECT 1", "25P01", ""),
        ("BEGIN READ WRITE", "25006", "1"),
        ("SELECT $1", "42P02", "8"),
        ("LISTEN x", "0A000", "1"),
        ("SELECT * FROM read_csv('/etc/passwd')", "42501", "15"),
    ],
)
def test_what_cannot_be_done_is_said_with_its_state_and_place(
    client: Client, sql: str, sqlstate: str, place: str
) -> None:
    error = client.error(query(sql))
    assert (error["C"], error.get("P", "")) == (sqlstate, place), error["M"]
    assert client.rows("SELECT 1") == [["1"]]


def test_a_block_sees_one_version(lab: PostgresLab, client: Client) -> None:
    client.query("BEGIN")
    client.query("SELECT 1")
    lab.asker.epoch = 9
    assert client.query("SELECT 2")[-1] == ("Z", b"T")
    assert client.rows("SHOW deltabook.epoch") == [["7"]]
    assert "epoch 7" in client.error(query("SELECT 3 AS OF EPOCH 5"))["M"]
    assert client.query("ROLLBACK")[-1] == ("Z", b"I")
    client.query("SELECT 4")
    assert [epoch for _, epoch in lab.asker.asked] == [7, 7, None]
    client.query("SELECT 5; SELECT 6")
    assert [epoch for _, epoch in lab.asker.asked[3:]] == [9, 9]
    client.query("SELECT 7 AS OF EPOCH 5")
    assert lab.asker.asked[-1] == ("SELECT 7", 5)
    client.query("BEGIN; SELECT 8; COMMIT; SELECT 9; SELECT 10")
    assert [epoch for _, epoch in lab.asker.asked[-3:]] == [9, 9, 9], "the rest of a message is a block again"


def test_a_failed_block_does_nothing_until_its_end(client: Client) -> None:
    client.query("BEGIN; SAVEPOINT a")
    assert client.query("SELECT nothing")[-1] == ("Z", b"E")
    assert client.error(query("SELECT 1"))["C"] == "25P02"
    assert client.query("ROLLBACK TO a")[-1] == ("Z", b"T")
    assert client.rows("SELECT 1") == [["1"]]
    client.query("SELECT nothing")
    found = client.query("COMMIT")
    assert tags(found) == ["ROLLBACK"]
    assert found[-1] == ("Z", b"I")
    assert codes(client.query("COMMIT")) == "NCZ"


def test_a_rollback_undoes_settings_and_cursors(client: Client) -> None:
    client.query("BEGIN; SET application_name TO 'a'; DECLARE before CURSOR FOR SELECT 1; SAVEPOINT s")
    client.query("SET application_name TO 'b'; SET LOCAL statement_timeout TO '5s'; DECLARE after CURSOR FOR SELECT 2")
    assert codes(client.query("ROLLBACK TO s")) == "SCZ"
    assert client.rows("SHOW application_name; SHOW statement_timeout") == [["a"], ["0"]]
    assert client.rows("FETCH before") == [["1"]]
    assert client.error(query("FETCH after"))["C"] == "34000"
    client.query("ROLLBACK")
    client.query("DECLARE h CURSOR WITH HOLD FOR SELECT 3")
    client.query("BEGIN; DECLARE g CURSOR WITH HOLD FOR SELECT 4; ROLLBACK")
    assert client.error(query("FETCH g"))["C"] == "34000"
    assert client.rows("FETCH h; SHOW application_name") == [["3"], [""]]


def test_the_settings_of_one_message_stand_or_fall_together(client: Client) -> None:
    assert codes(client.query("SET application_name TO 'a'; SELECT nothing")) == "SCESZ"
    assert client.rows("SHOW application_name") == [[""]]
    assert client.rows("SET LOCAL statement_timeout TO '5s'; SHOW statement_timeout") == [["5s"]]
    client.query("SET application_name TO 'b'; SELECT 1")
    assert client.rows("SHOW application_name; SHOW statement_timeout") == [["b"], ["0"]]


def test_messages_up_to_sync_stand_or_fall_together(client: Client) -> None:
    sent = parse("SET application_name TO 'a'") + bind() + execute()
    hold = parse("DECLARE h CURSOR WITH HOLD FOR SELECT 1") + bind() + execute()
    found = client.send(sent + hold + parse("SELECT nothing FROM r") + bind() + execute() + SYNC)
    assert found[-2:] == [("S", b"application_name\0\0"), ("Z", b"I")]
    assert client.rows("SHOW application_name") == [[""]]
    assert client.error(query("FETCH h"))["C"] == "34000"
    client.send(sent + hold + SYNC)
    assert client.rows("SHOW application_name; FETCH h") == [["a"], ["1"]]
    client.send(parse("SET application_name TO 'b'") + bind() + execute() + query("SELECT nothing"))
    assert client.rows("SHOW application_name") == [["a"]]
    client.send(parse("SET application_name TO 'c'") + bind() + execute() + parse("BEGIN") + bind() + execute() + SYNC)
    client.query("ROLLBACK")
    assert client.rows("SHOW application_name") == [["a"]]


def test_a_held_cursor_of_a_failed_message_is_closed(client: Client) -> None:
    client.query("DECLARE h CURSOR WITH HOLD FOR SELECT 1; SELECT nothing")
    assert client.error(query("FETCH h"))["C"] == "34000"
    client.query("DECLARE h CURSOR WITH HOLD FOR SELECT 1; BEGIN; ROLLBACK")
    assert client.error(query("FETCH h"))["C"] == "34000"
    client.query("DECLARE h CURSOR WITH HOLD FOR SELECT 1; COMMIT; SELECT nothing")
    assert client.rows("FETCH h") == [["1"]]


def test_parameters_of_all_kinds_come_back(client: Client) -> None:
    sql = "SELECT $1 + 1, $2, $3::date, $4, $5"
    sent = parse(sql, oids=(23, 0, 0, 17, 1016)) + bind(
        struct.pack("!i", 41), b"it's", b"2026-01-02", b"\x00\xff", b"{1,NULL}", forms=(1, 0, 0, 1, 0)
    )
    found = client.send(sent + DESCRIBE_PORTAL + execute() + SYNC)
    assert codes(found) == "12TDCZ"
    assert rows_of(found) == [["42", "it's", "2026-01-02", "\\x00ff", "{1,NULL}"]]


def test_a_statement_is_described_before_it_has_values(client: Client) -> None:
    found = client.send(
        parse("SELECT s, a * 2 AS b FROM r WHERE a > $1 AND s = $2 LIMIT $3") + DESCRIBE_STATEMENT + SYNC
    )
    assert codes(found) == "1tTZ"
    assert found[1][1] == struct.pack("!h3i", 3, 20, 25, 20)
    assert found[2][1].startswith(struct.pack("!h", 2) + b"s\0" + bytes(6) + struct.pack("!i", 25))
    found = client.send(bind(b"1", b"y", b"9") + execute() + SYNC)
    assert rows_of(found) == [["y", "4"]]


def test_a_described_column_may_be_named_after_a_value(client: Client) -> None:
    """DuckDB names a column without an alias after its expression, in which the value of the parameter stands."""
    found = client.send(parse("SELECT a * $1::numeric FROM r WHERE s = 'y'") + DESCRIBE_STATEMENT + SYNC)
    assert found[1][1] == struct.pack("!hi", 1, 1700)
    found = client.send(bind(b"1.50") + execute() + SYNC)
    assert rows_of(found) == [["3.000"]]


def test_a_parameter_of_any_number_has_a_type(client: Client) -> None:
    found = client.send(parse("SELECT $40000") + DESCRIBE_STATEMENT + SYNC)
    assert found[1] == ("t", struct.pack("!H40000i", 40_000, *[25] * 40_000))


def test_sql_prepares_executes_and_deallocates(client: Client) -> None:
    found = client.query("PREPARE q (bigint, text) AS SELECT $1 + 1 AS a, $2; EXECUTE q(41, 'it''s'); DEALLOCATE q")
    assert tags(found) == ["PREPARE", "SELECT 1", "DEALLOCATE"]
    assert rows_of(found) == [["42", "it's"]]
    error = client.error(query("EXECUTE q(1, 'x')"))
    assert (error["C"], error["P"]) == ("26000", "1")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("numeric[]", "'{1.5,2.123456789012345,NULL}'", "{1.500000000000000,2.123456789012345,NULL}"),
        ("numeric[]", "'{}'", "{}"),
        ("int[]", "'{1,NULL}'", "{1,NULL}"),
        ("text[]", """'{"a,b",it''s}'""", """{"a,b",it's}"""),
        ("numeric", "'1.123456789012'", "1.123456789012"),
        ("numeric", "-1e20", "-100000000000000000000"),
        ("numeric", "NULL", None),
        ("bytea", r"'\x6162'", r"\x6162"),
        ("text", "$$it's$$", "it's"),
        ("text", "'a'::varchar", "a"),
        ("numeric", "2.50::decimal(9,2)", "2.50"),
    ],
)
def test_a_constant_of_execute_is_a_value_of_its_type(
    client: Client, kind: str, value: str, expected: str | None
) -> None:
    """PostgreSQL's texts of arrays and bytes differ from DuckDB's."""
    client.query(f"PREPARE q ({kind}) AS SELECT $1")
    found = client.query(f"EXECUTE q ({value})")
    assert rows_of(found) == [[expected]]


@pytest.mark.parametrize(
    "sql",
    [
        r"SELECT '\x6162'::bytea",
        r"SELECT '\x6162' :: BYTEA",
        r"SELECT bytea '\x6162'",
        r"SELECT '\x61\x62'::bytea",
        r"SELECT '\x6162'::bytea FROM public.r WHERE a = 1",
    ],
)
def test_hexadecimal_bytes_are_those_of_postgres(client: Client, sql: str) -> None:
    r"""DuckDB reads only two digits after a \x; clients that write values into their SQL send PostgreSQL's form."""
    assert client.rows(sql) == [[r"\x6162"]]


def test_errors_after_hexadecimal_bytes_have_their_place(client: Client) -> None:
    sql = r"SELECT '\x616263'::bytea, nothing FROM r"
    assert client.error(query(sql))["P"] == str(sql.index("nothing") + 1)


def test_statements_of_sql_and_protocol_share_names(client: Client) -> None:
    client.query("PREPARE q AS SELECT s FROM r WHERE a = $1")
    found = client.send(bind(b"2", name="q") + execute() + SYNC)
    assert rows_of(found) == [["y"]]
    client.send(parse("SELECT $1 * 2", name="p", oids=(20,)) + SYNC)
    assert client.rows("EXECUTE p ('21')") == [["42"]]
    found = client.send(parse("EXECUTE q (1)") + DESCRIBE_STATEMENT + bind() + execute() + SYNC)
    assert rows_of(found) == [["x"]]


@pytest.mark.parametrize(
    ("sql", "sqlstate", "place"),
    [
        ("EXECUTE q", "42601", "1"),
        ("SELECT 1; EXECUTE q (1, 2)", "42601", "11"),
        (" EXECUTE q ('x')", "22P02", "2"),
        ("PREPARE b (bytea) AS SELECT $1; EXECUTE b (E'\\\\x61')", "0A000", "33"),
        (" PREPARE n (numeric[]) AS SELECT $1; EXECUTE n ('{1,{2}}')", "0A000", "38"),
        ("EXECUTE q (now())", "42601", "12"),
        ("PREPARE q AS SELECT 1", "42P05", ""),
        ("PREPARE w AS INSERT INTO r VALUES (1); EXECUTE w", "25006", "40"),
        ("EXPLAIN SELECT nothing FROM r", "42703", "16"),
        ("EXPLAIN EXECUTE q(1)", "42601", "9"),
    ],
)
def test_errors_of_prepared_statements_have_their_place(client: Client, sql: str, sqlstate: str, place: str) -> None:
    client.query("PREPARE q (bigint) AS SELECT $1")
    error = client.error(query(sql))
    assert (error["C"], error.get("P", "")) == (sqlstate, place), error["M"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT current_user, version(), " + "(" * 90 + "1" + ")" * 90,
        "SELECT current_user, version(), " + "(" * 200 + "1" + ")" * 200,
        "SELECT session_user, version(), list_sum(list_transform([0, 1], lambda x: x))",
        "SELECT user, version(), '" + "x" * 70_000 + "'",
        "VALUES (current_user, version(), 1)",
    ],
    ids=["nested", "nested too deeply for a parser", "syntax of DuckDB", "long", "VALUES"],
)
def test_session_functions_have_answers_of_the_session(client: Client, sql: str) -> None:
    """DuckDB has functions of these names, too, with its own user and version."""
    ((user, version, _),) = client.rows(sql)
    assert user == "me"
    assert version is not None
    assert version.startswith("PostgreSQL ")


def test_a_nested_question_is_answered_from_the_catalogue(client: Client) -> None:
    assert ["r", "1"] in client.rows("SELECT relname, " + "(" * 90 + "1" + ")" * 90 + " FROM pg_class")


def test_a_plan_is_shown_and_the_question_is_not_run(lab: PostgresLab, client: Client) -> None:
    found = client.query("EXPLAIN SELECT s, COUNT(*) FROM r GROUP BY s AS OF EPOCH 5")
    assert tags(found) == ["EXPLAIN"]
    assert b"QUERY PLAN" in found[0][1]
    assert any("Group By" in (line or "") for (line,) in rows_of(found))
    assert lab.asker.asked == [("SELECT s, COUNT(*) FROM r GROUP BY s", 5)]
    found = client.send(parse("EXPLAIN SELECT $1 + 1") + DESCRIBE_STATEMENT + bind(b"1") + execute() + SYNC)
    assert codes(found).startswith("1tT2D")
    assert tags(found) == ["EXPLAIN"]


def test_binary_columns_beside_text(client: Client) -> None:
    found = client.send(parse("SELECT 258::BIGINT, 258") + bind(wanted=(1, 0)) + execute() + SYNC)
    assert found[2] == ("D", struct.pack("!hiqi", 2, 8, 258, 3) + b"258")


def test_a_portal_is_read_in_parts(client: Client) -> None:
    client.query("BEGIN")
    found = client.send(parse("SELECT * FROM range(5)") + bind(portal="p") + execute("p", 2) + SYNC)
    assert codes(found) == "12DDsZ"
    assert codes(client.send(execute("p", 2) + execute("p", 2) + SYNC)) == "DDsDCZ"
    client.query("COMMIT")
    assert client.error(execute("p") + SYNC)["C"] == "34000"


def test_after_an_error_all_is_skipped_until_sync(client: Client) -> None:
    found = client.send(parse("SELECT nothing") + bind() + execute() + parse("SELECT 1") + SYNC + query("SELECT 2"))
    assert codes(found) == "12EZTDCZ"


def test_cursors_move_both_ways(client: Client) -> None:
    client.query("BEGIN")
    client.query("DECLARE c SCROLL CURSOR FOR SELECT * FROM range(5) t(n)")
    assert client.rows("FETCH c") == [["0"]]
    assert client.rows("FETCH 2 FROM c") == [["1"], ["2"]]
    assert client.rows("FETCH BACKWARD 2 FROM c") == [["1"], ["0"]]
    assert client.rows("FETCH PRIOR FROM c") == []
    assert client.rows("FETCH ALL IN c") == [[str(number)] for number in range(5)]
    assert client.rows("FETCH ABSOLUTE -2 FROM c") == [["3"]]
    assert client.rows("FETCH RELATIVE 0 FROM c") == [["3"]]
    assert tags(client.query("MOVE FIRST FROM c; FETCH LAST FROM c; CLOSE c")) == ["MOVE 1", "FETCH 1", "CLOSE CURSOR"]
    assert client.error(query("FETCH c"))["C"] == "34000"
    client.query("ROLLBACK")
    client.query("DECLARE h CURSOR WITH HOLD FOR SELECT 8")
    assert client.rows("FETCH h") == [["8"]]
    assert client.rows("FETCH h") == []


def test_what_a_session_holds_is_given_back(lab: PostgresLab) -> None:
    client = lab.session()
    client.query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM range(1000)")
    assert lab.factory.held_bytes.total > 0
    client.lose()
    assert lab.factory.held_bytes.total == 0
    assert lab.factory.connections.open == 0
    assert not lab.factory.sessions


def test_answers_of_all_sessions_have_one_bound() -> None:
    client = PostgresLab(answers_bytes=20_000).session()
    client.query("BEGIN")
    client.query("DECLARE a CURSOR FOR SELECT * FROM range(2000)")
    assert client.error(query("DECLARE b CURSOR FOR SELECT * FROM range(2000)"))["C"] == "53200"


def test_portals_and_statements_are_bounded(client: Client) -> None:
    sent = b"".join(parse("SELECT 1", name=f"n{number}") for number in range(1001))
    assert client.error(sent + SYNC)["C"] == "53400"
    client.query("BEGIN")
    sent = parse("SELECT 1") + b"".join(bind(portal=f"p{number}") for number in range(101))
    assert client.error(sent + SYNC)["C"] == "53400"
    client.query("ROLLBACK; DEALLOCATE ALL")
    assert codes(client.send(parse("SELECT 1", name="n0") + SYNC)) == "1Z"


def test_settings_of_a_block_go_with_it(client: Client) -> None:
    client.query("SET application_name = 'before'")
    client.query("SET application_name = 'with it'; BEGIN; SET application_name = 'inside'; SET LOCAL work_mem = '1GB'")
    assert client.rows("SHOW work_mem") == [["1GB"]]
    assert ("S", b"application_name\0before\0") in client.query("ROLLBACK")
    assert client.rows("SHOW work_mem") == [["4MB"]]
    assert client.rows("SHOW application_name") == [["before"]]
    client.query("DISCARD ALL")
    assert client.rows("SHOW application_name") == [[""]]


def test_options_of_the_start_are_settings(lab: PostgresLab) -> None:
    client = lab.session(options="-c statement_timeout=5s --application-name=x", client_encoding="'utf-8'")
    assert client.rows("SHOW statement_timeout") == [["5s"]]
    assert client.rows("SHOW application_name") == [["x"]]


def test_copy_writes_rows_as_lines(client: Client) -> None:
    found = client.query("COPY (SELECT a, s FROM r ORDER BY a) TO STDOUT (FORMAT csv, HEADER)")
    assert codes(found) == "HddddcCZ"
    assert b"".join(content for code, content in found if code == "d") == b"a,s\n1,x\n2,y\n3,\n"
    found = client.query("COPY r TO STDOUT")
    assert b"".join(content for code, content in found if code == "d") == b"1\tx\n2\ty\n3\t\\N\n"
    found = client.query("COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)")
    assert [content for code, content in found if code == "d"] == [b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"]


def test_a_statement_is_cancelled_by_its_secret_alone(lab: PostgresLab) -> None:
    client = lab.connect()
    (key,) = [content for code, content in client.begin() if code == "K"]
    lab.asker.waits = Deferred()
    assert client.query("SELECT 1") == []
    number, secret = struct.unpack("!iI", key)
    for guess in (secret + 1, 0):
        other = lab.connect()
        assert other.send(struct.pack("!iiiI", 16, 80877102, number, guess)) == []
        assert other.transport.disconnecting
    assert client.read() == []
    lab.connect().send(struct.pack("!iiiI", 16, 80877102, number, secret))
    found = client.read()
    assert codes(found) == "EZ"
    assert fields_of(found[0][1])["C"] == "57014"
    lab.asker.waits = None
    assert client.rows("SELECT 1") == [["1"]]


def test_a_statement_may_have_a_shorter_time(lab: PostgresLab) -> None:
    client = lab.session()
    client.query("SET statement_timeout = '2s'")
    lab.asker.waits = Deferred()
    client.query("SELECT 1")
    lab.clock.advance(1.9)
    assert client.read() == []
    lab.clock.advance(0.2)
    assert fields_of(client.read()[0][1])["C"] == "57014"


def test_a_reader_that_takes_nothing_is_waited_for_and_ended(lab: PostgresLab) -> None:
    client = lab.session()
    client.query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM range(200000)")
    client.transport.producer.pauseProducing()
    assert codes(client.query("FETCH ALL FROM c")) == ""
    client.transport.producer.resumeProducing()
    found = client.read()
    assert codes(found).count("D") == 200_000
    assert tags(found) == ["FETCH 200000"]
    client.transport.producer.pauseProducing()
    client.query("SELECT 1")
    lab.clock.advance(61)
    assert client.transport.is_aborted


def test_a_client_far_ahead_is_not_read_from(lab: PostgresLab) -> None:
    client = lab.session()
    lab.asker.waits = Deferred()
    client.send(query("SELECT 1") + query("SELECT '" + "x" * 300_000 + "'"))
    assert client.transport.producerState == "paused"
    waiting, lab.asker.waits = lab.asker.waits, None
    waiting.callback(None)
    assert codes(client.read()) == "TDCZTDCZ"
    assert client.transport.producerState == "producing"
    assert lab.factory.arriving_bytes == 0
