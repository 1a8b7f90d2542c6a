"""The input formatter: raw buffers in any order in, the rows of the stream out.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools
import random
from threading import Thread

import numpy as np
import pytest

from runtime.formats import (
    CsvFormat,
    DuplicateSequenceError,
    Field,
    FormattedBatch,
    InputFormatter,
    Pushdown,
    RawBuffer,
    Schema,
    SequenceGapError,
)
from runtime.relations import FEED_SCHEMA
from tests.generators.text_buffers import cut, feed_text, format_all, format_with_threads, in_pieces, rows_of

WORDS = Schema((Field("word", "string"),), CsvFormat())


def words(batches: list[FormattedBatch]) -> list[object]:
    return [row[0] for row in rows_of(batches)]


def places(batches: list[FormattedBatch]) -> list[tuple[int, int]]:
    return [(batch.from_place, batch.to_place) for batch in batches]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_tuple_over_two_buffers(order: tuple[int, ...], at_once: int) -> None:
    """Row 1: a tuple split over two buffers is whole, whichever comes first."""
    raws = cut(b"one\ntwo\nthree\n", [6])
    batches = format_all(InputFormatter(WORDS), [raws[i] for i in order], at_once=at_once)
    assert words(batches) == ["one", "two", "three"]


def test_what_a_buffer_completes() -> None:
    """Rows 1, 16: the tuple that ends in a buffer and those inside it are one batch; the next one starts behind it."""
    formatter = InputFormatter(WORDS)
    first, second = cut(b"one\ntwo\nthree\n", [6])
    (batch,) = formatter.format([first]).batches
    assert (batch.first_sequence, batch.last_sequence, words([batch])) == (0, 1, ["one"])
    assert (batch.from_place, batch.to_place, batch.offset, batch.length) == (0, 2, 0, 4)
    (batch,) = formatter.format([second]).batches
    assert (batch.first_sequence, batch.last_sequence, words([batch])) == (1, 2, ["two", "three"])
    assert (batch.from_place, batch.to_place, batch.end_offset, batch.row_ends.tolist()) == (2, 4, 14, [8, 14])
    assert formatter.finish(1) == []


def test_neighbours_are_one_run() -> None:
    """Row 16: buffers that come together, in any order, are one batch if nothing is missing between them."""
    raws = in_pieces(b"".join(b"%d\n" % n for n in range(300)), 11)
    formatted = InputFormatter(WORDS).format(random.Random(1).sample(raws, len(raws)))
    (batch,) = formatted.batches
    assert words([batch]) == [str(n) for n in range(300)]
    assert (batch.first_sequence, batch.last_sequence) == (0, len(raws))
    assert places([batch]) == [(0, 2 * len(raws))]


def test_a_missing_buffer_closes_the_gap_between_runs() -> None:
    """Rows 1, 16: three runs in a call, then what lies between them; the chain of places has no hole."""
    raws = in_pieces(b"".join(b"%d\n" % n for n in range(300)), 11)
    formatter = InputFormatter(WORDS)
    missing = [raws[20], raws[50], raws[51]]
    early = formatter.format([raw for raw in raws if raw not in missing]).batches
    assert places(early) == [(0, 40), (99, 100), (2 * len(raws) - 1, 2 * len(raws))]
    late = formatter.format(missing).batches
    assert places(late) == [(40, 99), (100, 2 * len(raws) - 1)]
    chain = [early[0], late[0], early[1], late[1], early[2]]
    assert words(chain) == [str(n) for n in range(300)]
    assert all(before.end_offset == after.offset for before, after in itertools.pairwise(chain))


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_a_tuple_over_several_buffers(count: int, at_once: int) -> None:
    """Row 2: over three and more buffers, those in the middle without a delimiter, in every order."""
    raws = cut(b"start\nabcdefgh\n", [6 + 2 * i for i in range(1, count)])
    for order in itertools.permutations(raws):
        assert words(format_all(InputFormatter(WORDS), order, at_once=at_once)) == ["start", "abcdefgh"]


@pytest.mark.parametrize("at_once", [1, 40])
def test_a_tuple_over_hundreds_of_buffers(at_once: int) -> None:
    """Row 3: one tuple over 700 buffers, shuffled."""
    text = b"x\n" + bytes(97 + i % 26 for i in range(700)) + b"\ny\n"
    raws = in_pieces(text, 1)
    random.Random(7).shuffle(raws)
    assert words(format_all(InputFormatter(WORDS), raws, at_once=at_once)) == text.decode().split()


@pytest.mark.parametrize(("size", "seed", "at_once"), [(1, 1, 1), (2, 2, 1), (2, 3, 9)])
def test_tiny_buffers_and_many_threads(size: int, seed: int, at_once: int) -> None:
    """Row 4: buffers of 1 and 2 bytes, 8 threads: every row once, in stream order."""
    raws = in_pieces(feed_text(100), size)
    batches = format_with_threads(InputFormatter(FEED_SCHEMA), raws, threads=8, seed=seed, at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 101))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_tiny_buffers_of_a_thousand_rows(size: int, seed: int) -> None:
    """Row 4: the same with files of 1,000 rows, repeated."""
    batches = format_with_threads(
        InputFormatter(FEED_SCHEMA), in_pieces(feed_text(1_000), size), threads=8, seed=seed, at_once=1 + 20 * seed
    )
    assert [row[0] for row in rows_of(batches)] == list(range(1, 1_001))


@pytest.mark.parametrize("length", [1, 2, 4_095, 4_096, 4_097])
def test_where_the_delimiter_stands(length: int) -> None:
    """Row 6: the delimiter as first or last byte of a buffer, and around the size of a page."""
    for size in (4_096,) if length > 2 else (1, 2, 3, 4_096):
        text = (b"a" * (length - 1) + b"\n") * 3 + b"b\n"
        expected = [word for word in text.decode().split("\n") if word]
        for raws in (in_pieces(text, size), in_pieces(text, size)[::-1]):
            assert words(format_all(InputFormatter(WORDS), raws)) == expected


def test_empty_spanning_tuple_is_ignored() -> None:
    """Row 7: nothing between two delimiters on both sides of a border is no tuple, and no error."""
    for raws in (cut(b"a\n\nb\n", [2]), cut(b"a\n\n\nb\n", [2, 3, 4]), cut(b"a\r\n\r\nb\r\n", [4])):
        batches = format_all(InputFormatter(WORDS), raws)
        assert words(batches) == ["a", "b"]
        assert sum(batch.tuples for batch in batches) == 2


@pytest.mark.parametrize("at_once", [1, 3, 20])
def test_partly_filled_and_empty_buffers(at_once: int) -> None:
    """Row 8: buffers of any length, none at all included, in one stream."""
    text = feed_text(50)
    raws = cut(text, [0, 0, 3, 700, 700, 701, len(text), len(text)])
    batches = format_all(InputFormatter(FEED_SCHEMA), raws, at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 51))


def test_empty_source() -> None:
    """Row 9: a source without buffers, or with empty ones only, has no batches and no last tuple."""
    formatter = InputFormatter(FEED_SCHEMA)
    assert formatter.finish(1) == []
    assert formatter.format([]).batches == []
    assert formatter.format([RawBuffer(1, 1, b"", 0)]).batches == []
    assert formatter.watermark(1) == 1
    assert formatter.finish(1) == []


@pytest.mark.parametrize("at", [[], [5], [8], [9, 10]])
@pytest.mark.parametrize("at_once", [1, 3])
def test_last_tuple_without_delimiter(at: list[int], at_once: int) -> None:
    """Row 10: what follows the last delimiter is the last tuple once the stream has ended, and not before."""
    formatter = InputFormatter(WORDS)
    text = b"one\ntwo\nthree"
    raws = cut(text, at)
    before = format_all(formatter, raws, finish=False, at_once=at_once)
    assert words(before) == ["one", "two"]
    (last,) = formatter.finish(1)
    assert words([last]) == ["three"]
    assert (last.from_place, last.end_offset, last.row_ends.tolist()) == (before[-1].to_place, 13, [13])
    assert words(format_all(InputFormatter(WORDS), raws, at_once=at_once)) == ["one", "two", "three"]


def test_missing_buffer_at_the_end_is_an_error() -> None:
    """Row 10: a stream that ends with a hole does not pretend to be whole."""
    formatter = InputFormatter(WORDS)
    formatter.format([RawBuffer(1, 2, b"b\nc", 2)])
    with pytest.raises(SequenceGapError, match="was without 1"):
        formatter.finish(1)
    formatter.format([RawBuffer(1, 1, b"a\n", 0)])
    assert words(formatter.finish(1)) == ["c"]


def test_out_of_range_buffers_are_repeated() -> None:
    """Row 11: what is out of range comes back; it goes through later and nothing is lost or doubled."""
    raws = in_pieces(feed_text(60), 3)
    formatter = InputFormatter(FEED_SCHEMA, slots=2, max_slots=2)
    assert formatter.format([raws[400]]).again == [raws[400]]
    assert formatter.held_bytes() == 0
    formatted = formatter.format(raws)
    assert formatted.again == raws[127:]
    rest = InputFormatter(FEED_SCHEMA, slots=2, max_slots=2)
    raws = raws[300:] + raws[:300]
    assert [row[0] for row in rows_of(format_all(rest, raws, at_once=50))] == list(range(1, 61))


@pytest.mark.parametrize("at_once", [1, 1_000])
def test_more_buffers_without_delimiter_than_the_ring_has_slots(at_once: int) -> None:
    """Row 11: a tuple over more buffers than the ring has bits comes out whole, also if they come as one run."""
    text = b"a\n" + b"x" * 400 + b"\nb\n"
    raws = in_pieces(text, 1)
    formatter = InputFormatter(WORDS, slots=2, max_slots=2)
    assert words(format_all(formatter, raws, at_once=at_once)) == text.decode().split()


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_sequence_numbers_wrap(at_once: int) -> None:
    """Row 12: numbers start at 1 again after the highest; tuples across that border stay whole."""
    highest = 512
    text = b"".join(b"%d\n" % n for n in range(1_000))
    raws = in_pieces(text, 5)
    raws = [RawBuffer(raw.origin_id, (raw.sequence_number - 1) % highest + 1, raw.data, raw.offset) for raw in raws]
    for start in range(0, len(raws), 10):
        raws[start : start + 10] = reversed(raws[start : start + 10])
    formatter = InputFormatter(
        Schema((Field("n", "int64"),), CsvFormat()), slots=4, max_slots=4, highest_sequence=highest
    )
    batches = format_all(formatter, raws, at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == list(range(1_000))
    assert all(batch.last_sequence <= highest for batch in batches)


def test_a_number_comes_once_and_its_repetition_changes_nothing() -> None:
    """Row 12: the rest of the call with a number that was there goes through when it is given again."""
    raws = in_pieces(feed_text(40), 20)
    formatter = InputFormatter(FEED_SCHEMA)
    batches = formatter.format(raws[:30:2]).batches
    for again in ([raws[4], raws[5]], [raws[5], raws[7], raws[28]], [raws[9], raws[9]]):
        with pytest.raises(DuplicateSequenceError):
            formatter.format(again)
    batches += formatter.format([*raws[1:30:2], *raws[30:]]).batches
    batches.sort(key=lambda batch: batch.from_place)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 41))
    assert formatter.finish(1) == []


def test_several_origins_behind_one_formatter() -> None:
    """Row 15: each origin has a shredder of its own; their pieces never meet, though they are parsed together."""
    streams = {origin_id: b"".join(b"%d-%d\n" % (origin_id, n) for n in range(50)) for origin_id in (1, 2, 3)}
    raws = [raw for origin_id, text in streams.items() for raw in in_pieces(text, 7, origin_id)]
    random.Random(3).shuffle(raws)
    for at_once in (1, 10, 1_000):
        batches = format_all(InputFormatter(WORDS), raws, at_once=at_once)
        for origin_id, text in streams.items():
            assert words([b for b in batches if b.origin_id == origin_id]) == text.decode().split()


def test_an_error_of_an_origin_spares_the_others_of_the_call() -> None:
    """Row 15: a repeated number of one origin changes nothing of another one that is in the same call."""
    formatter = InputFormatter(WORDS)
    formatter.format([RawBuffer(2, 1, b"b\n", 0)])
    both = [RawBuffer(1, 1, b"a\n", 0), RawBuffer(2, 1, b"b\n", 0)]
    with pytest.raises(DuplicateSequenceError):
        formatter.format(both)
    assert words(formatter.format(both[:1]).batches) == ["a"]


@pytest.mark.parametrize("at_once", [1, 4, 30])
def test_places_leave_no_holes(at_once: int) -> None:
    """Row 16: sorted by place, each batch starts where the one before ends: in places, bytes and tuples."""
    raws = in_pieces(feed_text(30), 11)
    raws = random.Random(1).sample(raws, len(raws))
    formatter, batches = InputFormatter(FEED_SCHEMA), list[FormattedBatch]()
    for start in range(0, len(raws), at_once):
        batches += formatter.format(raws[start : start + at_once]).batches
    batches.sort(key=lambda batch: batch.from_place)
    assert batches[0].from_place == 0
    assert batches[-1].to_place == 2 * len(raws)
    for before, after in itertools.pairwise(batches):
        assert before.to_place == after.from_place
        assert before.end_offset == after.offset
    assert sum(batch.tuples for batch in batches) == 30


def test_row_ends_are_places_in_the_stream() -> None:
    """Row 16: the byte offset behind every row, whatever the buffers, also in a stream that does not start at 0."""
    text = feed_text(40)
    expected = (np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1 + 1_000).tolist()
    for size, at_once in itertools.product((1, 9, 64, 10_000), (1, 50)):
        raws = cut(text, range(size, len(text), size), offset=1_000)
        batches = format_all(InputFormatter(FEED_SCHEMA), raws, at_once=at_once)
        assert [end for batch in batches for end in batch.row_ends.tolist()] == expected
        assert [n for batch in batches for n in batch.tuple_numbers.tolist()] == list(range(40))
        assert batches[-1].end_offset == 1_000 + len(text)


@pytest.mark.parametrize("offset", [0, 500])
def test_unknown_offsets_are_known_in_order(offset: int) -> None:
    """Row 16: of buffers that do not know where they stand only order tells, and row ends wait for it."""
    text = feed_text(40)
    raws = [RawBuffer(1, raw.sequence_number, raw.data, -1) for raw in in_pieces(text, 100)]
    formatter = InputFormatter(FEED_SCHEMA)
    late = formatter.format(raws[5:6]).batches
    with pytest.raises(ValueError, match="InOrder has placed"):
        _ = late[0].row_ends
    formatter = InputFormatter(FEED_SCHEMA)
    batches = format_all(formatter, raws[::-1], at_once=3)
    assert [end for b in batches for end in b.row_ends.tolist()] == [i + 1 for i, c in enumerate(text) if c == 10]
    formatter.open(1, offset=offset)
    (first,) = formatter.format(raws[:1]).batches
    assert first.offset == offset


def test_header_is_skipped_at_the_start_only() -> None:
    """Row 17: the header is the stream's first tuple, in one buffer or many; a stream resumed later has none."""
    schema = Schema((Field("n", "int64"),), CsvFormat(header=True))
    text = b"number\n1\n2\n"
    for size, at_once in itertools.product((1, 3, 100), (1, 100)):
        batches = format_all(InputFormatter(schema), in_pieces(text, size)[::-1], at_once=at_once)
        assert [row[0] for row in rows_of(batches)] == [1, 2]
        assert not any(batch.bad for batch in batches)
        assert [n for batch in batches for n in batch.tuple_numbers.tolist()] == [0, 1]
    assert rows_of(format_all(InputFormatter(schema), cut(b"1\n2\n", [], offset=7))) == [(1,), (2,)]
    assert rows_of(format_all(InputFormatter(schema), cut(b"number", []))) == []


