"""Pieces of buffers: what lies between two offsets of a run, and which buffer an offset stands in.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools

import pytest

from runtime.formats import Found, Run, Span, TupleRange
from runtime.formats.assembly.spanning import SpanningTuples, TuplePart, Unit


@pytest.mark.parametrize("joined", [False, True])
def test_any_part_of_any_run(joined: bool) -> None:
    """Row 1: the bytes from one offset to another, whatever the pieces, empty ones too."""
    for sizes in itertools.product((0, 1, 3), repeat=4):
        pieces = [bytes(range(10 * i, 10 * i + size)) for i, size in enumerate(sizes)]
        whole = b"".join(pieces)
        unit = Unit(5, 8, Run(pieces, 0))
        if joined:
            assert unit.run.data == whole
        for start, stop in itertools.combinations_with_replacement(range(len(whole) + 1), 2):
            assert b"".join(unit.between(start, stop)) == whole[start:stop], (sizes, start, stop)


def test_the_buffer_in_which_an_offset_stands() -> None:
    """Row 23: exact inside a merged run, empty buffers and borders included."""
    unit = Unit(5, 9, Run([b"ab", b"", b"c", b"def", b""], 0))
    assert [unit.position_of(stop) for stop in range(1, 7)] == [5, 5, 7, 8, 8, 8]


def test_pieces_come_together() -> None:
    """Row 2: what stands behind a last delimiter, whole buffers, and what stands before a first one."""
    spanning = SpanningTuples(limit=100)
    spanning.start_at(1_000)
    first, middle = Unit(1, 2, Run([b"a\nb", b"\ncd"], 1_000)), Unit(3, 4, Run([b"ef", b"g"], 1_006))
    last = Unit(5, 6, Run([b"h", b"i\nj\n"], 1_009))
    body = spanning.enter(last, TupleRange(3, 5))
    assert spanning.enter(middle, TupleRange(-1, -1)) is None
    assert body is not None
    assert (body.from_place, body.to_place, body.offset, body.length) == (11, 12, 1_012, 2)
    assert spanning.enter(first, TupleRange(2, 4)) is not None
    parts: list[TuplePart] = []
    spanning.put_together(Found(Span(0, 2), (Span(2, 6),)), parts)
    assert [b"".join(part.pieces or ()) for part in parts] == [b"a\n", b"cdefghi\n"]
    assert [(part.from_place, part.to_place, part.offset, part.position) for part in parts] == [
        (0, 3, 1_000, 1),
        (4, 11, 1_004, 6),
    ]
    assert spanning.held_bytes() == 0


def test_small_pieces_do_not_hold_large_buffers() -> None:
    """Row 24: what is kept of a buffer is a copy of its ends, and only the start of what is too long."""
    spanning = SpanningTuples(limit=100)
    spanning.enter(Unit(3, 3, Run([b"ab\n" + b"x" * 10_000 + b"\ncd"], -1)), TupleRange(3, 10_004))
    assert spanning.held_bytes() == 5
    spanning.enter(Unit(4, 5, Run([b"y" * 5_000, b"\n" + b"z" * 300], -1)), TupleRange(5_001, 5_001))
    assert spanning.held_bytes() == 5 + 256 + 256
    heads = [pieces for pieces, _, _ in spanning._heads.values()]
    assert all(isinstance(piece, bytes) for pieces in heads for piece in pieces)


def test_many_tiny_pieces_are_joined() -> None:
    """Row 24: a long tuple of tiny buffers is held in few pieces."""
    spanning = SpanningTuples(limit=10_000)
    for position in range(1, 1_001):
        spanning.enter(Unit(position, position, Run([b"x"], -1)), TupleRange(-1, -1))
        spanning.put_together(Found(open_first=0, open_last=position), [])
    pieces = spanning._open[0].pieces
    assert pieces is not None
    assert len(pieces) <= 65
    tail = spanning.last(Span(0, 1_000))
    assert tail is not None
    assert (b"".join(tail.pieces or ()), tail.to_place) == (b"x" * 1_000, 2_001)


@pytest.mark.parametrize(("size", "most"), [(3, 64), (1 << 13, 1_000)])
def test_tiny_pieces_are_joined_and_large_ones_are_not_copied(size: int, most: int) -> None:
    """Row 3: a tuple over a thousand buffers costs what its bytes cost, whatever their number."""
    spanning = SpanningTuples(1 << 30)
    held = []
    for number in range(1, 1_001):
        unit = Unit(number, number, Run((b"x" * size,), -1))
        spanning.enter(unit, TupleRange(-1, -1))
        spanning.put_together(Found(open_first=0, open_last=number), [])
        pieces = spanning._open[0].pieces
        assert pieces is not None
        held.append(len(pieces))
    assert max(held) == most
    assert spanning.held_bytes() == 1_000 * size
