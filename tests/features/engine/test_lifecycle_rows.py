"""Rows 7 to 12 of docs/features/engine.md: how queries begin and end."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from runtime.engine.errors import EngineError, PlanError
from runtime.engine.listeners import PipelineStarted, PipelineStopped, QueryStatus
from runtime.engine.plan import Plan
from runtime.engine.queue import Task
from runtime.engine.tasks import StartQueryTask
from tests.harness import ControlledPipeline, ControlledSource, Harness, QueryBuilder
from tests.harness.watch import ThreadedWatch

FULL_LIFE = [QueryStatus.REGISTERED, QueryStatus.RUNNING, QueryStatus.STOPPED]


def joined(harness: Harness) -> QueryBuilder:
    """left → left pipeline ┐
    right → right pipeline ─┴→ join → sink, and right → right sink."""
    query = harness.query()
    left, right = query.source("left"), query.source("right")
    left_pipeline = query.pipeline("left pipeline", [left])
    right_pipeline = query.pipeline("right pipeline", [right])
    query.sink("right sink", [right])
    join = query.pipeline("join", [(left_pipeline, 0), (right_pipeline, 1)])
    query.sink("sink", [join])
    return query


def test_row_07_sources_open_after_all_pipelines_started() -> None:
    with Harness(workers=4) as harness:
        query = joined(harness)
        slow = query.pipelines["join"]
        slow.start_gate.shut()
        harness.start(query)
        others = [pipeline for pipeline in query.pipelines.values() if pipeline is not slow]
        harness.until(lambda: slow.start_gate.is_reached and all(pipeline.starts for pipeline in others))
        assert not any(source.opens for source in query.sources.values())
        assert harness.status.of("query") == [QueryStatus.REGISTERED]
        slow.start_gate.open()
        harness.until(lambda: harness.status.of("query") == FULL_LIFE[:2])
        assert all(source.is_open for source in query.sources.values())


@pytest.mark.parametrize("seed", range(20))
def test_row_07_nothing_opens_first_in_any_order(seed: int) -> None:
    with Harness(seed=seed, workers=3) as harness:
        query = joined(harness)
        harness.start(query)
        harness.until(lambda: any(source.opens for source in query.sources.values()))
        assert all(pipeline.starts for pipeline in query.pipelines.values())


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_row_08_everything_received_reaches_the_sinks(seed: int | None) -> None:
    with Harness(seed=seed, workers=3, has_statistics=True) as harness:
        query = harness.query()
        source = query.source()
        first = query.pipeline("first", [source], concurrency=2, most_inputs=3)
        second = query.own("second", ControlledPipeline("second", harness.watch).hold_until_barrier(), [first])
        query.sink("sink", [second])
        harness.run(query)
        query.sources["source"].inject(*range(500))
        query.sources["source"].inject_end()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        received = query.pipelines["sink"].received
        assert sorted(received) == list(range(500))  # type: ignore[type-var]
        assert harness.statistics is not None
        stopped = [event.node for event in harness.statistics.of(PipelineStopped)]
        assert stopped == ["first", "second", "sink"]
        assert query.pipelines["second"].events[-2:] == ["end 0", "stop"]
        assert query.sources["source"].closes == 1


def test_row_08_a_slow_pipeline_gets_everything() -> None:
    """The stop is parked at the node, and no worker looks again and again."""
    with Harness(workers=2) as harness:
        query = harness.chain()
        sink = query.pipelines["sink"]
        sink.gate.shut()
        harness.run(query)
        query.sources["source"].inject(*range(50))
        query.sources["source"].inject_end()
        harness.until(lambda: query.sources["source"].closes and sink.gate.is_reached)
        assert not sink.stops
        sink.gate.open()
        harness.until_ended()
        assert sink.received == list(range(50))


def test_row_08_a_parked_stop_costs_no_steps() -> None:
    with Harness(seed=8) as harness:
        query = harness.chain()
        harness.run(query)
        pipeline = query.pipelines["pipeline 1"]
        pipeline.on_execute = lambda inputs, context: context.repeat(inputs, after_s=5.0)
        query.sources["source"].inject(1)
        query.sources["source"].inject_end()
        assert harness.stepper is not None
        harness.stepper.run()
        steps = harness.stepper.steps
        assert not pipeline.stops
        assert harness.stepper.run() == 0
        assert harness.stepper.steps == steps


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_row_09_what_other_sources_feed_goes_on(seed: int | None) -> None:
    with Harness(seed=seed) as harness:
        query = harness.run(joined(harness))
        query.sources["left"].inject(1, 2, 3)
        query.sources["left"].inject_end()
        pipelines = query.pipelines
        harness.until(lambda: pipelines["left pipeline"].stops and pipelines["join"].ended_ports)
        assert pipelines["join"].ended_ports == [0]
        assert query.sources["left"].closes == 1
        query.sources["right"].inject(4, 5)
        harness.until(lambda: len(pipelines["sink"].received) == 5)
        assert not any(pipelines[name].stops for name in ("right pipeline", "right sink", "join", "sink"))
        assert harness.status.of("query") == FULL_LIFE[:2]
        query.sources["right"].inject_end()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert pipelines["join"].ended_ports == [0, 1]
        assert pipelines["right sink"].received == [4, 5]


@pytest.mark.parametrize("seed", [None, *range(10)])
def test_row_10_a_system_stop_while_it_runs(seed: int | None) -> None:
    """What a pipeline has begun goes all the way; pipelines stop in order; the end of input is not told."""
    with Harness(seed=seed) as harness:
        query = harness.query()
        held = ControlledPipeline("held", harness.watch).hold_until_barrier()
        node = query.own("held", held, [query.source()])
        query.sink("sink", [node])
        harness.run(query)
        query.sources["source"].inject(1, 2, 3)
        harness.until(lambda: len(held.received) == 3)
        harness.stop()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert query.pipelines["sink"].received == [1, 2, 3]
        assert not held.ended_ports
        assert query.sources["source"].closes == 1


def test_row_10_a_system_stop_while_it_starts() -> None:
    with Harness() as harness:
        query = harness.chain()
        query.pipelines["sink"].start_gate.shut()
        harness.start(query)
        harness.until(lambda: query.pipelines["sink"].start_gate.is_reached)
        harness.stop()
        harness.stop("unknown")
        harness.until(lambda: harness.status.ignored)  # the worker that is free has dealt with both
        setup = harness.engine._queries["query"]._setup
        assert setup is not None
        assert setup._callback.call is None, "what would open the sources does not come any more"
        query.pipelines["sink"].start_gate.open()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert harness.status.of("query") == [QueryStatus.REGISTERED, QueryStatus.STOPPED]
        assert not query.sources["source"].opens
        assert all(pipeline.starts == pipeline.stops for pipeline in query.pipelines.values())


@pytest.mark.parametrize("seed", range(50))
def test_row_10_a_system_stop_at_any_step_of_the_start(seed: int) -> None:
    with Harness(seed=seed, workers=3) as harness:
        query = joined(harness)
        harness.start(query)
        assert harness.stepper is not None
        harness.stepper.run(seed)
        harness.stop()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        harness.stepper.run()
        for source in query.sources.values():
            assert source.closes == source.opens
        for pipeline in query.pipelines.values():
            assert pipeline.starts == pipeline.stops
            assert not pipeline.discards


def test_row_10_a_system_stop_while_a_source_is_slow_to_open() -> None:
    with Harness(workers=2) as harness:
        query = harness.query()
        slow = query.source("slow")
        late = query.source("late")
        query.sink("sink", [slow, late])
        source = query.sources["slow"]
        source.open_gate.shut()
        harness.start(query)
        harness.until(lambda: source.open_gate.is_reached)
        harness.stop()
        harness.stop("unknown")
        harness.until(lambda: harness.status.ignored)
        assert not source.closes, "it is not closed before it has been opened"
        source.open_gate.open()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert QueryStatus.RUNNING not in harness.status.of("query")
        assert (source.opens, source.closes) == (1, 1)
        assert (query.sources["late"].opens, query.sources["late"].closes) == (0, 0)


def test_row_10_a_system_stop_while_a_source_is_slow_to_close() -> None:
    with Harness(workers=2) as harness:
        query = harness.run(harness.chain())
        other = harness.run(harness.chain("other"))
        source = query.sources["source"]
        source.close_gate.shut()
        harness.stop()
        harness.until(lambda: source.close_gate.is_reached)
        harness.stop()
        harness.until(lambda: harness.status.ignored)
        other.sources["source"].inject(1)
        harness.until(lambda: other.pipelines["sink"].received)
        assert not harness.status.has_ended("query")
        source.close_gate.open()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert source.closes == 1


def test_row_10_a_system_stop_waits_for_a_slow_close() -> None:
    """Both want it closed: one of them does it."""
    with Harness(workers=2) as harness:
        query = harness.run(harness.chain())
        source = query.sources["source"]
        source.close_gate.shut()
        source.inject_end()
        harness.until(lambda: source.close_gate.is_reached)
        harness.stop()
        harness.stop("unknown")
        harness.until(lambda: harness.status.ignored)
        source.close_gate.open()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert source.closes == 1


def test_row_10_second_and_unknown_stops_change_nothing() -> None:
    with Harness(seed=10) as harness:
        query = harness.run(harness.chain())
        harness.stop()
        harness.stop()
        harness.stop("unknown")
        assert harness.until_ended() == [QueryStatus.STOPPED]
        harness.until(lambda: len(harness.status.ignored) == 2)
        assert harness.status.of("query") == FULL_LIFE
        assert ("unknown", "stop", "no query has this id") in harness.status.ignored
        assert query.sources["source"].closes == 1


def test_row_10_a_source_is_never_closed_by_its_own_thread() -> None:
    """Not even if it ends or fails within `open`, or while a worker has it resume."""
    with Harness(workers=1, admitted=1) as harness:
        query = harness.chain()
        source = query.sources["source"]
        source.inject(*range(100))
        source.inject_end()
        harness.start(query)
        harness.until_ended()
        assert source.closes == 1
        assert threading.get_ident() not in source.threads
        assert query.pipelines["sink"].received == list(range(100))


def test_row_11_a_start_of_an_id_that_runs_changes_nothing() -> None:
    with Harness(seed=11) as harness:
        first, second = harness.chain(), harness.chain()
        harness.run(first)
        harness.start(second)
        harness.until(lambda: harness.status.ignored)
        assert harness.status.ignored == [("query", "start", "a query with this id has not ended")]
        assert harness.status.of("query") == FULL_LIFE[:2]
        assert not second.sources["source"].opens
        first.sources["source"].inject_end()
        harness.until_ended()
        assert harness.status.of("query") == FULL_LIFE
        harness.run(harness.chain())


def test_row_11_a_plan_that_cannot_be_carried_out_is_refused() -> None:
    with Harness(seed=11) as harness:
        with pytest.raises(PlanError, match="a source in plan empty"):
            harness.engine.start(Plan("empty"))
        query = harness.query()
        source = query.source()
        with pytest.raises(PlanError, match="pipeline after source source"):
            harness.start(query)
        with pytest.raises(PlanError, match="source twice"):
            query.sink("source", [source])
        with pytest.raises(PlanError, match="input of sink"):
            query.sink("sink", [])
        with pytest.raises(PlanError, match="in plan query, was source"):
            query.sink("sink", [harness.query("other").source()])


@pytest.mark.parametrize("at", ["started", "running", "full", "ended"])
def test_row_12_the_engine_is_shut_down_while_queries_run(at: str) -> None:
    harness = Harness(workers=2)
    queries = [harness.chain(f"query {n}", pipelines=3) for n in range(10)]
    for query in queries:
        (harness.start if at == "started" else harness.run)(query)
        if at == "full":
            query.sources["source"].inject(*range(1000))
        elif at == "ended":
            query.sources["source"].inject_end()
    harness.shutdown()
    for query in queries:
        assert harness.status.has_ended(query.query_id)
        assert query.sources["source"].opens == query.sources["source"].closes
        assert not any(pipeline.is_running for pipeline in query.pipelines.values())
    harness.engine.shutdown(1.0)
    harness.start(harness.chain("late"))
    assert ("late", "start", "the engine is shut down") in harness.status.ignored


def test_row_12_a_query_started_in_a_shutdown_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shutdown comes right before the start's task is in the queue, if nothing keeps it from coming then."""
    harness = Harness(seed=12)
    put = harness.engine.queue.put

    def shut_down_before(task: Task) -> None:
        if isinstance(task, StartQueryTask) and not harness.engine._lock.locked():
            harness.engine.shutdown(1.0)
        put(task)

    monkeypatch.setattr(harness.engine.queue, "put", shut_down_before)
    harness.start(harness.chain())
    harness.shutdown()
    assert harness.engine.counters("query") is None
    assert harness.status.has_ended("query")