def test_discard_starts_a_new_incarnation() -> None:
    """Row 15: after a reconnection the open tail is gone and numbers start at 1."""
    formatter = InputFormatter(WORDS)
    formatter.format([RawBuffer(1, 1, b"a\nhalf", 0)])
    assert formatter.held_bytes() == 4
    formatter.discard(1)
    assert formatter.held_bytes() == 0
    assert words(formatter.format([RawBuffer(1, 1, b"b\n", 2)]).batches) == ["b"]
    with pytest.raises(DuplicateSequenceError):
        formatter.format([RawBuffer(1, 1, b"b\n", 2)])


def test_only_the_columns_asked_for() -> None:
    """Row 27: columns that nobody needs are not parsed, so what stands in them does not matter."""
    formatter = InputFormatter(FEED_SCHEMA, Pushdown(columns=("price", "sequence")))
    (batch,) = formatter.format([RawBuffer(1, 1, b"1,2,3,4,B,5,6,A\n2,x,3,4,B,5,7,A\n", 0)]).batches
    assert batch.rows.schema.names == ["sequence", "price"]
    assert rows_of([batch]) == [(1, 6), (2, 7)]
    assert formatter.empty_rows().schema == batch.rows.schema


def test_watermark_and_counters() -> None:
    """Rows 11, 23: how far all buffers are in, and what was done with them."""
    raws = in_pieces(b"".join(b"%d\n" % n for n in range(100)), 10)
    formatter = InputFormatter(Schema((Field("n", "int8"),), CsvFormat()))
    assert formatter.watermark(1) == 0
    batches = formatter.format(raws[:3] + raws[5:]).batches
    assert (formatter.watermark(1), formatter.counters(1).held_bytes > 0) == (3, True)
    batches += formatter.format(raws[3:5]).batches
    assert (formatter.watermark(1), formatter.counters(1).ring_slots) == (len(raws), 8)
    assert (sum(batch.tuples for batch in batches), sum(batch.bad for batch in batches)) == (100, 0)


def test_threads_share_nothing_but_the_stream() -> None:
    """Row 4: two threads on large buffers give the rows of one."""
    text = feed_text(3_000)
    raws = in_pieces(text, 4_096)
    formatter, found = InputFormatter(FEED_SCHEMA), list[int]()

    def work(share: list[RawBuffer]) -> None:
        for start in range(0, len(share), 3):
            for batch in formatter.format(share[start : start + 3]).batches:
                found.extend(batch.rows.column(0).to_pylist())

    workers = [Thread(target=work, args=(raws[i::2],)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == list(range(1, 3_001))
