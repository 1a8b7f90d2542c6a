"""Batches leave in stream order, as soon as everything before them is there.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools

import pytest

from runtime.formats import (
    DeadLetter,
    DuplicateSequenceError,
    FormattedBatch,
    InOrder,
    InputFormatter,
    OrderCapacityError,
)
from runtime.relations import FEED_SCHEMA

EMPTY = InputFormatter(FEED_SCHEMA).empty_rows()


def batch(
    from_place: int, to_place: int, *, length: int = 10, tuples: int = 0, offset: int = -1, failed: bool = False
) -> FormattedBatch:
    letter = DeadLetter(1, (to_place + 1) // 2, 3, 2, "f", "int8", "no", b"x")
    return FormattedBatch(
        origin_id=1,
        first_sequence=from_place // 2,
        last_sequence=(to_place + 1) // 2,
        from_place=from_place,
        to_place=to_place,
        offset=offset,
        length=length,
        rows=EMPTY,
        tuples=tuples,
        bad=1,
        dead=() if failed else (letter,),
        failure=letter if failed else None,
    )


def places(batches: list[FormattedBatch]) -> list[tuple[int, int]]:
    return [(one.from_place, one.to_place) for one in batches]


def test_any_order_comes_out_in_stream_order() -> None:
    """Row 16: batches over one and several buffers, in every order of arrival, end with nothing waiting."""
    parts = [batch(0, 1), batch(1, 2), batch(2, 5), batch(5, 6), batch(6, 9)]
    for order in itertools.permutations(parts):
        stage = InOrder(capacity=10)
        ready = []
        for part in order:
            ready += stage.add([part])
            stage._check()
        assert places(ready) == places(parts)
        assert (stage.waiting, stage.last_sequence) == (0, 3)


def test_what_is_complete_does_not_wait() -> None:
    """Row 16: a batch leaves with the call that completes what is before it, not later."""
    stage = InOrder(capacity=10)
    assert places(stage.add([batch(1, 2)])) == []
    assert stage.last_sequence == 0
    assert places(stage.add([batch(0, 1)])) == [(0, 1), (1, 2)]
    assert stage.last_sequence == 1


def test_what_leaves_has_its_place() -> None:
    """Rows 16, 23: offsets and numbers of tuples go on from batch to batch, and letters name both absolutely."""
    stage = InOrder(capacity=10, offset=100)
    first, second, third = stage.add([batch(0, 2, tuples=5), batch(2, 4, tuples=7), batch(4, 6, tuples=1, offset=500)])
    assert (first.offset, first.first_tuple, first.end_offset) == (100, 0, 110)
    assert (second.offset, second.first_tuple) == (110, 5)
    assert [(letter.byte_offset, letter.row) for letter in second.dead] == [(113, 7)]
    assert (third.offset, third.first_tuple) == (500, 12)
    assert [(letter.byte_offset, letter.row) for letter in third.dead] == [(3, 14)], "one that knows its offset"
    assert (stage.end_offset, stage.tuples) == (510, 13)


def test_nothing_follows_a_failure() -> None:
    """Row 23: what stands before a failure comes out, with it, and nothing behind it ever does."""
    stage = InOrder(capacity=10)
    assert stage.add([batch(4, 6), batch(2, 4, failed=True)]) == []
    first, failed = stage.add([batch(0, 2, tuples=5)])
    assert first.failure is None
    assert failed.failure is not None
    assert failed.failure.row == 7
    assert stage.waiting == 0
    assert stage.add([batch(6, 8)]) == []


def test_capacity_is_a_bound() -> None:
    """Row 16: what waits for one missing buffer is bounded, and the error names where it is missing."""
    stage = InOrder(capacity=2)
    stage.add([batch(0, 2), batch(3, 4), batch(4, 6)])
    with pytest.raises(OrderCapacityError, match=r"at most 2 batches waiting, was 3: .* place 2 \(buffer 1\)"):
        stage.add([batch(6, 8)])
    with pytest.raises(ValueError, match="at least 1"):
        InOrder(capacity=0)


def test_a_batch_comes_once() -> None:
    """Row 16: the same part twice is an error, whether the first one waits or has left."""
    stage = InOrder(capacity=10)
    stage.add([batch(0, 2), batch(3, 4)])
    for again in (batch(3, 4), batch(0, 2)):
        with pytest.raises(DuplicateSequenceError):
            stage.add([again])
