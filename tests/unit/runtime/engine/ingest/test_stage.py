"""How tasks take what waits for a formatter: many small buffers at once, early ones again, a task for each worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from runtime.engine import EngineError
from runtime.engine.ingest import FormatStage
from runtime.engine.ingest._queue import TaskQueue
from runtime.formats import (
    COALESCE_BYTES,
    FEED_SCHEMA,
    CodecError,
    Formatted,
    FormattedBatch,
    InputFormatter,
    RawBuffer,
    SequenceGapError,
)


class Recording(InputFormatter):
    """Writes down what it is given; buffers beyond a number are out of range until that one was there."""

    def __init__(self, most: int = 1 << 60) -> None:
        super().__init__(FEED_SCHEMA)
        self.calls: list[list[int]] = []
        self.most = most
        self.error: Exception | None = None

    def format(self, raws: Sequence[RawBuffer], on_admitted: Callable[[], None] | None = None) -> Formatted:
        del on_admitted
        if self.error is not None:
            raise self.error
        numbers = sorted(raw.sequence_number for raw in raws)
        self.calls.append(numbers)
        again = [raw for raw in raws if raw.sequence_number > self.most]
        if self.most in numbers:
            self.most = 1 << 60
        return Formatted([], again)

    def finish(self, origin_id: int) -> list[FormattedBatch]:
        raise SequenceGapError(f"{origin_id} is short")


class Tasks:
    """A stage whose tasks are run by hand."""

    def __init__(self, workers: int = 2, most: int = 1 << 60, *, takes_turns: bool = False) -> None:
        self.queue = TaskQueue()
        self.formatter = Recording(most)
        self.done: list[int] = []
        self.stage = FormatStage(
            self.formatter, self.queue, workers, self._accept, lambda n: f"named-{n}", takes_turns=takes_turns
        )

    def _accept(self, batches: list[FormattedBatch], raws: list[RawBuffer]) -> None:
        assert not batches
        self.done += [raw.sequence_number for raw in raws]

    def add(self, *numbers: int, size: int = 1) -> None:
        for number in numbers:
            self.stage.add(RawBuffer(0, number, bytes(size), 0))

    def run(self) -> None:
        task = self.queue.take()
        assert task is not None
        task()


def test_what_comes_while_workers_are_busy_is_one_task() -> None:
    tasks = Tasks()
    tasks.add(1, 2, 3, 4, 5)
    assert len(tasks.queue) == 1
    tasks.run()
    assert tasks.formatter.calls == [[1, 2, 3, 4, 5]]
    assert (len(tasks.queue), len(tasks.stage), sorted(tasks.done)) == (0, 0, [1, 2, 3, 4, 5])
    tasks.add(6)
    tasks.run()
    assert tasks.formatter.calls[1:] == [[6]]


def test_a_task_takes_about_a_mebibyte_and_there_are_tasks_for_the_rest() -> None:
    tasks = Tasks(workers=2)
    tasks.add(*range(1, 41), size=COALESCE_BYTES // 8)
    assert len(tasks.queue) == 2, "one for each worker, whatever waits"
    while len(tasks.queue):
        tasks.run()
    assert [len(call) for call in tasks.formatter.calls] == [8] * 5
    assert sorted(tasks.done) == list(range(1, 41))


def test_one_worker_decodes_at_a_time_and_the_next_one_while_it_parses() -> None:
    """Of a stream that is compressed as a whole; tasks take less, since the bytes become more."""
    tasks = Tasks(takes_turns=True)
    seen: list[tuple[int, int]] = []

    def format_(raws: Sequence[RawBuffer], on_admitted: Callable[[], None] | None = None) -> Formatted:
        assert on_admitted is not None
        before = len(tasks.queue)
        tasks.add(raws[-1].sequence_number + 100)
        assert len(tasks.queue) == before, "not while this one has the turn"
        on_admitted()
        seen.append((len(raws), len(tasks.queue)))
        return Formatted([], [])

    tasks.formatter.format = format_  # type: ignore[method-assign]
    tasks.add(*range(1, 7), size=COALESCE_BYTES // 8)
    assert len(tasks.queue) == 1
    for _ in range(4):
        tasks.run()
    assert seen[:3] == [(2, 1)] * 3
    assert sorted(tasks.done)[:6] == [1, 2, 3, 4, 5, 6]


def test_buffers_out_of_range_are_repeated_once_others_were_formatted() -> None:
    tasks = Tasks(workers=1, most=2)
    tasks.add(3, 4)
    tasks.run()
    assert (tasks.done, tasks.stage.repeats(0), len(tasks.stage)) == ([], 2, 2)
    tasks.add(1)
    tasks.run()
    assert sorted(tasks.formatter.calls[1]) == [1, 3, 4]
    tasks.add(2)
    while len(tasks.queue):
        tasks.run()
    assert sorted(tasks.done) == [1, 2, 3, 4]
    assert len(tasks.stage) == 0


def test_buffers_out_of_range_wait_while_another_worker_may_bring_the_range_on() -> None:
    """Else a worker would do nothing but repeat them."""
    tasks = Tasks(workers=2, most=1)
    first_is_running = tasks.formatter.format

    def while_running(raws: Sequence[RawBuffer], on_admitted: Callable[[], None] | None = None) -> Formatted:
        del on_admitted
        if [raw.sequence_number for raw in raws] == [1]:
            tasks.add(2, 3)
            tasks.run()
            assert len(tasks.queue) == 0, "kept aside"
            assert len(tasks.stage) == 2
        return first_is_running(raws)

    tasks.formatter.format = while_running  # type: ignore[method-assign]
    tasks.add(1)
    tasks.run()
    tasks.run()
    assert sorted(tasks.done) == [1, 2, 3]


def test_errors_of_a_formatter_name_the_origin() -> None:
    tasks = Tasks()
    tasks.formatter.error = CodecError("no frame")
    tasks.add(1)
    with pytest.raises(EngineError, match=r"^origin named-0: no frame$"):
        tasks.run()
    with pytest.raises(EngineError, match=r"^origin named-7: 7 is short$"):
        tasks.stage.finish(7)