def test_row_12_a_worker_that_does_not_return_is_reported() -> None:
    harness = Harness(workers=1)
    query = harness.chain()
    gate = query.pipelines["sink"].gate
    gate.shut()
    harness.run(query)
    query.sources["source"].inject(1)
    harness.until(lambda: gate.is_reached)
    with pytest.raises(EngineError, match="expected the workers to end within"):
        harness.engine.shutdown(0.0)
    gate.open()


@pytest.mark.parametrize("end", ["stream", "stop", "failure"])
def test_row_12_nothing_is_left_to_the_garbage_collector(end: str) -> None:
    """When a query has ended, all that it was made of is gone at once."""
    gc.disable()
    try:
        with Harness(seed=12, has_statistics=True) as harness:
            query = harness.run(joined(harness))
            left: list[weakref.ref[object]] = [weakref.ref(harness.engine._queries["query"])]
            left += [weakref.ref(each) for each in harness.engine._queries["query"]._nodes]
            left += [weakref.ref(each) for each in harness.engine._queries["query"]._sources]
            left += [weakref.ref(each) for each in [*query.sources.values(), *query.pipelines.values()]]
            query.sources["left"].inject(1, 2, 3)
            harness.barrier()
            if end == "stream":
                query.sources["left"].inject_end()
                query.sources["right"].inject_end()
            elif end == "stop":
                harness.stop()
            else:
                query.sources["left"].inject_error("failed")
            harness.until_ended()
            assert harness.stepper is not None
            harness.stepper.run()
            del query
            assert [type(ref()) for ref in left if ref() is not None] == []
    finally:
        gc.enable()


def test_row_12_the_controls_themselves_wait_for_conditions() -> None:
    """What the harness says about what does not come: an error, and not a test that hangs."""
    source = ControlledSource("source", ThreadedWatch(0.0))
    with pytest.raises(AssertionError, match="to be open within"):
        ThreadedWatch(0.0).until(lambda: source.is_open, "the source to be open")


def test_row_07_pipelines_are_started_once_each() -> None:
    with Harness(seed=7, has_statistics=True) as harness:
        harness.run(joined(harness))
        assert harness.statistics is not None
        started = sorted(event.node for event in harness.statistics.of(PipelineStarted))
        assert started == ["join", "left pipeline", "right pipeline", "right sink", "sink"]
