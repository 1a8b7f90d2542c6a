"""Whatever bytes a client of PostgreSQL sends, the port answers in whole messages, holds little, and serves others."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as some

from tests.generators.postgres_lab import PostgresLab, bind, execute, message, parse, query, text
from tests.harness.examples import examples

_SQL = some.sampled_from(
    ["SELECT 1", "SELECT a FROM r", "BEGIN", "COMMIT", "ROLLBACK", "SHOW all", "SELECT $1", "", ";", "SELECT '", "/*",
     "DECLARE c CURSOR FOR SELECT 1", "FETCH c", "CLOSE ALL", "COPY r TO STDOUT", "COPY (SUBSCRIBE sums) TO STDOUT",
     "SET work_mem = 1", "DISCARD ALL", "SELECT * FROM pg_class LIMIT 1", "SAVEPOINT a", "INSERT INTO r", "SELECT ((((",
     "PREPARE a (int) AS SELECT $1", "EXECUTE a (1)", "EXECUTE a", "DEALLOCATE a", "EXPLAIN SELECT 1",
     "EXPLAIN EXECUTE a"]
)  # fmt: skip
_NAME = some.sampled_from(["", "a", "b"])
_WHOLE = some.one_of(
    some.builds(query, _SQL),
    some.builds(parse, _SQL, _NAME),
    some.builds(lambda portal, name, value: bind(*value, portal=portal, name=name), _NAME, _NAME,
                some.lists(some.none() | some.binary(max_size=4), max_size=2)),
    some.builds(execute, _NAME, some.integers(-1, 3)),
    some.builds(lambda kind, name: message(b"D", kind, text(name)), some.sampled_from([b"S", b"P", b"X"]), _NAME),
    some.builds(lambda kind, name: message(b"C", kind, text(name)), some.sampled_from([b"S", b"P"]), _NAME),
    some.sampled_from([message(b"S"), message(b"H"), message(b"X"), message(b"d", b"x"), message(b"F", b"")]),
)  # fmt: skip
_ANY = some.one_of(
    _WHOLE,
    _WHOLE,
    some.builds(lambda code, content: message(bytes((code,)), content), some.integers(0, 255), some.binary(max_size=9)),
    some.builds(lambda code, length: code + struct.pack("!i", length), some.sampled_from([b"Q", b"P", b"B"]),
                some.integers(-(2**31), 2**31 - 1)),
    some.binary(max_size=20),
)  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(some.lists(_ANY, max_size=8), some.lists(some.integers(1, 40), max_size=6), some.booleans())
def test_no_bytes_harm_another_session(pieces: list[bytes], cuts: list[int], is_let_in: bool) -> None:
    lab = PostgresLab()
    other = lab.session()
    client = lab.session() if is_let_in else lab.connect()
    data, at = b"".join(pieces), 0
    for cut in [*cuts, len(data)]:
        for code, _ in client.send(data[at : at + cut]):
            assert code in "1234nTtDCEIZSNsRKvHdc"
        at += cut
    if client.transport.disconnecting:
        client.send(b"Q\0\0\0\4")
    assert other.rows("SELECT 1") == [["1"]]
    client.lose()
    for _ in range(3):
        lab.clock.advance(0)
    assert lab.factory.held_bytes.total == 0
    assert lab.factory.arriving_bytes == 0
    assert lab.factory.connections.open == 1
    assert lab.factory.counts.subscribers == 0
