"""Rows 1 to 16 of docs/features/formats.md: tuples that span buffers, in any order, on any number of threads."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from runtime.formats import CsvFormat, InOrder, InputFormatter, RawBuffer, SequenceGapError, SequenceShredder, Span
from tests.conformance.formats.cutting import raw_buffers, shuffled
from tests.conformance.formats.drive import drive
from tests.conformance.formats.verify import check_chain, check_spans
from tests.features.formatters.streams import (
    PAIRS,
    WORDS,
    cut_after,
    format_bytes,
    format_raws,
    in_pieces,
    outcome_of,
    schema_of,
    values,
)


def numbered(count: int) -> bytes:
    return b"".join(b"%d,word %d\n" % (n, n) for n in range(count))


def rows_of(count: int) -> list[tuple[int, str]]:
    return [(n, f"word {n}") for n in range(count)]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_row_01_a_tuple_over_two_buffers_either_first(order: tuple[int, ...]) -> None:
    raws = in_pieces([b"1,fi", b"rst\n2,second\n"])
    assert values(format_raws(PAIRS, raws, order)) == [(1, "first"), (2, "second")]


@pytest.mark.parametrize("order", [*itertools.permutations((1, 2, 3, 4))])
def test_row_02_a_tuple_spans_buffers_in_any_order(order: tuple[int, ...]) -> None:
    raws = in_pieces([b"1,a\n2,on", b"e tu", b"ple ", b"only\n3,c\n"])
    assert values(format_raws(PAIRS, raws, order)) == [(1, "a"), (2, "one tuple only"), (3, "c")]


@pytest.mark.parametrize("seed", range(5))
def test_row_03_a_tuple_over_hundreds_of_buffers(seed: int) -> None:
    """More buffers than the ring has bits at first, several times over."""
    long = "x" * 1500
    raws = cut_after(f"1,a\n2,{long}\n3,c\n4,{long}\n".encode(), 1)
    order = shuffled(random.Random(seed), range(1, len(raws) + 1), 400)
    assert values(format_raws(PAIRS, raws, order)) == [(1, "a"), (2, long), (3, "c"), (4, long)]


@pytest.mark.parametrize("backwards", [False, True])
def test_row_03_while_the_start_of_the_stream_is_missing(backwards: bool) -> None:
    """Nothing can leave the ring: the ends of the tuple are found over many words of bits."""
    raws = cut_after(b"1,a\n2," + b"x" * 350 + b"\n3,c\n", 1)
    numbers = list(range(2, len(raws) + 1))
    outcome = format_raws(PAIRS, raws, [*(reversed(numbers) if backwards else numbers), 1])
    assert values(outcome) == [(1, "a"), (2, "x" * 350), (3, "c")]


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("size", [1, 2])
def test_row_04_tiny_buffers_on_8_threads_repeatedly(size: int) -> None:
    raws = cut_after(numbered(1000), size)
    for seed in range(3):
        rng = random.Random(seed)
        order = shuffled(rng, raws, 64)
        outcome = drive(InputFormatter(PAIRS), order, rng, workers=8, most_bytes=(1, 64, 4096)[seed])[1]
        assert values(outcome) == rows_of(1000)


def spans_of_threads(threads: int, numbers: int, seed: int) -> list[Span]:
    """What threads find that take the next number each, and repeat what is out of range."""
    generator = random.Random(seed)
    delimiters = [True, *(generator.random() < 0.5 for _ in range(numbers - 1)), True]
    shredder = SequenceShredder()
    counter = itertools.count(1)
    found: list[list[Span]] = [[] for _ in range(threads)]

    def work(mine: list[Span]) -> None:
        while (number := next(counter)) <= numbers:
            while (result := shredder.process(number, number, delimiters[number])) is None:
                pass
            if result.ending is not None:
                mine.append(result.ending)
            mine.extend(result.others)

    workers = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sorted(itertools.chain(*found), key=lambda span: span.first)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("numbers", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_row_05_sixteen_threads_find_every_span_exactly_once(numbers: int) -> None:
    spans = spans_of_threads(16, numbers, numbers)
    assert sum(span.last - span.first for span in spans) == numbers
    assert spans[0].first == 0
    assert all(left.last == right.first for left, right in itertools.pairwise(spans))


@pytest.mark.parametrize("place", [0, 4094, 4095, 4096, 4097, 8191])
def test_row_06_a_delimiter_at_a_buffers_first_and_last_byte(place: int) -> None:
    """Buffers of 4096 bytes: places 4095 and 4096 are the last byte of one and the first of the next."""
    data = b"a" * place + b"\n" + b"b" * (9000 - place) + b"\nc\n"
    expected = [*([("a" * place,)] if place else []), ("b" * (9000 - place),), ("c",)]
    for order in itertools.permutations((1, 2, 3)):
        outcome = format_raws(WORDS, cut_after(data, 4096), order)
        assert values(outcome) == expected
        assert outcome.ends == [end for end in (place + 1, 9002, 9004) if end > 1]


@pytest.mark.parametrize(
    "pieces", [[b"a\n", b"\n", b"b\n"], [b"a", b"\n\n", b"\n", b"\nb", b"\n"], [b"\n", b"a\nb", b"\n"]]
)
def test_row_07_an_empty_spanning_tuple_is_ignored(pieces: list[bytes]) -> None:
    for order in itertools.permutations(range(1, len(pieces) + 1)):
        outcome = format_raws(WORDS, in_pieces(pieces), order)
        assert values(outcome) == [("a",), ("b",)]
        assert (outcome.total("tuples"), outcome.total("bad")) == (2, 0)


@pytest.mark.parametrize("seed", range(5))
def test_row_08_partly_filled_buffers(seed: int) -> None:
    """Buffers of all sizes, empty ones too."""
    rng = random.Random(seed)
    data = numbered(200)
    places = sorted(rng.choices(range(len(data) + 1), k=300))
    raws = raw_buffers(data, places)
    assert any(not raw.data for raw in raws)
    for most in (1, 7, 1000):  # one by one, and several as one
        outcome = format_raws(PAIRS, raws, shuffled(rng, range(1, len(raws) + 1), 50), most=most)
        assert values(outcome) == rows_of(200)
        check_chain(outcome, len(data))


def test_row_09_an_empty_source() -> None:
    formatter = InputFormatter(PAIRS)
    formatter.open(1)
    assert formatter.finish(1) == []
    assert InputFormatter(PAIRS).finish(7) == []
    outcome = format_raws(PAIRS, in_pieces([b"", b""]), (2, 1))
    assert values(outcome) == []
    assert outcome.total("tuples") == 0


@pytest.mark.parametrize("size", [1, 3, 100])
def test_row_10_an_undelimited_last_tuple_comes_at_the_end(size: int) -> None:
    formatter = InputFormatter(PAIRS)
    raws = cut_after(b"1,a\n2,last", size)
    batches = formatter.format(raws).batches
    assert sum(batch.tuples for batch in batches) == 1
    order = InOrder(10)
    (*_, last) = [*order.add(batches), *order.add(formatter.finish(1))]
    assert last.rows.to_pylist() == [{"n": 2, "word": "last"}]
    assert last.row_ends.tolist() == [10]
    assert formatter.finish(1) == []


def test_row_10_a_stream_with_a_hole_does_not_end() -> None:
    formatter = InputFormatter(PAIRS)
    raws = in_pieces([b"1,a\n2", b",b\n3,", b"c\n"])
    formatter.format([raws[0], raws[2]])
    with pytest.raises(SequenceGapError):
        formatter.finish(1)


def test_row_11_out_of_range_is_repeated_and_the_ring_grows() -> None:
    """The first buffer comes last: 2 slots of 64 hold 127 others, the rest is given back and asked again."""
    raws = cut_after(numbered(1000), 8)
    formatter = InputFormatter(PAIRS, slots=2, max_slots=64)
    formatted = formatter.format(raws[1:])
    assert {raw.sequence_number for raw in formatted.again} >= set(range(129, len(raws)))
    outcome = outcome_of(InputFormatter(PAIRS, slots=2, max_slots=64), [*raws[1:], raws[0]])
    assert values(outcome) == rows_of(1000)
    assert outcome.repeats >= 1
    assert outcome.counters.ring_slots > 2


@pytest.mark.parametrize("backwards", [False, True])
def test_row_11_a_tuple_spans_more_buffers_than_the_ring(backwards: bool) -> None:
    """A ring of 128 buffers that may not grow, a tuple over 1,000 of them."""
    raws = cut_after(b"1,a\n2," + b"x" * 1000 + b"\n3,c\n", 1)
    formatter = InputFormatter(PAIRS, slots=2, max_slots=2)
    outcome = outcome_of(formatter, raws, range(len(raws), 0, -1) if backwards else ())
    assert values(outcome) == [(1, "a"), (2, "x" * 1000), (3, "c")]
    assert outcome.counters.ring_slots == 2


@pytest.mark.parametrize("seed", range(3))
def test_row_12_sequence_numbers_wrap(seed: int) -> None:
    """Behind 256 comes 1 again, more than ten times over."""
    rng, data = random.Random(seed), numbered(1100)
    raws = [RawBuffer(1, (raw.sequence_number - 1) % 256 + 1, raw.data, raw.offset) for raw in cut_after(data, 5)]
    assert len(raws) > 2560
    formatter = InputFormatter(PAIRS, slots=2, max_slots=2, highest_sequence=256)
    outcome = outcome_of(formatter, shuffled(rng, raws, 40))
    assert values(outcome) == rows_of(1100)
    check_chain(outcome, len(data))


@pytest.mark.parametrize("delimiter", [b"\r\n\r\n", b"||", b"<end>", b"abab", b"=#=#=#=#"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_row_13_a_long_delimiter_cut_by_a_border(delimiter: bytes, size: int) -> None:
    """Whether a buffer's first bytes end a delimiter is yes, no, or maybe until its neighbour has come."""
    schema = schema_of(["int64", "string"], CsvFormat(tuple_delimiter=delimiter))
    data = delimiter.join(b"%d,w%d" % (n, n) for n in range(30)) + delimiter
    raws = cut_after(data, size)
    for seed in range(4):
        order = shuffled(random.Random(seed), range(1, len(raws) + 1), len(raws) if seed == 3 else 8)
        outcome = format_raws(schema, raws, order)
        assert values(outcome) == [(n, f"w{n}") for n in range(30)]
        check_chain(outcome, len(data))


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1), (2, 4, 6, 1, 3, 5)])
def test_row_13_where_every_delimiter_is_cut(order: tuple[int, ...]) -> None:
    """Tuples come out as soon as the halves of both delimiters are there, not at the end of the stream."""
    schema = schema_of(["int64"], CsvFormat(tuple_delimiter=b"<end>"))
    raws = in_pieces([b"1<e", b"nd>2<en", b"d>3<", b"end>4<end", b">5<", b"end>"])
    formatter = InputFormatter(schema)
    batches = [batch for number in order for batch in formatter.format([raws[number - 1]]).batches]
    assert sum(batch.tuples for batch in batches) == 5


