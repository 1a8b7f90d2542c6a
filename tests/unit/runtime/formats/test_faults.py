"""Malformed tuples by policy: left out, described, or the end of the stream; never silent, and nothing else lost.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import random

import pytest

from runtime.formats import (
    CsvFormat,
    Field,
    InOrder,
    InputFormatter,
    Limits,
    Malformed,
    RawBuffer,
    Schema,
)
from runtime.relations import FEED_SCHEMA
from tests.generators.text_buffers import cut, feed_text, format_all, in_pieces, rows_of

NUMBERS = Schema((Field("n", "int64"),), CsvFormat())
SHORT = Schema((Field("word", "string"),), CsvFormat(), limits=Limits(tuple_bytes=512))


def with_policy(policy: Malformed) -> InputFormatter:
    return InputFormatter(Schema((Field("n", "int64"),), CsvFormat(), malformed=policy))


@pytest.mark.parametrize("size", [1, 5, 13, 1_000])
@pytest.mark.parametrize("at_once", [1, 4, 1_000])
def test_every_kind_of_bad_tuple_is_a_dead_letter(size: int, at_once: int) -> None:
    """Rows 23 and 24: bad values and wrong numbers of fields are described; every good row stays, in order."""
    bad = {
        3: b"3,x,3,4,B,1,1,ACME",
        5: b"5,5",
        6: b"6,6,3,4,B,1,1,ACME,more",
        9: b"9,9223372036854775808,3,4,B,1,1,ACME",
        10: b"10,10,3,4,B,1,1,\xff\xfe",
        12: b"12,1.5,3,4,B,1,1,ACME",
        13: b"13,,3,4,B,1,1,ACME",
        14: b"14,14,3,4,B\rX,1,1,ACME",
    }
    lines = [bad.get(n, feed_text(1, n)[:-1]) for n in range(1, 21)]
    text = b"\n".join(lines) + b"\n"
    raws = in_pieces(text, size)
    raws = random.Random(size).sample(raws, len(raws))
    formatter = InputFormatter(FEED_SCHEMA)
    batches = format_all(formatter, raws, finish=False, at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == [n for n in range(1, 21) if n not in bad]
    assert sum(batch.tuples for batch in batches) == 20
    letters = [letter for batch in batches for letter in batch.dead]
    assert [letter.data for letter in letters] == list(bad.values())
    assert [letter.field for letter in letters] == ["time_ns", "", "", "time_ns", "symbol", "time_ns", "time_ns", ""]
    assert [letter.row for letter in letters] == [n - 1 for n in bad]
    assert all(text[letter.byte_offset :].startswith(letter.data) for letter in letters)
    ends = [letter.byte_offset + len(letter.data) for letter in letters]  # where the delimiter stands
    assert [letter.sequence_number for letter in letters] == [end // size + 1 for end in ends]
    assert (letters[1].expected, letters[1].reason, letters[0].expected) == ("8 fields", "2 fields", "int64")
    assert [n for batch in batches for n in batch.tuple_numbers.tolist()] == [
        n - 1 for n in range(1, 21) if n not in bad
    ]
    assert [end for batch in batches for end in batch.row_ends.tolist()][-1] == len(text)
    assert (sum(batch.tuples for batch in batches), sum(batch.bad for batch in batches)) == (20, 8)


def test_dead_letter_names_its_place() -> None:
    """Row 23: sequence number, row, field, expected type and bytes, in one sentence."""
    raws = cut(b"1\n2\n3\n4\nx5\n6\n", [4])
    for at_once in (1, 2):
        batches = format_all(InputFormatter(NUMBERS), raws, at_once=at_once)
        (letter,) = [letter for batch in batches for letter in batch.dead]
        assert (letter.origin_id, letter.sequence_number, letter.row, letter.byte_offset) == (1, 2, 4, 8)
        for part in ("int64", "field n", "b'x5'", "buffer 2", "row 4", "byte 8"):
            assert part in str(letter)


def test_policy_skip() -> None:
    """Row 23: a malformed tuple is only counted."""
    (batch,) = with_policy(Malformed.SKIP).format([RawBuffer(1, 1, b"1\n2\nx\n", 0)]).batches
    assert (batch.tuples, batch.bad, batch.rows.num_rows, batch.dead, batch.failure) == (3, 1, 2, (), None)


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize("at_once", [1, 5, 1_000])
def test_policy_fail_keeps_what_stands_before(size: int, at_once: int) -> None:
    """Row 23: the first bad tuple ends the stream, whatever the order; every row before it comes out."""
    text = b"".join(b"%d\n" % n for n in range(20)) + b"\nbad\n21\nworse\n"
    raws = in_pieces(text, size)
    raws = random.Random(size).sample(raws, len(raws))
    batches = format_all(with_policy(Malformed.FAIL), raws, finish=False, at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == list(range(20))
    assert [batch.failure is None for batch in batches] == [True] * (len(batches) - 1) + [False]
    failure = batches[-1].failure
    assert failure is not None
    assert (failure.data, failure.row, failure.field, failure.expected) == (b"bad", 20, "n", "int64")
    assert text[failure.byte_offset :].startswith(b"bad")
    assert batches[-1].end_offset == failure.byte_offset
    assert sum(batch.tuples for batch in batches) == 21


def test_policy_fail_with_more_bad_tuples_than_are_described() -> None:
    """Row 23: two parts of one block are full of bad tuples; each names its own first one."""
    formatter = InputFormatter(
        Schema((Field("n", "int64"),), CsvFormat(), malformed=Malformed.FAIL, limits=Limits(described=2))
    )
    raws = cut(b"1\n" + b"x\n" * 9 + b"2\n3\n4\ny\n" + b"z\n" * 9, [20, 23])
    batches = formatter.format([raws[0], raws[2]]).batches
    assert [rows_of([batch]) for batch in batches] == [[(1,)], [(4,)]]
    failures = [batch.failure for batch in batches]
    assert [(f.data[:1], f.byte_offset) for f in failures if f is not None] == [(b"x", 2), (b"y", 26)]


def test_malformed_value_of_a_nullable_field() -> None:
    """Row 23: it becomes NULL and is counted; the rest of its tuple stays."""
    schema = Schema((Field("n", "int64"), Field("maybe", "int32", nullable=True), Field("word", "string")), CsvFormat())
    raws = cut(b"1,5,a\n2,x,b\n3,,c\ny,z,d\n5,99999999999,e\n", [8])
    for at_once in (1, 2):
        formatter = InputFormatter(schema)
        batches = format_all(formatter, raws, finish=False, at_once=at_once)
        assert rows_of(batches) == [(1, 5, "a"), (2, None, "b"), (3, None, "c"), (5, None, "e")]
        assert sum(batch.nulled for batch in batches) == 2
        assert sum(len(batch.dead) for batch in batches) == 1
        assert sum(batch.bad for batch in batches) == 1


def test_dead_letters_are_bounded() -> None:
    """Row 23: of many bad tuples some are described, all are counted, none is kept as a row."""
    formatter = InputFormatter(NUMBERS, described=5)
    (batch,) = formatter.format([RawBuffer(1, 1, b"x\n" * 1_000 + b"7\n", 0)]).batches
    assert (len(batch.dead), batch.tuples, batch.bad) == (5, 1_001, 1_000)
    assert rows_of([batch]) == [(7,)]


@pytest.mark.parametrize("size", [100, 511, 513, 10_000])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_too_long_tuple(size: int, at_once: int) -> None:
    """Row 24: a tuple above the limit is a dead letter wherever it is cut; one at the limit is not."""
    at_limit, above = b"a" * 511, b"b" * 512
    text = b"x\n" + at_limit + b"\n" + above + b"\ny\n" + b"c" * 3_000 + b"\nz\n"
    for raws in (in_pieces(text, size), in_pieces(text, size)[::-1]):
        batches = format_all(InputFormatter(SHORT), raws, at_once=at_once)
        assert rows_of(batches) == [("x",), (at_limit.decode(),), ("y",), ("z",)]
        letters = [letter for batch in batches for letter in batch.dead]
        assert [(letter.reason, letter.data, letter.byte_offset, letter.row) for letter in letters] == [
            ("513 bytes", b"b" * 256, 514, 2),
            ("3001 bytes", b"c" * 256, 1_029, 4),
        ]
        assert [letter.sequence_number for letter in letters] == [1_026 // size + 1, 4_029 // size + 1]
        assert all(letter.expected == "at most 512 bytes" for letter in letters)


@pytest.mark.parametrize("at_once", [1, 100])
def test_tuple_without_end_does_not_grow_memory(at_once: int) -> None:
    """Row 24: a tuple that never ends is given up, in constant memory, and is one dead letter at its end."""
    formatter = InputFormatter(SHORT)
    formatter.format([RawBuffer(1, 1, b"a\n", 0)])
    for number in range(2, 3_002, at_once):
        raws = [RawBuffer(1, number + i, b"x" * 300, 2 + 300 * (number + i - 2)) for i in range(at_once)]
        formatter.format(raws)
        assert formatter.held_bytes() <= 512
    (batch, last) = formatter.format([RawBuffer(1, 3_002, b"\nb\n", 900_002)]).batches
    assert [letter.reason for letter in batch.dead] == [f"{3_000 * 300 + 1} bytes"]
    assert (batch.length, batch.tuples, last.offset) == (900_001, 1, 900_003)
    assert rows_of([last]) == [("b",)]


def test_long_tuple_backwards_does_not_hold_its_bytes() -> None:
    """Row 24: pieces that are too long each give their bytes back before their neighbours are known."""
    formatter = InputFormatter(SHORT)
    for number in range(100, 1, -1):
        formatter.format([RawBuffer(1, number, b"x" * 5_000, -1)])
        assert formatter.held_bytes() <= 256 * (101 - number)
    batches = format_all(formatter, [RawBuffer(1, 1, b"a\n", 0), RawBuffer(1, 101, b"\nb\n", -1)])
    assert rows_of(batches) == [("a",), ("b",)]
    (letter,) = [letter for batch in batches for letter in batch.dead]
    assert (letter.reason, letter.byte_offset, letter.data) == (f"{99 * 5_000 + 1} bytes", 2, b"x" * 256)


def test_what_follows_a_start_is_given_back_once_it_is_known() -> None:
    """Row 24: pieces that came before the start of their tuple are dropped with the start, not with the end."""
    formatter = InputFormatter(SHORT)
    for number in range(2, 50):
        formatter.format([RawBuffer(1, number, b"x" * 300, -1)])
    assert formatter.held_bytes() == 48 * 300
    formatter.format([RawBuffer(1, 1, b"a\n", 0)])
    assert formatter.held_bytes() <= 512


def test_too_long_at_the_end_and_as_failure() -> None:
    """Rows 10, 24: a last tuple without delimiter may be too long too; by policy that ends the stream."""
    raws = in_pieces(b"a\n" + b"x" * 900, 100)
    (first, last) = format_all(InputFormatter(SHORT), raws, at_once=20)
    assert (rows_of([first]), last.bad, last.dead[0].sequence_number) == ([("a",)], 1, len(raws))
    schema = Schema((Field("word", "string"),), CsvFormat(), malformed=Malformed.FAIL, limits=Limits(tuple_bytes=512))
    batches = format_all(InputFormatter(schema), in_pieces(b"a\n" + b"x" * 900 + b"\nb\n", 100), finish=False)
    assert batches[-1].failure is not None
    assert rows_of(batches) == [("a",)]


def test_a_failure_ends_the_order() -> None:
    """Row 23: a call that is formatted early but stands behind the failure never comes out."""
    formatter, order = with_policy(Malformed.FAIL), InOrder(10)
    raws = cut(b"1\nx\n2\n3\n", [4])
    assert order.add(formatter.format(raws[1:]).batches) == []
    ready = order.add(formatter.format(raws[:1]).batches)
    assert rows_of(ready) == [(1,)]
    assert ready[-1].failure is not None
    assert order.add(formatter.finish(1)) == []
