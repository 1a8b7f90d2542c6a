"""Rows 1 to 6 of docs/features/engine.md: queues, their bounds, and callbacks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from runtime.engine.barriers import BarrierOutcome
from runtime.engine.lifetime import callback
from runtime.engine.listeners import QueryStatus
from runtime.engine.plan import Context, Emitter, Pipeline, Source
from runtime.engine.queue import TaskQueue
from runtime.engine.tasks import EngineTask, TaskCallbacks
from tests.harness import WAIT_S, Broken, Harness, ManualClock


class PuttingSource(Source):
    """Has a thread of its own, which puts so many numbers and waits while there is no room."""

    def __init__(self, first: int, count: int) -> None:
        self.numbers = range(first, first + count)
        self.put: list[int] = []
        self.result = True
        self._thread: threading.Thread | None = None

    def open(self, emit: Emitter) -> None:
        """See `Source`."""
        self._thread = threading.Thread(target=self._run, args=(emit,))
        self._thread.start()

    def _run(self, emit: Emitter) -> None:
        for number in self.numbers:
            self.result = emit.put(number)
            if not self.result:
                return
            self.put.append(number)
        emit.end_of_stream()

    def close(self) -> None:
        """See `Source`."""
        assert self._thread is not None
        assert self._thread is not threading.current_thread()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "expected a stop to wake the source"


class Counting(Pipeline):
    """Counts what it gets, in parallel."""

    concurrency = 2
    most_inputs = 32

    def __init__(self) -> None:
        self.seen: list[object] = []

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        self.seen += inputs


def test_row_01_a_worker_never_waits_when_it_emits() -> None:
    """One worker, room for one input: a pipeline emits a thousand items in a call, and the same worker takes them."""
    with Harness(workers=1, admitted=1, in_flight=1) as harness:
        query = harness.chain()
        query.pipelines["pipeline 1"].on_execute = lambda inputs, context: [
            context.emit((each, n)) for each in inputs for n in range(1000)
        ].clear()
        harness.run(query)
        query.sources["source"].inject(1, 2, 3)
        query.sources["source"].inject_end()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert len(query.pipelines["sink"].received) == 3000


def test_row_01_a_source_waits_while_the_queue_is_full() -> None:
    with Harness(workers=1, admitted=10) as harness:
        query = harness.query()
        source = PuttingSource(0, 1000)
        node = query.plan.add_source("putting", source)
        query.sink("sink", [node])
        sink = query.pipelines["sink"]
        sink.gate.shut()
        harness.run(query)
        harness.until(lambda: sink.gate.is_reached)
        assert harness.engine.admission.inputs <= 10
        assert len(source.put) <= 10
        sink.gate.open()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert sink.received == list(range(1000))


@pytest.mark.parametrize("by", ["stop", "shutdown", "failure"])
def test_row_01_a_stop_wakes_a_source_that_waits(by: str) -> None:
    harness = Harness(workers=2, admitted=1, in_flight=1)
    query = harness.query()
    source = PuttingSource(0, 1_000_000)
    node = query.plan.add_source("putting", source)
    query.source("other")
    query.sink("sink", [node, query.plan.nodes[1]])
    query.pipelines["sink"].gate.shut()
    harness.run(query)
    harness.until(lambda: query.pipelines["sink"].gate.is_reached)
    if by == "stop":
        harness.stop()
        harness.until(lambda: query.sources["other"].closes)
    elif by == "failure":
        query.sources["other"].inject_error("failed")
        harness.until(lambda: query.sources["other"].closes)
    query.pipelines["sink"].gate.open()
    if by != "shutdown":
        harness.until_ended()
    harness.shutdown()
    assert source.result is False
    assert harness.status.of("query")[-1] is (QueryStatus.FAILED if by == "failure" else QueryStatus.STOPPED)


def test_row_02_internal_tasks_come_first() -> None:
    """What came of an input is executed before the next input is looked at, with one worker and all inputs there."""
    with Harness(workers=1) as harness:
        query = harness.chain(pipelines=2)
        order: list[str] = []
        for name, pipeline in query.pipelines.items():

            def on_execute(inputs: Sequence[object], context: Context, name: str = name) -> None:
                order.extend(f"{name} {each}" for each in inputs)
                for each in inputs:
                    context.emit(each)

            pipeline.on_execute = on_execute
        first = query.pipelines["pipeline 1"]
        first.gate.shut()
        harness.run(query)
        query.sources["source"].inject(1, 2, 3)
        harness.until(lambda: first.gate.is_reached)
        first.gate.open()
        query.sources["source"].inject_end()
        harness.until_ended()
        assert order == [f"{name} {n}" for n in (1, 2, 3) for name in ("pipeline 1", "pipeline 2", "sink")]


def test_row_02_the_queue_gives_internal_tasks_first() -> None:
    queue = TaskQueue()
    tasks = [lambda n=n: n for n in range(4)]
    for number, task in enumerate(tasks):
        (queue.put if number % 2 else queue.admit)(task)
    assert [queue.take() for _ in tasks] == [tasks[1], tasks[3], tasks[0], tasks[2]]


@pytest.mark.parametrize("stuck", ["first", "last"])
def test_row_03_a_source_has_so_many_inputs_in_flight(stuck: str) -> None:
    """Wherever they wait: an input counts until everything that it led to has been executed."""
    with Harness(workers=3) as harness:
        query = harness.chain(pipelines=2)
        other = harness.chain("other")
        gate = query.pipelines["pipeline 1" if stuck == "first" else "sink"].gate
        gate.shut()
        harness.run(query)
        harness.run(other)
        source = query.sources["source"]
        source.inject(*range(1000))
        harness.until(lambda: gate.is_reached)
        assert len(source.taken) == 64
        other.sources["source"].inject(*range(64))
        harness.until(lambda: len(other.pipelines["sink"].received) == 64)
        assert len(source.taken) == 64, "another source is not held back, and makes no room"
        gate.open()
        harness.until(lambda: len(query.pipelines["sink"].received) == 1000)
        assert source.taken == list(range(1000))


def test_row_04_none_is_lost_and_none_is_done_twice() -> None:
    """8 sources of 10,000 inputs on threads of their own, 2 workers, room for 100."""
    with Harness(workers=2, admitted=100) as harness:
        query = harness.query()
        sources = [PuttingSource(10_000 * n, 10_000) for n in range(8)]
        nodes = [query.plan.add_source(f"source {n}", source) for n, source in enumerate(sources)]
        sink = Counting()
        query.own("sink", sink, nodes)
        harness.run(query)
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert Counter(sink.seen) == Counter(range(80_000))


def test_row_05_delayed_tasks_come_at_their_deadlines_in_order() -> None:
    clock = ManualClock()
    queue = TaskQueue(clock)
    ran: list[str] = []
    for name, deadline_s in (("c", 3.0), ("a", 1.0), ("b 1", 2.0), ("b 2", 2.0), ("d", 4.0)):
        queue.put_at(lambda name=name: ran.append(name), deadline_s)  # type: ignore[misc]
    queue.admit(lambda: ran.append("admitted"))

    def run() -> None:
        while (task := queue.take_now()) is not None:
            task()

    run()
    assert ran == ["admitted"]
    assert queue.next_deadline_s == 1.0
    clock.advance(0.99)
    run()
    assert ran == ["admitted"]
    clock.advance(2.01)
    queue.admit(lambda: ran.append("admitted again"))
    run()
    assert ran == ["admitted", "a", "b 1", "b 2", "c", "admitted again"]
    clock.advance(1.0)
    run()
    assert ran[-1] == "d"


def test_row_05_workers_wake_for_a_deadline() -> None:
    """Both when the clock is set and when the time has passed by itself."""
    clock = ManualClock()
    queue = TaskQueue(clock)
    clock.when_set(queue.wake)
    ran = threading.Event()
    queue.put_at(ran.set, 1000.0)
    thread = threading.Thread(target=lambda: [task() for task in iter(queue.take, None)])
    thread.start()
    clock.advance(1000.0)
    assert ran.wait(WAIT_S)
    queue.close()
    thread.join(WAIT_S)
    by_itself = TaskQueue()
    by_itself.put_at(ran.set, 0.0)
    assert by_itself.take() == ran.set


def test_row_05_inputs_come_again_after_a_delay() -> None:
    with Harness(seed=5) as harness:
        query = harness.chain()
        pipeline = query.pipelines["pipeline 1"]
        times: list[float] = []

        def twice(inputs: Sequence[object], context: Context) -> None:
            times.append(context.now_s())
            if len(times) == 1:
                context.repeat(inputs, after_s=2.0)
            else:
                for each in inputs:
                    context.emit(each)

        pipeline.on_execute = twice
        harness.run(query)
        query.sources["source"].inject("late")
        query.sources["source"].inject_end()
        assert harness.stepper is not None
        harness.stepper.run()
        assert times == [0.0]
        assert not query.pipelines["pipeline 1"].ended_ports, "the end waits for what comes again"
        harness.clock.advance(2.0)
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert times == [0.0, 2.0]
        assert query.pipelines["sink"].received == ["late"]


class OneTask(EngineTask):
    """Does what it is told."""

    def __init__(self, callbacks: TaskCallbacks, outcome: str) -> None:
        super().__init__(callbacks)
        self.outcome = outcome

    def run(self) -> bool:
        """See `EngineTask`."""
        if self.outcome == "failure":
            raise Broken("failed")
        return self.outcome == "success"


@pytest.mark.parametrize("outcome", ["success", "failure", "skipped"])
def test_row_06_callbacks_come_at_most_once(outcome: str) -> None:
    heard: list[str] = []
    callbacks = TaskCallbacks(
        lambda: heard.append("complete"),
        lambda: heard.append("success"),
        lambda error: heard.append(f"failure {error}"),
    )
    task = OneTask(callbacks, outcome)
    task()
    if outcome == "failure":
        with pytest.raises(Broken, match="failed"):
            task()  # nobody is left who would hear of it
    else:
        task()
    callbacks.succeeded()
    callbacks.failed(Broken("late"))
    callbacks.completed()
    first = {"success": ["success"], "failure": ["failure failed"], "skipped": []}[outcome]
    assert heard == [*first, "complete"]


def test_row_06_the_last_reference_makes_the_call_once() -> None:
    """1,000 rounds of four threads that release copies at the same time."""
    for _ in range(1000):
        calls: list[int] = []
        owner, first = callback(lambda: calls.append(1))  # noqa: B023
        references = [first.copy() for _ in range(4)]
        first.release()
        assert calls == []
        threads = [threading.Thread(target=reference.release) for reference in references]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert calls == [1]
        assert owner._callback.call is None


def test_row_06_a_future_is_settled_once() -> None:
    with Harness(seed=1) as harness:
        future = harness.engine.request_barrier("unknown")
        heard: list[object] = []
        future.when_done(lambda f: heard.append(f.outcome))
        future.settle(BarrierOutcome.REACHED, None)
        assert heard == [future.outcome] == [BarrierOutcome.NOT_RUNNING]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_row_02_a_waiting_pipeline_blocks_no_worker(concurrency: int) -> None:
    """It has inputs come again and again, with tasks of the engine's own, and what it waits for is admitted work."""
    with Harness(seed=2, workers=1) as harness:
        waiting, other = harness.query("waiting"), harness.chain("other")
        arrived: list[object] = []
        first = waiting.pipeline("first", [waiting.source()])
        waits = waiting.pipeline("waits", [first], concurrency=concurrency)
        waiting.sink("sink", [waits])

        def execute(inputs: Sequence[object], context: Context) -> None:
            if not other.pipelines["sink"].received:
                context.repeat(inputs)
            else:
                arrived.extend(inputs)

        waiting.pipelines["waits"].on_execute = execute
        harness.run(waiting)
        harness.run(other)
        waiting.sources["source"].inject(1)
        for _ in range(20):
            harness.stepper.step()  # type: ignore[union-attr]
        other.sources["source"].inject(2)
        for _ in range(500):
            harness.stepper.step()  # type: ignore[union-attr]
            harness.check()
        assert other.pipelines["sink"].received == [2]
        assert arrived == [1]
