"""Rows 17 and 18 of docs/features/engine.md: the status of a query, and the events and figures of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.listeners import (
    Event,
    PipelineStarted,
    QueryFailed,
    QueryStarted,
    QueryStatus,
    QueryStopped,
    QueryStopRequested,
    StatisticsListener,
    StatusListener,
    TaskCompleted,
    TaskEmitted,
    TaskExpired,
    TaskStarted,
)
from runtime.engine.plan import Context
from runtime.engine.statistics import Statistics
from tests.harness import Harness, ManualClock, QueryBuilder, SteppedWatch, Stepper

TEN_KINDS = {
    "TaskStarted", "TaskEmitted", "TaskCompleted", "TaskExpired", "PipelineStarted", "PipelineStopped",
    "QueryStarted", "QueryStopRequested", "QueryStopped", "QueryFailed",
}  # fmt: skip


def test_row_17_the_outside_sees_four_statuses() -> None:
    with Harness(seed=17) as harness:
        for name in ("ends", "stops", "fails"):
            harness.run(harness.chain(name)) if name != "fails" else None
        failing = harness.chain("fails")
        failing.sources["source"].fails_on_open = "here"
        harness.start(failing)
        harness.stop("stops")
        harness.until_ended("stops", "fails")
        registered, running, stopped, failed = QueryStatus
        assert harness.status.of("ends") == [registered, running]
        assert harness.status.of("stops") == [registered, running, stopped]
        assert harness.status.of("fails") == [registered, failed]
        assert harness.status.reasons["fails"] == "source source: Broken: here"


class Raising(StatusListener, StatisticsListener):
    """A listener that is broken."""

    def __init__(self) -> None:
        self.heard = 0

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """See `StatusListener`."""
        self.heard += 1
        raise ValueError(status)

    def on_ignored(self, query_id: str, request: str, reason: str) -> None:
        """See `StatusListener`."""
        self.heard += 1
        raise ValueError(request)

    def on_event(self, event: Event) -> None:
        """See `StatisticsListener`."""
        self.heard += 1
        raise ValueError(event)


def test_row_18_listeners_that_fail_do_not_hurt_the_engine() -> None:
    listener, stepper, clock = Raising(), Stepper(18), ManualClock()
    engine = QueryEngine(EngineConfig(), listener, listener, now_s=clock, workers=stepper)
    query = QueryBuilder("query", SteppedWatch(stepper, engine.check))
    query.sink("sink", [query.source()])
    engine.start(query.plan)
    engine.stop("unknown")
    stepper.run()
    query.sources["source"].inject(1, 2)
    query.sources["source"].inject_end()
    stepper.run()
    assert query.pipelines["sink"].received == [1, 2]
    assert query.pipelines["sink"].stops == 1
    assert engine.faults == 0
    assert listener.heard >= 10
    engine.shutdown(1.0)


def test_row_18_the_ten_events_say_what_happened() -> None:
    with Harness(seed=18, workers=1, has_statistics=True) as harness:
        statistics = harness.statistics
        assert statistics is not None
        query = harness.chain()
        query.pipelines["pipeline 1"].advance = lambda: harness.clock.advance(0.5)
        harness.run(query)
        query.sources["source"].inject("a", "b", size=7)
        harness.until(lambda: len(query.pipelines["sink"].received) == 2)
        assert [(e.node, e.inputs, e.size) for e in statistics.of(TaskStarted) if e.node != "sink"] == [
            ("pipeline 1", 1, 7)
        ] * 2
        assert [(e.node, e.duration_s, e.worker) for e in statistics.of(TaskCompleted)] == [
            ("pipeline 1", 0.5, 0), ("sink", 0.0, 0), ("pipeline 1", 0.5, 0), ("sink", 0.0, 0),
        ]  # fmt: skip
        assert [(e.node, e.items, e.size) for e in statistics.of(TaskEmitted) if e.node == "pipeline 1"] == [
            ("pipeline 1", 1, 1)
        ] * 2
        assert len(statistics.of(PipelineStarted)) == 2
        query.sources["source"].inject(*range(10))
        harness.stop()
        harness.until_ended()
        failing = harness.run(harness.chain("fails"))
        failing.sources["source"].inject_error("here")
        harness.until_ended("fails")
        assert set(statistics.counts()) == TEN_KINDS
        assert len(statistics.of(QueryStopRequested, "query")) == 1
        assert [type(event) for event in statistics.events if isinstance(event, QueryStopped | QueryFailed)] == [
            QueryStopped, QueryFailed,
        ]  # fmt: skip
        assert sum(event.inputs for event in statistics.of(TaskExpired, "query")) == 10


def test_row_18_the_events_answer_what_an_operator_asks() -> None:
    clock, stepper, statistics = ManualClock(100.0), Stepper(18), Statistics(window_s=4.0)
    engine = QueryEngine(EngineConfig(workers=1), StatusListener(), statistics, now_s=clock, workers=stepper)
    queries = [QueryBuilder(name, SteppedWatch(stepper, engine.check)) for name in ("fast", "slow")]
    for query in queries:
        node = query.pipeline("work", [query.source()], most_inputs=5)
        query.sink("sink", [node])
        pipeline = query.pipelines["work"]

        def tuples(inputs: Sequence[object], context: Context) -> None:
            for each in inputs:
                context.emit(each, size=100)

        pipeline.on_execute = tuples
        pipeline.advance = partial(clock.advance, 0.001 if query.query_id == "fast" else 0.25)
        engine.start(query.plan)
    stepper.run()
    for query in queries:
        query.sources["source"].inject(*range(5))
    stepper.run()
    figures = statistics.figures(clock())
    assert (figures.running, figures.started) == (2, 2)
    assert figures.tasks == 12
    assert figures.tasks_per_s == 12 / 4.0
    assert figures.tuples_per_s == figures.tuples / 4.0 == 1010 / 4.0
    assert figures.busiest is not None
    assert (figures.busiest.query_id, figures.busiest.node, figures.busiest.longest_s) == ("slow", "work", 0.25)
    clock.advance(5.0)
    assert statistics.figures(clock()).tasks_per_s == 0.0
    engine.stop("slow")
    queries[0].sources["source"].inject_error("here")
    stepper.run()
    figures = statistics.figures(clock())
    assert (figures.running, figures.stopped, figures.failed) == (0, 1, 1)
    assert figures.nodes == (), "what is kept of a query goes with it"
    engine.shutdown(1.0)


@pytest.mark.parametrize("count", [10, 2000])
def test_row_18_the_figures_are_bounded(count: int) -> None:
    statistics = Statistics(most_queries=100)
    for n in range(count):
        statistics.on_event(QueryStarted(f"query {n}", float(n)))
        statistics.on_event(TaskCompleted(f"query {n}", float(n), "node", 0, 1, 1, 0.1))
    assert len(statistics.figures(float(count)).nodes) == min(count, 100)
    for n in range(count):
        statistics.on_event(QueryStopped(f"query {n}", float(count)))
        statistics.on_event(TaskExpired(f"query {n}", float(count), "node", 1))
    figures = statistics.figures(float(count))
    assert (figures.nodes, figures.running, figures.tasks, figures.expired) == ((), 0, count, count)


def test_row_18_without_a_listener_no_event_is_made() -> None:
    with Harness(seed=18) as harness:
        publisher = harness.engine._publisher
        assert not publisher.has_statistics
        made: list[Event] = []
        publisher.event = made.append  # type: ignore[method-assign, assignment]
        query = harness.run(harness.chain())
        query.sources["source"].inject(*range(10))
        harness.until(lambda: len(query.pipelines["sink"].received) == 10)
        assert not [event for event in made if isinstance(event, TaskStarted | TaskCompleted | TaskEmitted)]


def test_row_18_starts_are_made_only_for_who_reads_them() -> None:
    clock, stepper, statistics = ManualClock(), Stepper(18), Statistics()
    engine = QueryEngine(EngineConfig(workers=1), StatusListener(), statistics, now_s=clock, workers=stepper)
    made: list[Event] = []
    publish = engine._publisher.event

    def noted(event: Event) -> None:
        made.append(event)
        publish(event)

    engine._publisher.event = noted  # type: ignore[method-assign]
    query = QueryBuilder("query", SteppedWatch(stepper, engine.check))
    query.sink("sink", [query.source()])
    engine.start(query.plan)
    stepper.run()
    query.sources["source"].inject(1, 2)
    stepper.run()
    kinds = {type(event) for event in made}
    assert TaskCompleted in kinds
    assert TaskStarted not in kinds
    assert statistics.figures(clock()).tasks == 2
    engine.shutdown(1.0)


def test_row_17_an_id_is_reused_after_its_end_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one is started, and workers have time for it, while the first is about to say that it has stopped."""
    harness = Harness(seed=17, checks=False)
    hear = harness.status.on_status
    second = harness.chain()

    def heard_late(query_id: str, status: QueryStatus, reason: str) -> None:
        if status is QueryStatus.STOPPED and not second.sources["source"].opens and harness.stepper is not None:
            harness.start(second)
            harness.stepper.run(50)
        hear(query_id, status, reason)

    monkeypatch.setattr(harness.status, "on_status", heard_late)
    harness.run(harness.chain())
    harness.stop()
    registered, running, stopped, _ = QueryStatus
    harness.until(lambda: harness.status.of("query").count(running) == 2)
    assert harness.status.of("query") == [registered, running, stopped, registered, running]
    monkeypatch.undo()
    harness.stop()
    harness.shutdown()
