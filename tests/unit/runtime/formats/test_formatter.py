"""The input formatter: raw buffers in any order in, the rows of the stream out."""

from __future__ import annotations

import itertools
import random
from threading import Thread

import numpy as np
import pytest

from runtime.formats import (
    BODY,
    FEED_SCHEMA,
    LEAD,
    DuplicateSequenceError,
    Field,
    FormattedBatch,
    InputFormatter,
    Malformed,
    MalformedTupleError,
    RawBuffer,
    Schema,
    SequenceGapError,
)
from tests.generators.text_buffers import cut, feed_text, format_all, format_with_threads, in_pieces, rows_of

WORDS = Schema((Field("word", "string"),))


def words(batches: list[FormattedBatch]) -> list[object]:
    return [row[0] for row in rows_of(batches)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tuple_over_two_buffers(order: tuple[int, ...]) -> None:
    """Row 1: a tuple split over two buffers is whole, whichever comes first."""
    raws = cut(b"one\ntwo\nthree\n", [6])
    assert words(format_all(InputFormatter(WORDS), [raws[i] for i in order])) == ["one", "two", "three"]


def test_the_two_parts_of_a_buffer() -> None:
    """Row 1: a buffer with a delimiter has one LEAD and one BODY; the LEAD names the buffer in which it starts."""
    formatter = InputFormatter(WORDS)
    first, second = cut(b"one\ntwo\nthree\n", [6])
    lead, body = formatter.format(first) or []
    assert (lead.part, lead.first_sequence, lead.last_sequence, words([lead])) == (LEAD, 0, 1, ["one"])
    assert (body.part, body.first_sequence, body.last_sequence, words([body])) == (BODY, 1, 1, [])
    lead, body = formatter.format(second) or []
    assert (lead.part, lead.first_sequence, lead.last_sequence, words([lead])) == (LEAD, 1, 2, ["two"])
    assert (lead.end_offset, lead.row_ends.tolist()) == (8, [8])
    assert (body.part, words([body]), body.end_offset, body.row_ends.tolist()) == (BODY, ["three"], 14, [14])
    assert formatter.finish(1) == []


@pytest.mark.parametrize("count", [3, 4])
def test_a_tuple_over_several_buffers(count: int) -> None:
    """Row 2: over three and more buffers, those in the middle without a delimiter, in every order."""
    raws = cut(b"start\nabcdefgh\n", [6 + 2 * i for i in range(1, count)])
    for order in itertools.permutations(raws):
        assert words(format_all(InputFormatter(WORDS), order)) == ["start", "abcdefgh"]


def test_a_tuple_over_hundreds_of_buffers() -> None:
    """Row 3: one tuple over 700 buffers, shuffled."""
    text = b"x\n" + bytes(97 + i % 26 for i in range(700)) + b"\ny\n"
    raws = in_pieces(text, 1)
    random.Random(7).shuffle(raws)
    assert words(format_all(InputFormatter(WORDS), raws)) == text.decode().split()


@pytest.mark.parametrize(("size", "seed"), [(1, 1), (2, 2), (2, 3)])
def test_tiny_buffers_and_many_threads(size: int, seed: int) -> None:
    """Row 4: buffers of 1 and 2 bytes, 8 threads: every row once, in stream order."""
    text = feed_text(100)
    batches = format_with_threads(InputFormatter(FEED_SCHEMA), in_pieces(text, size), threads=8, seed=seed)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 101))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_tiny_buffers_of_a_thousand_rows(size: int, seed: int) -> None:
    """Row 4: the same with files of 1,000 rows, repeated."""
    batches = format_with_threads(InputFormatter(FEED_SCHEMA), in_pieces(feed_text(1_000), size), threads=8, seed=seed)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 1_001))


@pytest.mark.parametrize("length", [1, 2, 4_095, 4_096, 4_097])
def test_where_the_delimiter_stands(length: int) -> None:
    """Row 6: the delimiter as first or last byte of a buffer, and around the size of a page."""
    for size in (1, 4_096) if length > 2 else (1, 2, 3, 4_096):
        if size == 1 and length > 2:
            continue
        text = (b"a" * (length - 1) + b"\n") * 3 + b"b\n"
        expected = [word for word in text.decode().split("\n") if word]
        for raws in (in_pieces(text, size), in_pieces(text, size)[::-1]):
            assert words(format_all(InputFormatter(WORDS), raws)) == expected


