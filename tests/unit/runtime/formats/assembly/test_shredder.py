"""The sequence shredder finds every spanning tuple exactly once, whoever comes first.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools
import random
import sys
from threading import Barrier, Thread

import pytest

from runtime.formats import DuplicateSequenceError, SequenceGapError, SequenceShredder, Span


def spans_of(shredder: SequenceShredder, order: list[tuple[int, bool]]) -> list[Span]:
    """Enter buffers in this order, out-of-range ones again at the end; every span that was found."""
    spans: list[Span] = []
    todo = list(order)
    while todo:
        again = []
        for number, has_delimiter in todo:
            found = shredder.process(number, number, has_delimiter)
            if found is None:
                again.append((number, has_delimiter))
                continue
            spans += [*([found.ending] if found.ending else []), *found.others]
            shredder._check()
        assert len(again) < len(todo), "nothing was in range"
        todo = again
    return spans


def expected_spans(delimiters: list[bool]) -> list[Span]:
    places = [0, *[number for number, has_delimiter in enumerate(delimiters, 1) if has_delimiter]]
    return [Span(first, last) for first, last in itertools.pairwise(places)]


@pytest.mark.parametrize("order", [[1, 2], [2, 1]])
def test_a_tuple_over_two_buffers(order: list[int]) -> None:
    """Row 1: a tuple split over two buffers, either arriving first, is found once."""
    spans = spans_of(SequenceShredder(), [(number, True) for number in order])
    assert sorted(spans, key=lambda span: span.first) == [Span(0, 1), Span(1, 2)]


@pytest.mark.parametrize("count", [3, 4, 5])
def test_a_tuple_over_several_buffers_in_every_order(count: int) -> None:
    """Row 2: with buffers in the middle that hold no delimiter, in every order of arrival."""
    delimiters = [True, *[False] * (count - 2), True]
    for order in itertools.permutations(range(1, count + 1)):
        spans = spans_of(SequenceShredder(), [(number, delimiters[number - 1]) for number in order])
        assert sorted(spans, key=lambda span: span.first) == [Span(0, 1), Span(1, count)], order


@pytest.mark.parametrize("count", [63, 64, 65, 128, 500, 700])
def test_a_tuple_over_hundreds_of_buffers(count: int) -> None:
    """Row 3: a span over hundreds of buffers is found, in order, backwards and shuffled, across slots."""
    delimiters = [True, *[False] * (count - 2), True]
    numbers = list(range(1, count + 1))
    shuffled = random.Random(count).sample(numbers, count)
    for order in (numbers, numbers[::-1], shuffled):
        spans = spans_of(SequenceShredder(slots=16), [(number, delimiters[number - 1]) for number in order])
        assert sorted(spans, key=lambda span: span.first) == [Span(0, 1), Span(1, count)]


def shred_with_threads(count: int, threads: int, seed: int) -> tuple[list[Span], list[bool], SequenceShredder]:
    """Sequence numbers dealt out to threads that each go through theirs in bursts, repeating what is out of range."""
    generator = random.Random(seed)
    delimiters = [generator.random() < 0.5 for _ in range(count)]
    shredder = SequenceShredder()
    shares: list[list[int]] = [[] for _ in range(threads)]
    for number in range(1, count + 1):
        shares[generator.randrange(threads)].append(number)
    found_by: list[list[Span]] = [[] for _ in range(threads)]
    start = Barrier(threads)

    def work(me: int) -> None:
        spans, todo = found_by[me], shares[me]
        start.wait()
        while todo:
            again = []
            for number in todo:
                found = shredder.process(number, number, delimiters[number - 1])
                if found is None:
                    again.append(number)
                    continue
                if found.ending is not None:
                    spans.append(found.ending)
                spans.extend(found.others)
            todo = again

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        workers = [Thread(target=work, args=(me,)) for me in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    return [span for spans in found_by for span in spans], delimiters, shredder


def check_exactly_once(count: int, seed: int) -> None:
    spans, delimiters, shredder = shred_with_threads(count, 16, seed)
    expected = expected_spans(delimiters)
    assert sum(span.last - span.first for span in spans) == expected[-1].last
    assert sorted(spans, key=lambda span: span.first) == expected
    shredder._check()


def test_sixteen_threads() -> None:
    """Row 5: 16 threads, 50,000 sequence numbers, out-of-range ones retried: every span is found exactly once."""
    check_exactly_once(50_000, seed=20_261)


@pytest.mark.slow
def test_sixteen_threads_one_million() -> None:
    """Row 5: the same with 1,000,000 sequence numbers; the lengths of the spans add up to the highest of them."""
    check_exactly_once(1_000_000, seed=20_262)


def test_out_of_range_is_repeated_not_dropped() -> None:
    """Row 11: a number beyond the ring is refused, changes nothing, and goes through later."""
    shredder = SequenceShredder(slots=2, max_slots=2)
    assert shredder.process(200, 200, True) is None
    order = [(number, True) for number in range(1, 201)]
    assert spans_of(shredder, order) == expected_spans([True] * 200)


def test_ring_grows_when_numbers_are_often_out_of_range() -> None:
    """Row 11: the ring doubles after enough repeats, keeps what it held, and stops at its largest size."""
    shredder = SequenceShredder(slots=2, max_slots=8, growth_after=3)
    early = [shredder.process(number, number, number % 3 == 0) for number in range(2, 100)]
    assert not any(found.ending for found in early if found is not None and found.ending and found.ending.first == 0)
    for _ in range(20):
        shredder.process(5_000, 5_000, True)
    assert shredder.slots == 8
    shredder._check()
    found = shredder.process(1, 1, False)
    assert found is not None
    assert found.others == (Span(0, 3),)


@pytest.mark.parametrize("tail", range(5))
def test_growth_keeps_what_the_ring_holds(tail: int) -> None:
    """Row 11: whatever slot the tail stands at, every span that was open before the ring grew is found behind it."""
    shredder = SequenceShredder(slots=2, max_slots=8, growth_after=1)
    delimiters = [number % 5 != 0 for number in range(1, 700)]
    start = 64 * tail + 1
    spans = spans_of(shredder, [(number, delimiters[number - 1]) for number in range(1, start)])
    early = [number for number in range(start, start + 127) if number % 2]
    spans += spans_of(shredder, [(number, delimiters[number - 1]) for number in early])
    assert shredder.process(start + 600, start + 600, True) is None
    assert shredder.slots == 4
    late = sorted(set(range(start, 700)) - set(early))
    spans += spans_of(shredder, [(number, delimiters[number - 1]) for number in late])
    assert sorted(spans, key=lambda span: span.first) == expected_spans(delimiters)


def test_more_buffers_without_delimiter_than_the_ring_has_bits() -> None:
    """Row 11: a tuple over more buffers than the ring has bits neither stops nor grows the ring."""
    shredder = SequenceShredder(slots=2, max_slots=2)
    assert spans_of(shredder, [(1, True)]) == [Span(0, 1)]
    assert spans_of(shredder, [(number, False) for number in range(2, 2_000)]) == []
    assert shredder.slots == 2
    assert spans_of(shredder, [(2_000, True)]) == [Span(1, 2_000)]


def test_open_tuple_is_told_where_it_starts() -> None:
    """Row 11: a buffer without delimiter learns how far its open tuple is known, also far from its start."""
    shredder = SequenceShredder(slots=2, max_slots=2)
    shredder.process(1, 1, True)
    for number in range(2, 400):
        found = shredder.process(number, number, False)
        assert found is not None
        assert (found.open_first, found.open_last) == (1, number)


def test_numbers_wrap() -> None:
    """Row 12: after the highest sequence number comes 1 again; three rounds, slightly out of order."""
    highest, rounds = 300, 3
    shredder = SequenceShredder(slots=2, max_slots=2, highest_sequence=highest)
    positions = list(range(1, rounds * highest + 1))
    for start in range(0, len(positions), 7):
        positions[start : start + 7] = reversed(positions[start : start + 7])
    spans = spans_of(shredder, [((position - 1) % highest + 1, position % 5 == 0) for position in positions])
    assert len(spans) == rounds * highest // 5
    assert Span(highest, highest + 5) in spans
    assert (shredder.number(highest), shredder.number(highest + 5)) == (highest, 5)
    assert all(span.last - span.first == 5 for span in spans)


def test_a_number_comes_once() -> None:
    """Row 12: a number that is in the ring, or that has left it, is an error and not taken for a later round."""
    shredder = SequenceShredder()
    for number in range(1, 200):
        shredder.process(number, number, True)
    for number in (199, 1):
        with pytest.raises(DuplicateSequenceError, match=f"was {number}"):
            shredder.process(number, number, True)


def test_open_span_at_the_end() -> None:
    """Row 10: the end of a stream knows the last tuple's buffers, and misses a buffer that never came."""
    shredder = SequenceShredder()
    assert shredder.open_span() is None
    for number in (1, 2, 3):
        shredder.process(number, number, number == 1)
    assert shredder.open_span() == Span(1, 3)
    shredder.process(5, 5, True)
    with pytest.raises(SequenceGapError, match="was without 4"):
        shredder.open_span()