def test_row_13_a_delimiter_that_can_begin_within_itself() -> None:
    """The leftmost one counts: in ``ababa`` the ``aba`` in front, whatever the cuts."""
    schema = schema_of(["string"], CsvFormat(tuple_delimiter=b"aba"))
    data = b"xababa1abab"
    expected = [("x",), ("ba1",), ("b",)]
    for places in itertools.combinations(range(1, len(data)), 3):
        raws = raw_buffers(data, places)
        for order in ((1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)):
            assert values(format_raws(schema, raws, order)) == expected


def test_row_14_two_bits_a_buffer() -> None:
    """A ring of 8 slots: 16 integers of at most 64 bits, 36 bytes each, whatever is in flight; all within 2 KiB."""
    shredders = [SequenceShredder() for _ in range(10)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for shredder in shredders:
        for number in range(500, 1, -1):  # all but the first: nothing can leave
            shredder.process(number, number, number % 3 == 0)
    held = (tracemalloc.get_traced_memory()[0] - before) / len(shredders)
    tracemalloc.stop()
    assert shredders[0].slots == 8
    assert held <= 2048


def test_row_14_memory_of_a_source() -> None:
    """An open origin with half a tuple waiting costs less than 8 KiB, most of it locks, dictionaries and the ring."""
    formatter = InputFormatter(PAIRS)
    sources = 1000
    formatter.format([RawBuffer(0, 1, b"1,a\n2,ha", 0)])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for origin in range(1, sources + 1):
        formatter.format([RawBuffer(origin, 1, b"1,a\n2,ha", 0)])
    held = (tracemalloc.get_traced_memory()[0] - before) / sources
    tracemalloc.stop()
    assert held <= 8192
    assert formatter.held_bytes() == (sources + 1) * 4


def test_row_15_several_sources_behind_one_formatter() -> None:
    """Origins do not see each other's numbers, delimiters or halves of tuples."""
    texts = {origin: b"".join(b"%d,o%d\n" % (n, origin) for n in range(50)) for origin in (1, 2, 7)}
    raws = [raw for origin, text in texts.items() for raw in cut_after(text, 3 + origin, origin)]
    for seed in range(5):
        rng = random.Random(seed)
        order = list(raws)
        rng.shuffle(order)
        outcomes = drive(InputFormatter(PAIRS), order, rng, workers=seed % 3)
        for origin in texts:
            assert values(outcomes[origin]) == [(n, f"o{origin}") for n in range(50)]


@pytest.mark.parametrize("size", [1, 3, 10, 40])
def test_row_16_spans_without_holes(size: int) -> None:
    """What is emitted says from which buffer to which, and the parts join without a hole up to the last buffer."""
    data = numbered(60)
    raws = cut_after(data, size)
    for seed in range(3):
        outcome = format_raws(PAIRS, raws, shuffled(random.Random(seed), range(1, len(raws) + 1), 30))
        check_chain(outcome, len(data))
        check_spans(outcome, raws)
        assert outcome.batches[0].first_sequence == 0
        assert outcome.batches[-1].last_sequence == len(raws)
        for left, right in itertools.pairwise(outcome.batches):
            assert right.first_sequence in {left.last_sequence, left.last_sequence + 1}


def test_row_16_one_buffer_is_one_span() -> None:
    assert [
        (batch.first_sequence, batch.last_sequence, batch.rows.num_rows)
        for batch in format_bytes(PAIRS, numbered(10)).batches
        if batch.length
    ] == [(0, 1, 10)]