def test_empty_spanning_tuple_is_ignored() -> None:
    """Row 7: nothing between two delimiters on both sides of a border is no tuple, and no error."""
    for raws in (cut(b"a\n\nb\n", [2]), cut(b"a\n\n\nb\n", [2, 3, 4]), cut(b"a\r\n\r\nb\r\n", [4])):
        batches = format_all(InputFormatter(WORDS), raws)
        assert words(batches) == ["a", "b"]
        assert sum(batch.messages for batch in batches) == 2


def test_partly_filled_and_empty_buffers() -> None:
    """Row 8: buffers of any length, none at all included, in one stream."""
    text = feed_text(50)
    raws = cut(text, [0, 0, 3, 700, 700, 701, len(text), len(text)])
    assert [row[0] for row in rows_of(format_all(InputFormatter(FEED_SCHEMA), raws))] == list(range(1, 51))


def test_empty_source() -> None:
    """Row 9: a source without buffers, or with empty ones only, has no rows and no last tuple."""
    formatter = InputFormatter(FEED_SCHEMA)
    assert formatter.finish(1) == []
    batches = formatter.format(RawBuffer(1, 1, b"", 0)) or []
    assert [(batch.part, batch.rows.num_rows, batch.delimited) for batch in batches] == [(BODY, 0, False)]
    assert formatter.finish(1) == []


@pytest.mark.parametrize("at", [[], [5], [8], [9, 10]])
def test_last_tuple_without_delimiter(at: list[int]) -> None:
    """Row 10: what follows the last delimiter is the last tuple once the stream has ended, and not before."""
    formatter = InputFormatter(WORDS)
    text = b"one\ntwo\nthree"
    before = format_all(formatter, cut(text, at), finish=False)
    assert words(before) == ["one", "two"]
    (last,) = formatter.finish(1)
    assert words([last]) == ["three"]
    assert (last.part, last.end_offset, last.row_ends.tolist()) == (LEAD, len(text), [len(text)])
    assert words(format_all(InputFormatter(WORDS), cut(text, at))) == ["one", "two", "three"]


def test_missing_buffer_at_the_end_is_an_error() -> None:
    """Row 10: a stream that ends with a hole does not pretend to be whole."""
    formatter = InputFormatter(WORDS)
    formatter.format(RawBuffer(1, 2, b"b\nc", 2))
    with pytest.raises(SequenceGapError, match="was without 1"):
        formatter.finish(1)


def test_out_of_range_buffer_is_repeated() -> None:
    """Row 11: out of range is None; the same buffer goes through later and nothing is lost or doubled."""
    raws = in_pieces(feed_text(60), 3)
    formatter = InputFormatter(FEED_SCHEMA, slots=2, max_slots=2)
    assert formatter.format(raws[400]) is None
    assert formatter.held_bytes() == 0
    raws = raws[300:] + raws[:300]
    assert [row[0] for row in rows_of(format_all(formatter, raws))] == list(range(1, 61))


def test_more_buffers_without_delimiter_than_the_ring_has_slots() -> None:
    """Row 11: a tuple over more buffers than the ring has bits comes out whole."""
    text = b"a\n" + b"x" * 400 + b"\nb\n"
    raws = in_pieces(text, 1)
    assert words(format_all(InputFormatter(WORDS, slots=2, max_slots=2), raws)) == text.decode().split()


def test_sequence_numbers_wrap() -> None:
    """Row 12: numbers start at 1 again after the highest; tuples across that border stay whole."""
    highest = 256
    text = b"".join(b"%d\n" % n for n in range(1_000))
    raws = in_pieces(text, 5)
    raws = [RawBuffer(raw.origin_id, (raw.sequence_number - 1) % highest + 1, raw.data, raw.offset) for raw in raws]
    formatter = InputFormatter(Schema((Field("n", "int64"),)), slots=2, max_slots=2, highest_sequence=highest)
    batches = [batch for raw in raws for batch in formatter.format(raw) or []]
    assert [row[0] for row in rows_of(batches)] == list(range(1_000))


def test_several_origins_behind_one_formatter() -> None:
    """Row 15: each origin has a shredder of its own; their pieces never meet."""
    formatter = InputFormatter(WORDS)
    streams = {origin_id: b"".join(b"%d-%d\n" % (origin_id, n) for n in range(50)) for origin_id in (1, 2, 3)}
    raws = [raw for origin_id, text in streams.items() for raw in in_pieces(text, 7, origin_id)]
    random.Random(3).shuffle(raws)
    found: dict[int, list[FormattedBatch]] = {1: [], 2: [], 3: []}
    for raw in raws:
        for batch in formatter.format(raw) or []:
            found[batch.origin_id].append(batch)
    for origin_id, text in streams.items():
        assert sorted(map(str, words(found[origin_id]))) == sorted(text.decode().split())


