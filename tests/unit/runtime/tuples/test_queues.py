"""The queues of all sources: which query gets what, and when it is runnable."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from runtime.tuples import (
    AtLimit,
    OverrunError,
    OwnQueues,
    QueueEmptyError,
    QueueFullError,
    SharedQueue,
    Sourced,
    TupleQueue,
    TupleQueues,
    UnknownQueryError,
)

PATIENCE_S = 30.0


@pytest.fixture(params=(OwnQueues, SharedQueue), ids=lambda case: case.__name__)
def case(request: pytest.FixtureRequest) -> type:
    return request.param  # type: ignore[no-any-return]


def queues(case: type, capacity: int = 1000, at_limit: AtLimit = "refuse") -> TupleQueues[int]:
    def make() -> TupleQueue[Sourced[int]]:
        return case(capacity, at_limit=at_limit)  # type: ignore[no-any-return]

    return TupleQueues(make)


def taken(of: TupleQueues[int], query: str) -> list[tuple[object, int]]:
    found = []
    while of.has_next(query):
        each = of.get(query)
        found.append((each.source, each.item))
    return found


def test_a_query_gets_the_items_of_its_sources_in_the_order_of_their_coming(case: type) -> None:
    tuples = queues(case)
    tuples.add_query("both", ["x", "y"])
    tuples.add_query("one", ["y"])
    for item, source in enumerate("xyyxzy"):
        tuples.add(source, item)
    assert taken(tuples, "both") == [("x", 0), ("y", 1), ("y", 2), ("x", 3), ("y", 5)]
    assert taken(tuples, "one") == [("y", 1), ("y", 2), ("y", 5)]
    with pytest.raises(QueueEmptyError, match="expected an item for query 'one'"):
        tuples.get("one")


def test_queries_are_runnable_in_the_order_in_which_they_became_so_and_once(case: type) -> None:
    tuples = queues(case)
    for query, sources in (("a", ["x"]), ("b", ["y"]), ("c", ["x", "y"])):
        tuples.add_query(query, sources)
    assert tuples.next_query() is None
    tuples.add("y", 0)
    tuples.add("x", 1)
    tuples.add("x", 2)
    tuples._check()
    assert [tuples.next_query() for _ in range(4)] == ["b", "c", "a", None]


def test_a_query_that_is_done_queues_up_again_while_something_waits(case: type) -> None:
    tuples = queues(case)
    tuples.add_query("a", ["x"])
    tuples.add_query("b", ["x"])
    tuples.add("x", 0)
    tuples.add("x", 1)
    assert tuples.next_query() == "a"
    tuples.get("a")
    tuples.add("x", 2)
    assert tuples.next_query() == "b"
    assert tuples.next_query() is None
    tuples.done("a")
    tuples._check()
    assert tuples.next_query() == "a"
    assert [tuples.get("a").item for _ in range(2)] == [1, 2]
    tuples.done("a")
    tuples._check()
    assert tuples.next_query() is None
    tuples.add("x", 3)
    assert tuples.next_query() == "a"


def test_a_source_is_refused_at_its_limit_alone(case: type) -> None:
    tuples = queues(case, 1)
    tuples.add_query("a", ["x", "y"])
    tuples.add("x", 0)
    with pytest.raises(QueueFullError):
        tuples.add("x", 1)
    tuples.add("y", 2)
    assert taken(tuples, "a") == [("x", 0), ("y", 2)]


def test_an_overrun_names_its_source_and_leaves_the_others(case: type) -> None:
    tuples = queues(case, 2, "overrun")
    tuples.add_query("a", ["x", "y"])
    tuples.add("y", 0)
    for item in range(1, 4):
        tuples.add("x", item)
    assert tuples.next_query() == "a"
    with pytest.raises(OverrunError, match="missed 3 items of source 'x'") as raised:
        tuples.get("a")
    assert (raised.value.missed, raised.value.source) == (3, "x")
    assert taken(tuples, "a") == [("y", 0)]


def test_a_query_that_is_removed_is_not_runnable_and_keeps_nothing(case: type) -> None:
    tuples = queues(case)
    tuples.add_query("a", ["x"])
    tuples.add_query("b", ["x"])
    tuples.add("x", 0)
    tuples.remove_query("a")
    tuples._check()
    assert tuples.next_query() == "b"
    tuples.remove_query("b")
    tuples._check()
    assert tuples.kept() == 0
    with pytest.raises(ValueError, match="expected a query that is not there, was 'b'"):
        tuples.add_query("b", ["x"])
    tuples.done("b")
    tuples.add_query("b", ["x"])
    tuples._check()
    assert not tuples.has_next("b")


def test_an_item_for_nobody_is_gone(case: type) -> None:
    tuples = queues(case)
    tuples.add("x", 0)
    tuples.add_query("a", ["x"])
    assert tuples.kept() == 0
    assert tuples.next_query() is None


def test_a_thread_that_waits_is_woken_by_an_item_and_by_the_end(case: type) -> None:
    tuples = queues(case)
    tuples.add_query("a", ["x"])
    found: list[object] = []

    def run() -> None:
        while (query := tuples.next_query(None)) is not None:
            found.append(tuples.get(query).item)
            tuples.done(query)
            seen.set()

    seen = threading.Event()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    tuples.add("x", 7)
    assert seen.wait(PATIENCE_S)
    tuples.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert found == [7]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda tuples: tuples.add_query("a", ["x"]), ValueError, "expected a query that is not there, was 'a'"),
        (lambda tuples: tuples.add_query("b", []), ValueError, "expected different sources for query 'b', were"),
        (lambda tuples: tuples.add_query("b", ["x", "x"]), ValueError, "expected different sources"),
        (lambda tuples: tuples.remove_query("b"), UnknownQueryError, "expected a query that was added, was 'b'"),
        (lambda tuples: tuples.get("b"), UnknownQueryError, "expected a query that was added"),
        (lambda tuples: tuples.has_next("b"), UnknownQueryError, "expected a query that was added"),
        (lambda tuples: tuples.done("a"), UnknownQueryError, "expected a query that is running, was 'a'"),
    ],
    ids=["twice", "no-source", "same-source", "remove", "get", "has-next", "done"],
)
def test_what_cannot_be_is_refused(
    case: type, call: Callable[[TupleQueues[int]], object], error: type[Exception], says: str
) -> None:
    tuples = queues(case)
    tuples.add_query("a", ["x"])
    with pytest.raises(error, match=says):
        call(tuples)
    tuples._check()
