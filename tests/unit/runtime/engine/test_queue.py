"""The queue: internal tasks first, sources refused while it is full, nothing lost and nothing done twice."""

from __future__ import annotations

import threading
from collections import Counter

from runtime.engine import TaskQueue, Workers

WAIT_SECONDS = 30.0


def nothing() -> None:
    """A task."""


def test_internal_tasks_come_first() -> None:
    queue = TaskQueue(4, nothing)
    done: list[str] = []
    for name in ("a", "b"):
        assert queue.offer(lambda name=name: done.append(name))  # type: ignore[misc]
    for name in ("x", "y"):
        queue.put(lambda name=name: done.append(name))  # type: ignore[misc]
    assert len(queue) == 4
    for _ in range(4):
        task = queue.take()
        assert task is not None
        task()
    assert done == ["x", "y", "a", "b"]


def test_a_full_queue_refuses_and_tells_once_when_there_is_room() -> None:
    told: list[int] = []
    queue = TaskQueue(2, lambda: told.append(len(queue)))
    assert [queue.offer(nothing) for _ in range(4)] == [True, True, False, False]
    queue.put(nothing)
    queue.take()
    assert told == [], "an internal task makes no room for a source"
    queue.take()
    assert told == [1]
    queue.take()
    assert told == [1]
    assert queue.offer(nothing)


def test_a_source_may_offer_from_within_the_call() -> None:
    queue = TaskQueue(1, lambda: offered.append(queue.offer(nothing)))
    offered: list[bool] = []
    assert [queue.offer(nothing), queue.offer(nothing)] == [True, False]
    queue.take()
    assert offered == [True]


def test_the_engine_is_never_refused() -> None:
    queue = TaskQueue(1, nothing)
    for _ in range(1000):
        queue.put(nothing)
    assert len(queue) == 1000


def test_closing_wakes_everyone_and_drops_the_rest() -> None:
    queue = TaskQueue(2, nothing)
    taken: list[object] = []
    threads = [threading.Thread(target=lambda: taken.append(queue.take())) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    assert taken == [None] * 3
    queue.put(nothing)
    assert not queue.offer(nothing)
    assert queue.take() is None
    assert len(queue) == 0


def test_none_is_lost_and_none_is_done_twice() -> None:
    """8 producers of 10,000 tasks, 2 workers, room for 100."""
    producers, each = 8, 10_000
    room = threading.Semaphore(0)
    waiting = threading.Lock()
    refused = 0
    done: list[list[int]] = [[] for _ in range(producers)]
    left = threading.Semaphore(0)
    most = 0

    def tell() -> None:
        room.release(producers)

    queue = TaskQueue(100, tell)

    def work(producer: int, n: int) -> None:
        nonlocal most
        done[producer].append(n)
        most = max(most, len(queue))
        left.release()

    def produce(producer: int) -> None:
        nonlocal refused
        for n in range(each):
            while not queue.offer(lambda n=n: work(producer, n)):  # type: ignore[misc]
                with waiting:
                    refused += 1
                assert room.acquire(timeout=WAIT_SECONDS)

    errors: list[BaseException] = []
    workers = Workers(queue, 2, errors.append)
    workers.start()
    threads = [threading.Thread(target=produce, args=(p,)) for p in range(producers)]
    for thread in threads:
        thread.start()
    for _ in range(producers * each):
        assert left.acquire(timeout=WAIT_SECONDS)
    for thread in threads:
        thread.join(WAIT_SECONDS)
    queue.close()
    assert workers.join(WAIT_SECONDS)
    assert not errors
    assert refused > 0
    assert most <= 100
    for numbers in done:
        assert Counter(numbers) == Counter(range(each))


def test_a_task_that_raises_ends_nothing_but_itself() -> None:
    queue = TaskQueue(4, nothing)
    errors: list[BaseException] = []
    done = threading.Event()

    def fail() -> None:
        raise ValueError("no")

    workers = Workers(queue, 1, errors.append)
    workers.start()
    queue.put(fail)
    queue.put(done.set)
    assert done.wait(WAIT_SECONDS)
    queue.close()
    assert workers.join(WAIT_SECONDS)
    assert [str(e) for e in errors] == ["no"]


def test_a_failure_to_tell_of_room_is_reported_and_the_worker_lives() -> None:
    def tell() -> None:
        raise ValueError("a source broke")

    queue = TaskQueue(1, tell)
    errors: list[BaseException] = []
    reported, done = threading.Event(), threading.Event()

    def report(error: BaseException) -> None:
        errors.append(error)
        reported.set()

    assert [queue.offer(nothing), queue.offer(nothing)] == [True, False]
    workers = Workers(queue, 1, report)
    workers.start()
    assert reported.wait(WAIT_SECONDS)
    queue.put(done.set)
    assert done.wait(WAIT_SECONDS)
    queue.close()
    assert workers.join(WAIT_SECONDS)
    assert [str(e) for e in errors] == ["a source broke"]