def test_spans_leave_no_holes() -> None:
    """Row 16: bodies name every buffer once; leads name the spans between buffers with a delimiter, end to end."""
    raws = in_pieces(feed_text(30), 11)
    batches = format_all(InputFormatter(FEED_SCHEMA), random.Random(1).sample(raws, len(raws)))
    bodies = [batch.last_sequence for batch in batches if batch.part == BODY]
    leads = [(batch.first_sequence, batch.last_sequence) for batch in batches if batch.part == LEAD]
    assert bodies == list(range(1, len(raws) + 1))
    assert leads[0][0] == 0
    assert all(before[1] == after[0] for before, after in itertools.pairwise(leads))


def test_row_ends_are_places_in_the_stream() -> None:
    """Row 16: the byte offset behind every row, whatever the buffers, also in a stream that does not start at 0."""
    text = feed_text(40)
    expected = (np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1 + 1_000).tolist()
    for size in (1, 9, 64, 10_000):
        raws = cut(text, range(size, len(text), size), offset=1_000)
        batches = format_all(InputFormatter(FEED_SCHEMA), raws)
        assert [end for batch in batches for end in batch.row_ends.tolist()] == expected
        assert [batch.end_offset for batch in batches if batch.delimited][-1] == 1_000 + len(text)


@pytest.mark.parametrize("size", [1, 5, 13, 1_000])
def test_every_kind_of_bad_tuple_is_a_dead_letter(size: int) -> None:
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
    batches = format_all(InputFormatter(FEED_SCHEMA), in_pieces(text, size))
    assert [row[0] for row in rows_of(batches)] == [n for n in range(1, 21) if n not in bad]
    assert sum(batch.messages for batch in batches) == 20
    letters = [letter for batch in batches for letter in batch.dead]
    assert [letter.data for letter in letters] == list(bad.values())
    assert [letter.field for letter in letters] == ["time_ns", "", "", "time_ns", "symbol", "time_ns", "time_ns", ""]
    assert all(text[letter.byte_offset :].startswith(letter.data) for letter in letters)
    assert letters[1].expected == "8 fields"
    assert letters[1].reason == "2 fields"
    assert letters[0].expected == "int64"
    ends = [end for batch in batches for end in batch.row_ends.tolist()]
    assert len(ends) == 12
    assert ends[-1] == len(text)


def test_dead_letter_names_its_place() -> None:
    """Row 23: sequence number, row, field, expected type and bytes, in one sentence."""
    raws = cut(b"1\n2\n3\n4\nx5\n6\n", [4])
    batches = format_all(InputFormatter(Schema((Field("n", "int64"),))), raws)
    (letter,) = [letter for batch in batches for letter in batch.dead]
    assert (letter.origin_id, letter.sequence_number, letter.row, letter.byte_offset) == (1, 2, 1, 8)
    for part in ("int64", "field n", "b'x5'", "buffer 2", "row 1", "byte 8"):
        assert part in str(letter)


def test_policy_fail_and_skip() -> None:
    """Row 23: by policy a malformed value fails the source, naming the place, or is only counted."""
    raw = RawBuffer(1, 1, b"1\n2\nx\n", 0)
    with pytest.raises(MalformedTupleError, match=r"expected int64 for field n, was b'x'"):
        InputFormatter(Schema((Field("n", "int64"),)), malformed=Malformed.FAIL).format(raw)
    _, body = InputFormatter(Schema((Field("n", "int64"),)), malformed=Malformed.SKIP).format(raw) or []
    assert (body.messages, body.rows.num_rows, body.dead) == (2, 1, ())


def test_malformed_value_of_a_nullable_field() -> None:
    """Row 23: it becomes NULL and is counted; the rest of its tuple stays."""
    schema = Schema((Field("n", "int64"), Field("maybe", "int32", nullable=True), Field("word", "string")))
    batches = format_all(InputFormatter(schema), cut(b"1,5,a\n2,x,b\n3,,c\ny,z,d\n5,99999999999,e\n", [8]))
    assert rows_of(batches) == [(1, 5, "a"), (2, None, "b"), (3, None, "c"), (5, None, "e")]
    assert sum(batch.nulled for batch in batches) == 2
    assert sum(len(batch.dead) for batch in batches) == 1