def test_memory_is_two_bits_a_buffer() -> None:
    """Row 14: 512 buffers in flight take two bitmaps of 8 slots; in order, nothing grows with the stream."""
    shredder = SequenceShredder(slots=8)

    def state_bytes() -> int:
        bitmaps = (shredder._delimiters, shredder._used)
        return sum(sys.getsizeof(ring) + sum(map(sys.getsizeof, ring)) for ring in bitmaps)

    for number in range(2, 512):
        shredder.process(number, number, number % 2 == 0)
    assert shredder.slots == 8
    assert state_bytes() < 1_024
    for number in (1, *range(512, 20_000)):
        shredder.process(number, number, number % 2 == 0)
    assert shredder.slots == 8
    assert state_bytes() < 1_024


def test_sizes_are_checked() -> None:
    """The ring's sizes are powers of two and sequence numbers have room for two rings."""
    for slots, max_slots in ((0, 8), (3, 8), (8, 4), (8, 12)):
        with pytest.raises(ValueError, match="powers of two"):
            SequenceShredder(slots=slots, max_slots=max_slots)
    with pytest.raises(ValueError, match="twice the ring"):
        SequenceShredder(slots=2, max_slots=2, highest_sequence=255)
    with pytest.raises(ValueError, match="from 1 on"):
        SequenceShredder().process(0, 0, True)
