"""What has to be looked at in stream order is, though buffers and workers come in any.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import lz4.frame
import pytest

from runtime.formats import (
    Codec,
    CodecError,
    DuplicateSequenceError,
    FormatError,
    InputFormatter,
    RawBuffer,
    SequenceGapError,
)
from runtime.relations import FEED_SCHEMA
from tests.generators.odd_formats import BYTE_PREFIXED, ORDERED_LINES, OrderedLines, prefixed
from tests.generators.text_buffers import cut, feed_text, format_all, format_with_threads, in_pieces, rows_of

TEXT = b"".join(b"word %d\n" % n for n in range(200))
EXPECTED = [line.decode() for line in TEXT.split(b"\n")[:-1]]


@pytest.mark.parametrize("size", [1, 10, 64])
@pytest.mark.parametrize("at_once", [1, 5, 1_000])
def test_an_ordered_format_sees_the_stream_in_order(size: int, at_once: int) -> None:
    """Row 26: the indexer is asked in stream order, each byte once, whatever the order of arrival."""
    raws = in_pieces(TEXT, size)
    formatter = InputFormatter(ORDERED_LINES)
    batches = format_all(formatter, random.Random(size).sample(raws, len(raws)), at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == EXPECTED
    indexer = formatter._indexer
    assert isinstance(indexer, OrderedLines)
    assert bytes(indexer.seen) == TEXT


@pytest.mark.parametrize("seed", range(5))
def test_an_ordered_format_on_threads(seed: int) -> None:
    """Row 26: on eight threads nobody waits for a turn and none is missed."""
    formatter = InputFormatter(ORDERED_LINES)
    batches = format_with_threads(formatter, in_pieces(TEXT, 5), threads=8, seed=seed, at_once=1 + seed)
    assert [row[0] for row in rows_of(batches)] == EXPECTED


class LateRelease:
    """A lock that lets something happen when its owner has decided to release it and still has it."""

    def __init__(self, late: Callable[[], None]) -> None:
        self._late = late
        self._held = False

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking
        held, self._held = self._held, True
        return not held

    def release(self) -> None:
        self._late()
        self._held = False


def test_what_is_left_to_the_owner_of_a_turn_is_taken_over() -> None:
    """Row 26: a buffer that comes when the turn is about to end is not left behind."""
    raws, left = in_pieces(TEXT, 400), list[object]()
    formatter = InputFormatter(ORDERED_LINES)
    formatter.open(1)
    waiting = iter(raws[1:])

    def late() -> None:
        if (raw := next(waiting, None)) is not None:
            left.extend(formatter.format([raw]).batches)

    formatter._streams[1]._turn = LateRelease(late)  # type: ignore[assignment]
    assert [row[0] for row in rows_of(formatter.format(raws[:1]).batches)] == EXPECTED
    assert left == []


def test_repeated_and_missing_buffers_of_an_ordered_format() -> None:
    """Row 26: a number that waits for its turn, or has had it, is there already; a hole at the end is an error."""
    formatter = InputFormatter(ORDERED_LINES)
    raws = in_pieces(TEXT, 100)
    batches = formatter.format([raws[0], raws[2]]).batches
    assert (formatter.held_bytes() >= 100, formatter.watermark(1)) == (True, 1)
    for again in ([raws[0]], [raws[2]], [raws[1], raws[2]]):
        with pytest.raises(DuplicateSequenceError):
            formatter.format(again)
    with pytest.raises(SequenceGapError, match="without 2"):
        formatter.finish(1)
    batches += formatter.format(raws[1:2] + raws[3:]).batches
    assert sum(batch.tuples for batch in batches) == 200


def test_turns_stay_within_the_ring() -> None:
    """Rows 11, 26: what is too far ahead comes back instead of waiting for its turn."""
    raws = in_pieces(TEXT, 1)
    formatter = InputFormatter(ORDERED_LINES, slots=2, max_slots=2)
    assert formatter.format(raws[500:]).again == raws[500:]
    formatter = InputFormatter(ORDERED_LINES, slots=2, max_slots=2)
    batches = format_all(formatter, raws[::-1], at_once=90)
    assert [row[0] for row in rows_of(batches)] == EXPECTED


def test_an_error_of_an_ordered_index_is_final() -> None:
    """Row 26: the bytes are gone, so that the origin cannot go on, and says so; others can."""
    formatter = InputFormatter(ORDERED_LINES)
    with pytest.raises(RuntimeError, match="a bug in the index"):
        formatter.format(cut(b"a\n!index\n", []))
    with pytest.raises(FormatError, match="expected an index of buffers 1 to 1"):
        formatter.format([RawBuffer(1, 2, b"b\n", 9)])
    assert rows_of(formatter.format([RawBuffer(2, 1, b"c\n", 0)]).batches) == [("c",)]


COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "lz4": lz4.frame.compress}


@pytest.mark.parametrize("name", ["gzip", "lz4"])
@pytest.mark.parametrize("at_once", [1, 7, 1_000])
def test_a_compressed_stream(name: str, at_once: int) -> None:
    """Row 25: compressed as a whole, cut anywhere, in any order; offsets are those of the decoded stream."""
    text = feed_text(500)
    raws = in_pieces(COMPRESS[name](text), 97)
    formatter = InputFormatter(FEED_SCHEMA)
    formatter.open(1, codec=Codec(name))  # type: ignore[arg-type]
    batches = format_all(formatter, random.Random(1).sample(raws, len(raws)), at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 501))
    assert [end for b in batches for end in b.row_ends.tolist()] == [i + 1 for i, c in enumerate(text) if c == 10]


@pytest.mark.parametrize("seed", range(3))
def test_a_compressed_stream_on_threads(seed: int) -> None:
    """Row 25: the same on eight threads, with a format that needs the state before."""
    words = [f"{n}" for n in range(500)]
    formatter = InputFormatter(BYTE_PREFIXED)
    formatter.open(1, codec=Codec("gzip"))
    raws = in_pieces(gzip.compress(prefixed(words)), 11)
    batches = format_with_threads(formatter, raws, threads=8, seed=seed, at_once=1 + seed)
    assert [row[0] for row in rows_of(batches)] == words


@pytest.mark.parametrize("at_once", [1, 5, 100])
def test_buffers_compressed_each_on_its_own(at_once: int) -> None:
    """Row 25: decoded in any order; offsets are known once in order."""
    text = feed_text(300)
    raws = [RawBuffer(1, raw.sequence_number, gzip.compress(raw.data), -1) for raw in in_pieces(text, 333)]
    formatter = InputFormatter(FEED_SCHEMA)
    formatter.open(1, codec=Codec("gzip", mode="per_buffer"))
    batches = format_all(formatter, random.Random(2).sample(raws, len(raws)), at_once=at_once)
    assert [row[0] for row in rows_of(batches)] == list(range(1, 301))
    assert [end for b in batches for end in b.row_ends.tolist()] == [i + 1 for i, c in enumerate(text) if c == 10]


def test_a_bad_buffer_changes_nothing() -> None:
    """Row 25: where each buffer stands for itself, one that cannot be decoded leaves the rest of its call alone."""
    good = [RawBuffer(1, n, gzip.compress(b"%d,2,3,4,B,5,6,A\n" % n), -1) for n in (1, 2)]
    formatter = InputFormatter(FEED_SCHEMA)
    formatter.open(1, codec=Codec("gzip", mode="per_buffer"))
    with pytest.raises(CodecError):
        formatter.format([*good, RawBuffer(1, 3, b"no gzip", -1)])
    assert [row[0] for row in rows_of(formatter.format(good).batches)] == [1, 2]


def test_tuples_before_a_break_in_compressed_bytes_come_out() -> None:
    """Row 25: the error is for the next call, and for every call behind that, the last one too."""
    codec = zlib.compressobj(wbits=31)
    start = codec.compress(feed_text(200)) + codec.flush(zlib.Z_SYNC_FLUSH)
    formatter = InputFormatter(FEED_SCHEMA)
    formatter.open(1, codec=Codec("gzip"))
    raws = cut(start + b"\xff" * 50, [len(start)])
    batches = formatter.format(raws).batches
    assert [row[0] for row in rows_of(batches)] == list(range(1, 201))
    for _ in range(2):
        with pytest.raises(CodecError):
            formatter.format([RawBuffer(1, 3, b"", -1)])
        with pytest.raises(CodecError):
            formatter.finish(1)


def test_a_compressed_stream_that_is_cut_short() -> None:
    """Rows 10, 25: the end of the stream before the end of the frame is an error."""
    formatter = InputFormatter(FEED_SCHEMA)
    formatter.open(1, codec=Codec("gzip"))
    formatter.format(cut(gzip.compress(feed_text(20))[:-9], []))
    with pytest.raises(CodecError):
        formatter.finish(1)


def test_a_turn_is_not_lost_with_the_error_of_another_origin() -> None:
    """Rows 15, 25: what was decoded in a call that fails for another origin's sake comes out with the next one."""
    data = gzip.compress(feed_text(20))
    formatter = InputFormatter(FEED_SCHEMA)
    formatter.open(1, codec=Codec("gzip"))
    formatter.format([RawBuffer(2, 1, b"", 0)])
    with pytest.raises(DuplicateSequenceError):
        formatter.format([*cut(data, []), RawBuffer(2, 1, b"", 0)])
    assert [row[0] for row in rows_of(formatter.format([RawBuffer(1, 2, b"", -1)]).batches)] == list(range(1, 21))


def test_a_bug_while_parsing_leaves_the_formatter_usable() -> None:
    """Row 23: an exception of a format comes out; other calls and origins go on."""
    formatter = InputFormatter(BYTE_PREFIXED)
    raws = cut(prefixed(["a", "b!!", "c", "d"]), [2, 6])
    formatter.format(raws[:1])
    with pytest.raises(RuntimeError, match="a bug in the format"):
        formatter.format(raws[1:2])
    assert rows_of(formatter.format(raws[2:]).batches) == [("c",), ("d",)]
    assert formatter.finish(1) == []
