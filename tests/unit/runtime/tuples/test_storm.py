"""Many threads at once: nothing is lost, nothing twice, nothing out of order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.tuples import OverrunError, OwnQueues, SharedQueue, TupleQueue

PATIENCE_S = 60.0
READERS, RUNNERS, ITEMS = 3, 4, 600


@pytest.fixture(params=(OwnQueues, SharedQueue), ids=lambda case: case.__name__)
def case(request: pytest.FixtureRequest) -> type:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _quick_switches() -> Iterator[None]:
    """Threads take turns so often that a lock too few is seen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def all_of(targets: Sequence[Callable[[], None]]) -> None:
    """Run all at once, to their ends."""
    pool = ThreadPoolExecutor(len(targets))
    try:
        for future in [pool.submit(target) for target in targets]:
            future.result(PATIENCE_S)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def one(_item: int) -> int:
    """The size of an item, and a call in the middle of what must be atomic: threads take turns at calls."""
    return 1


def test_what_an_overrun_query_gets_and_misses_is_all_there_is(case: type) -> None:
    queue: TupleQueue[int] = case(8, at_limit="overrun", size=one)
    names = [f"q{number}" for number in range(RUNNERS)]
    seen: dict[str, list[int]] = {name: [] for name in names}
    missed = dict.fromkeys(names, 0)
    for name in names:
        queue.join(name)
    added = threading.Event()

    def add() -> None:
        for item in range(READERS * ITEMS):
            queue.add(item)
        added.set()

    def take(name: str) -> None:
        while True:
            was_last = added.is_set()
            try:
                seen[name] += queue.get_all(name, 3)
            except OverrunError as error:
                missed[name] += error.missed
            if was_last and queue.is_empty(name):
                return

    all_of([add, *(lambda n=name: take(n) for name in names)])
    for name in names:
        assert len(seen[name]) + missed[name] == READERS * ITEMS
        assert seen[name] == sorted(set(seen[name]))
    queue._check()  # type: ignore[attr-defined]


def test_joining_and_leaving_meanwhile_harms_nobody(case: type) -> None:
    queue: TupleQueue[int] = case(10_000, at_limit="refuse", size=one)
    queue.join("stays")
    visits: list[list[int]] = []
    added = threading.Event()

    def add() -> None:
        for item in range(READERS * ITEMS):
            queue.add(item)
        added.set()

    def visit(name: str) -> None:
        while not added.is_set():
            queue.join(name)
            visits.append(queue.get_all(name) + queue.get_all(name))
            queue.leave(name)

    all_of([add, *(lambda n=number: visit(f"v{n}") for number in range(RUNNERS))])
    assert queue.get_all("stays") == list(range(READERS * ITEMS))
    assert all(visit == list(range(visit[0], visit[-1] + 1)) for visit in visits if visit)
    assert queue.queries == ("stays",)
    queue._check()  # type: ignore[attr-defined]
    assert queue.kept() == 0
