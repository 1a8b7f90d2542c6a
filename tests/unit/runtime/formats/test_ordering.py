"""Batches leave in stream order, as soon as everything before them is there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from runtime.formats import (
    BODY,
    FEED_SCHEMA,
    LEAD,
    DuplicateSequenceError,
    FormattedBatch,
    InOrder,
    InputFormatter,
    OrderCapacityError,
)

EMPTY = InputFormatter(FEED_SCHEMA).empty_rows()


def batch(part: int, first: int, last: int, *, delimited: bool = True) -> FormattedBatch:
    return FormattedBatch(1, first, last, part, EMPTY, np.zeros(0, np.int64), 0, 0, delimited=delimited)


def names(batches: list[FormattedBatch]) -> list[tuple[int, int]]:
    return [(one.last_sequence, one.part) for one in batches]


def test_any_order_comes_out_in_stream_order() -> None:
    """Row 16: a span over buffers without delimiter, in every order of arrival, ends with nothing waiting."""
    parts = [
        batch(LEAD, 0, 1),
        batch(BODY, 1, 1),
        batch(BODY, 2, 2, delimited=False),
        batch(LEAD, 1, 3),
        batch(BODY, 3, 3),
        batch(LEAD, 3, 3),  # the last tuple of a stream without its delimiter
    ]
    for order in itertools.permutations(parts[:-1]):
        stage = InOrder(capacity=10)
        ready = [one for part in order for one in stage.add([part])]
        ready += stage.add([parts[-1]])
        assert names(ready) == [(1, LEAD), (1, BODY), (2, BODY), (3, LEAD), (3, BODY), (3, LEAD)]
        assert stage.waiting == 0
        stage._check()


def test_what_is_complete_does_not_wait() -> None:
    """Row 16: a batch leaves with the call that completes what is before it, not later."""
    stage = InOrder(capacity=10)
    assert names(stage.add([batch(BODY, 1, 1)])) == []
    assert stage.last_sequence == 0
    assert names(stage.add([batch(LEAD, 0, 1)])) == [(1, LEAD), (1, BODY)]
    assert stage.last_sequence == 1
    assert names(stage.add([batch(BODY, 2, 2, delimited=False)])) == [(2, BODY)]


def test_capacity_is_a_bound() -> None:
    """Row 16: what waits for one missing buffer is bounded, and the error names the buffer."""
    stage = InOrder(capacity=2)
    stage.add([batch(BODY, 2, 2), batch(LEAD, 1, 2)])
    with pytest.raises(OrderCapacityError, match="at most 2 batches waiting, was 3: buffer 1 is missing"):
        stage.add([batch(BODY, 3, 3)])
    with pytest.raises(ValueError, match="at least 1"):
        InOrder(capacity=0)


def test_a_batch_comes_once() -> None:
    """Row 16: the same part twice is an error."""
    stage = InOrder(capacity=10)
    stage.add([batch(BODY, 2, 2)])
    with pytest.raises(DuplicateSequenceError):
        stage.add([batch(BODY, 2, 2)])


def test_numbers_wrap() -> None:
    """Row 12: after the highest sequence number comes 1 again."""
    stage = InOrder(capacity=10, highest_sequence=2)
    ready = stage.add([batch(LEAD, 0, 1), batch(BODY, 1, 1), batch(LEAD, 1, 2), batch(BODY, 2, 2)])
    ready += stage.add([batch(BODY, 1, 1), batch(LEAD, 2, 1)])
    assert names(ready) == [(1, LEAD), (1, BODY), (2, LEAD), (2, BODY), (1, LEAD), (1, BODY)]