def test_dead_letters_are_bounded() -> None:
    """Row 23: of many bad tuples some are described, all are counted, none is kept as a row."""
    formatter = InputFormatter(Schema((Field("n", "int64"),)), dead_limit=5)
    lead, body = formatter.format(RawBuffer(1, 1, b"x\n" * 1_000 + b"7\n", 0)) or []
    assert (len(lead.dead) + len(body.dead), lead.messages + body.messages) == (5, 1_001)
    assert rows_of([lead, body]) == [(7,)]


@pytest.mark.parametrize("size", [100, 511, 513, 10_000])
def test_too_long_tuple(size: int) -> None:
    """Row 24: a tuple above the limit is a dead letter wherever it is cut; one at the limit is not."""
    at_limit, above = b"a" * 511, b"b" * 512
    text = b"x\n" + at_limit + b"\n" + above + b"\ny\n" + b"c" * 3_000 + b"\nz\n"
    for raws in (in_pieces(text, size), in_pieces(text, size)[::-1]):
        batches = format_all(InputFormatter(WORDS, tuple_limit_bytes=512), raws)
        assert words(batches) == ["x", at_limit.decode(), "y", "z"]
        letters = [letter for batch in batches for letter in batch.dead]
        assert [(letter.reason, letter.data) for letter in letters] == [
            ("513 bytes", b"b" * 256),
            ("3001 bytes", b"c" * 256),
        ]
        assert all(letter.expected == "at most 512 bytes" for letter in letters)


def test_tuple_without_end_does_not_grow_memory() -> None:
    """Row 24: a tuple that never ends is given up, in constant memory, and is one dead letter at its end."""
    formatter = InputFormatter(WORDS, tuple_limit_bytes=1_024)
    formatter.format(RawBuffer(1, 1, b"a\n", 0))
    for number in range(2, 3_000):
        formatter.format(RawBuffer(1, number, b"x" * 1_000, 0))
        assert formatter.held_bytes() <= 1_024
    (lead, body) = formatter.format(RawBuffer(1, 3_000, b"\nb\n", 0)) or []
    assert [letter.reason for letter in lead.dead] == [f"{2_998 * 1_000 + 1} bytes"]
    assert words([body]) == ["b"]


def test_header_is_skipped_at_the_start_only() -> None:
    """Row 17: the header is the stream's first tuple, in one buffer or many; a stream resumed later has none."""
    schema = Schema((Field("n", "int64"),), header=True)
    text = b"number\n1\n2\n"
    for size in (1, 3, 100):
        batches = format_all(InputFormatter(schema), in_pieces(text, size)[::-1])
        assert [row[0] for row in rows_of(batches)] == [1, 2]
        assert not any(batch.dead for batch in batches)
    assert rows_of(format_all(InputFormatter(schema), cut(b"1\n2\n", [], offset=7))) == [(1,), (2,)]


def test_discard_starts_a_new_incarnation() -> None:
    """Row 15: after a reconnection the open tail is gone and numbers start at 1."""
    formatter = InputFormatter(WORDS)
    formatter.format(RawBuffer(1, 1, b"a\nhalf", 0))
    formatter.discard(1)
    assert formatter.held_bytes() == 0
    assert words(formatter.format(RawBuffer(1, 1, b"b\n", 2)) or []) == ["b"]
    with pytest.raises(DuplicateSequenceError):
        formatter.format(RawBuffer(1, 1, b"b\n", 2))


def test_only_the_columns_asked_for() -> None:
    """Row 27: columns that nobody needs are not parsed, so what stands in them does not matter."""
    formatter = InputFormatter(FEED_SCHEMA, columns=("price", "sequence"))
    batches = formatter.format(RawBuffer(1, 1, b"1,2,3,4,B,5,6,A\n2,x,3,4,B,5,7,A\n", 0)) or []
    assert [batch.rows.schema.names for batch in batches] == [["sequence", "price"]] * 2
    assert rows_of(batches) == [(1, 6), (2, 7)]


def test_threads_share_nothing_but_the_stream() -> None:
    """Row 4: two threads on large buffers give the rows of one."""
    text = feed_text(3_000)
    raws = in_pieces(text, 4_096)
    formatter, found = InputFormatter(FEED_SCHEMA), list[int]()

    def work(share: list[RawBuffer]) -> None:
        for raw in share:
            for batch in formatter.format(raw) or []:
                found.extend(batch.rows.column(0).to_pylist())

    workers = [Thread(target=work, args=(raws[i::2],)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == list(range(1, 3_001))
