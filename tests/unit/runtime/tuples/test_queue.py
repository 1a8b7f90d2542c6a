"""A tuple queue of either case: what a query gets, what is kept, and what happens at the limit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from runtime.tuples import (
    OverrunError,
    OwnQueues,
    QueueEmptyError,
    QueueFullError,
    SharedQueue,
    TupleQueue,
    UnknownQueryError,
)

CASES = (OwnQueues, SharedQueue)
Make = Callable[..., TupleQueue[Any]]


@pytest.fixture(params=CASES, ids=lambda case: case.__name__)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


class Item:
    """Something that can be seen to be gone."""


def test_each_query_gets_each_item_once_in_order(make: Make) -> None:
    queue = make(10, at_limit="refuse")
    queue.join("a")
    queue.join("b")
    for item in range(4):
        queue.add(item)
    assert [queue.get("a") for _ in range(3)] == [0, 1, 2]
    assert queue.get_all("b") == [0, 1, 2, 3]
    assert queue.peek("a") == 3
    assert queue.get_all("a") == [3]
    assert queue.is_empty("a")
    assert queue.is_empty("b")


def test_a_query_gets_what_is_added_after_it_joined(make: Make) -> None:
    queue = make(10, at_limit="refuse")
    queue.join("early")
    queue.add("x")
    queue.join("late")
    queue.add("y")
    assert queue.get_all("late") == ["y"]
    assert queue.get_all("early") == ["x", "y"]
    assert queue.queries == ("early", "late")


def test_items_are_numbered_and_positions_are_these_numbers(make: Make) -> None:
    queue = make(10, at_limit="refuse")
    queue.add("for nobody")
    queue.join("a")
    queue.add("x")
    queue.add("y")
    assert (queue.end, queue.position("a")) == (3, 1)
    queue.get("a")
    assert queue.position("a") == 2
    assert queue.get_all("a", 0) == []
    assert queue.get_all("a", 1) == ["y"]
    assert queue.position("a") == queue.end


def test_an_empty_queue_says_so_and_goes_on(make: Make) -> None:
    queue = make(1, at_limit="refuse")
    queue.join("a")
    with pytest.raises(QueueEmptyError, match="expected an item for query 'a'"):
        queue.get("a")
    with pytest.raises(QueueEmptyError):
        queue.peek("a")
    assert queue.get_all("a") == []
    queue.add("x")
    assert queue.get("a") == "x"


def test_an_item_that_nobody_needs_is_gone(make: Make) -> None:
    queue = make(1000, at_limit="refuse")
    for query in "abc":
        queue.join(query)
    items = [Item() for _ in range(200)]
    held = [weakref.ref(item) for item in items]
    for item in items:
        queue.add(item)
    del items, item
    queue.get_all("a")
    queue.get_all("b", 150)
    assert all(ref() is not None for ref in held)
    queue.leave("c")
    gc.collect()
    assert [ref() is None for ref in held] == [True] * 150 + [False] * 50
    queue.skip("b")
    gc.collect()
    assert all(ref() is None for ref in held)
    assert queue.kept() == 0


def test_the_shared_queue_keeps_one_copy_of_an_item() -> None:
    kept = []
    for case in CASES:
        queue: TupleQueue[int] = case(10, at_limit="refuse")
        for query in range(7):
            queue.join(query)
        for item in range(5):
            queue.add(item)
        kept.append(queue.kept())
    assert kept == [35, 5]


def test_own_queues_hand_out_copies_when_told_to() -> None:
    queue = OwnQueues[list[int]](10, at_limit="refuse", copy=list.copy)
    queue.join("a")
    queue.join("b")
    item = [1]
    queue.add(item)
    item.append(2)
    queue.get("a").append(3)
    assert queue.get("b") == [1]


def test_an_item_that_cannot_be_copied_reaches_no_query() -> None:
    copies = iter([[1]])
    queue = OwnQueues[list[int]](10, at_limit="refuse", copy=lambda _: next(copies))
    queue.join("a")
    queue.join("b")
    with pytest.raises(StopIteration):
        queue.add([1])
    assert queue.is_empty("a")
    assert queue.end == queue.kept() == 0


def test_a_full_queue_refuses_and_nothing_has_changed(make: Make) -> None:
    queue = make(3, at_limit="refuse")
    queue.join("slow")
    queue.join("quick")
    for item in range(3):
        queue.add(item)
    queue.get_all("quick")
    with pytest.raises(QueueFullError, match="capacity of 3"):
        queue.add(3)
    assert queue.is_empty("quick")
    assert queue.end == 3
    assert queue.get("slow") == 0
    queue.add(3)
    assert queue.get_all("slow") == [1, 2, 3]
    assert queue.get_all("quick") == [3]


def test_a_slow_query_is_overrun_told_once_and_goes_on(make: Make) -> None:
    queue = make(3, at_limit="overrun")
    queue.join("slow")
    queue.join("quick")
    for item in range(5):
        queue.add(item)
        assert queue.get("quick") == item
    assert not queue.is_empty("slow")
    assert queue.kept() == 0
    with pytest.raises(OverrunError, match="missed 5 items") as raised:
        queue.get("slow")
    assert raised.value.missed == 5
    assert queue.is_empty("slow")
    queue.add(5)
    assert queue.get("slow") == 5


def test_the_one_that_fits_is_not_overrun_with_the_others(make: Make) -> None:
    queue = make(3, at_limit="overrun")
    for query in ("last", "middle", "first"):
        queue.join(query)
    for item in range(3):
        queue.add(item)
    queue.get("middle")
    queue.get_all("first")
    queue.add(3)
    with pytest.raises(OverrunError, match="missed 4 items"):
        queue.get("last")
    assert queue.get_all("middle") == [1, 2, 3]
    assert queue.get_all("first") == [3]


def test_sizes_count_and_not_items(make: Make) -> None:
    queue = make(10, at_limit="refuse", size=len)
    queue.join("a")
    queue.add(b"1234567")
    queue.add(b"123")
    with pytest.raises(QueueFullError, match=r"item of size 1, was a capacity of 10 of which 10"):
        queue.add(b"1")
    assert queue.get("a") == b"1234567"
    queue.add(b"1234567")
    with pytest.raises(QueueFullError):
        queue.add(b"1")


def test_an_item_beyond_the_capacity_is_too_much_for_everyone(make: Make) -> None:
    queue = make(3, at_limit="overrun", size=len)
    queue.join("behind")
    queue.add(b"1")
    queue.join("idle")
    queue.add(b"1234")
    for query, missed in (("behind", 2), ("idle", 1)):
        with pytest.raises(OverrunError) as raised:
            queue.get_all(query)
        assert raised.value.missed == missed
    assert queue.kept() == 0


def test_skipping_takes_the_place_of_hearing_of_an_overrun(make: Make) -> None:
    queue = make(1, at_limit="overrun")
    queue.join("a")
    queue.add(0)
    queue.add(1)
    queue.skip("a")
    assert queue.get_all("a") == []
    assert queue.position("a") == 2


def test_a_query_that_was_overrun_may_leave_and_join_again(make: Make) -> None:
    queue = make(1, at_limit="overrun")
    queue.join("a")
    queue.add(0)
    queue.add(1)
    queue.leave("a")
    queue.join("a")
    assert queue.is_empty("a")


def test_what_cannot_be_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="expected a capacity of 1 or more, was 0"):
        make(0, at_limit="refuse")
    queue = make(1, at_limit="refuse")
    queue.join("a")
    with pytest.raises(ValueError, match="expected a query that has not joined, was 'a'"):
        queue.join("a")
    for call in (queue.get, queue.peek, queue.get_all, queue.is_empty, queue.position, queue.skip):
        with pytest.raises(UnknownQueryError, match="expected a query that has joined, was 'b'"):
            call("b")
    with pytest.raises(UnknownQueryError):
        queue.leave("b")
