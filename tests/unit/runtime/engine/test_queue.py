"""The queue: internal tasks first, nothing lost and nothing done twice."""

from __future__ import annotations

import threading
from collections import Counter

from runtime.engine import TaskQueue, Workers

WAIT_SECONDS = 30.0


def nothing() -> None:
    """A task."""


def test_internal_tasks_come_first() -> None:
    queue = TaskQueue()
    done: list[str] = []
    for name in ("a", "b"):
        queue.admit(lambda name=name: done.append(name))  # type: ignore[misc]
    for name in ("x", "y"):
        queue.put(lambda name=name: done.append(name))  # type: ignore[misc]
    assert len(queue) == 4
    for _ in range(4):
        task = queue.take()
        assert task is not None
        task()
    assert done == ["x", "y", "a", "b"]


def test_a_task_handed_on_is_never_lost() -> None:
    """No worker is woken for one task alone: the worker that hands it on takes it."""
    queue, lock = TaskQueue(), threading.Lock()
    ran: list[tuple[str, int]] = []
    done = threading.Semaphore(0)

    def run(name: str) -> None:
        with lock:
            ran.append((name, threading.get_ident()))
        done.release()

    def begin() -> None:
        run("first")
        queue.hand_on(lambda: run("second"))

    workers = Workers(queue, 2, lambda error: None)
    workers.start()
    for number in range(1, 101):
        queue.put(begin)
        for _ in range(2):
            assert done.acquire(timeout=WAIT_SECONDS)
        assert len(ran) == 2 * number

    def begin_two() -> None:
        for _ in range(2):
            queue.hand_on(lambda: run("both"))

    queue.put(begin_two)
    for _ in range(2):
        assert done.acquire(timeout=WAIT_SECONDS)
    queue.close()
    assert workers.join(WAIT_SECONDS)


def test_closing_wakes_everyone_and_drops_the_rest() -> None:
    queue = TaskQueue()
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
    queue.admit(nothing)
    assert queue.take() is None
    assert len(queue) == 0


def test_none_is_lost_and_none_is_done_twice() -> None:
    """8 producers of 10,000 tasks, half of them internal, 2 workers."""
    producers, each = 8, 10_000
    done: list[list[int]] = [[] for _ in range(producers)]
    left = threading.Semaphore(0)
    queue = TaskQueue()

    def work(producer: int, n: int) -> None:
        done[producer].append(n)
        left.release()

    def produce(producer: int) -> None:
        add = queue.put if producer % 2 else queue.admit
        for n in range(each):
            add(lambda n=n: work(producer, n))  # type: ignore[misc]

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
    for numbers in done:
        assert Counter(numbers) == Counter(range(each))


def test_a_task_that_raises_ends_nothing_but_itself() -> None:
    queue = TaskQueue()
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
