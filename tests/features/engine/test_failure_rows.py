"""Rows 13 to 16 of docs/features/engine.md: what fails, and what that leaves alone."""

from __future__ import annotations

from collections import Counter

import pytest

from runtime.engine.barriers import BarrierOutcome
from runtime.engine.listeners import QueryStatus, TaskExpired
from tests.harness import Harness

FAILED = [QueryStatus.FAILED]
SEEDS = [None, *range(10)]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_13_a_source_fails_on_open(seed: int | None) -> None:
    """It is not closed; the sources that were opened before are, and those after it are never opened."""
    with Harness(seed=seed) as harness:
        query = harness.query()
        nodes = [query.source(name) for name in ("first", "second", "third")]
        query.sink("sink", nodes)
        query.sources["second"].fails_on_open = "no such place"
        harness.start(query)
        assert harness.until_ended() == FAILED
        assert harness.status.of("query") == [QueryStatus.REGISTERED, QueryStatus.FAILED]
        assert harness.status.reasons["query"] == "source second: Broken: no such place"
        assert [query.sources[name].closes for name in ("first", "second", "third")] == [1, 0, 0]
        assert query.sources["third"].opens == 0
        assert query.pipelines["sink"].discards == 1
        assert query.pipelines["sink"].stops == 0


def test_row_13_a_source_fails_on_open_after_a_delay() -> None:
    with Harness() as harness:
        query, other = harness.chain(), harness.run(harness.chain("other"))
        source = query.sources["source"]
        source.fails_on_open = "took too long"
        source.open_gate.shut()
        harness.start(query)
        harness.until(lambda: source.open_gate.is_reached)
        other.sources["source"].inject(1)
        harness.until(lambda: other.pipelines["sink"].received)
        assert harness.status.of("query") == [QueryStatus.REGISTERED]
        source.open_gate.open()
        assert harness.until_ended() == FAILED
        assert source.closes == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_row_13_a_source_fails_while_it_runs(seed: int | None) -> None:
    with Harness(seed=seed) as harness:
        query = harness.run(harness.chain())
        query.sources["source"].inject(*range(10))
        query.sources["source"].inject_error("connection lost")
        assert harness.until_ended() == FAILED
        assert harness.status.reasons["query"] == "source source: connection lost"
        assert query.sources["source"].closes == 1
        query.sources["source"].inject(11)
        assert query.sources["source"].waiting == 1, "nothing is taken any more"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("end", ["stream", "stop"])
def test_row_13_a_source_fails_on_close(seed: int | None, end: str) -> None:
    with Harness(seed=seed) as harness:
        query = harness.chain()
        query.sources["source"].fails_on_close = "not flushed"
        harness.run(query)
        if end == "stream":
            query.sources["source"].inject_end()
        else:
            harness.stop()
        assert harness.until_ended() == FAILED
        assert harness.status.reasons["query"] == "source source: Broken: not flushed"
        assert query.sources["source"].closes == 1


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("where", ["start", "execute", "drain", "stop"])
def test_row_14_a_pipeline_fails_and_no_other_query_is_touched(seed: int | None, where: str) -> None:
    """1 that fails and 100 that do not."""
    with Harness(seed=seed, workers=3, checks=False) as harness:
        bad = harness.chain("bad", pipelines=2)
        at_fault = bad.pipelines["pipeline 2"]
        at_fault.fails_on_start = at_fault.fails_on_stop = ""
        if where == "start":
            at_fault.fails_on_start = "here"
        elif where == "execute":
            at_fault.fails_on_call = 3
        elif where == "drain":
            at_fault.fails_on_drain = 1
        else:
            at_fault.fails_on_stop = "here"
        good = [harness.chain(f"good {n}") for n in range(100)]
        for query in [*good[:50], bad, *good[50:]]:
            harness.start(query)
        for query in good:
            harness.until(lambda q=query: q.sources["source"].is_open)  # type: ignore[misc]
            query.sources["source"].inject(1, 2, 3)
        if where != "start":
            harness.until(lambda: QueryStatus.RUNNING in harness.status.of("bad"))
            bad.sources["source"].inject(*range(5))
        if where == "drain":
            future = harness.engine.request_barrier("bad")
        elif where == "stop":
            bad.sources["source"].inject_end()
        assert harness.until_ended("bad") == FAILED
        if where == "drain":
            assert future.outcome is BarrierOutcome.ABORTED
        cause = {"start": "here", "execute": "call 3", "drain": "drain 1", "stop": "here"}[where]
        assert harness.status.reasons["bad"] == f"node pipeline 2: Broken: {cause}"
        assert not any(pipeline.is_running for pipeline in bad.pipelines.values()), "its successors are torn down"
        assert bad.sources["source"].opens == bad.sources["source"].closes
        for query in good:
            query.sources["source"].inject(4)
            query.sources["source"].inject_end()
        statuses = harness.until_ended(*[query.query_id for query in good])
        assert Counter(statuses) == {QueryStatus.STOPPED: 100}
        for query in good:
            assert query.pipelines["sink"].received == [1, 2, 3, 4]
            assert query.pipelines["sink"].stops == 1


def test_row_14_output_of_a_failing_call_is_not_seen() -> None:
    with Harness(seed=14) as harness:
        query = harness.chain()
        query.pipelines["pipeline 1"].fails_on_call = 3
        harness.run(query)
        query.sources["source"].inject(1, 2, 3, 4)
        assert harness.until_ended() == FAILED
        assert query.pipelines["sink"].received in ([], [1], [1, 2])


@pytest.mark.parametrize("seed", range(200))
def test_row_15_a_failure_races_the_end_of_the_stream(seed: int) -> None:
    """In every order there is exactly one final status, see `RecordedStatus.check`, which each step calls."""
    with Harness(seed=seed, workers=3) as harness:
        query = harness.query()
        node = query.pipeline("pipeline", [query.source("left"), query.source("right")])
        query.sink("sink", [node])
        if seed % 4 == 0:
            query.pipelines["sink"].fails_on_stop = "stop"
        harness.run(query)
        query.sources["left"].inject(1, 2)
        query.sources["left"].inject_end()
        query.sources["right"].inject_error("failed")
        query.sources["right"].inject_end()
        if seed % 3 == 0:
            harness.stop()
        (status,) = harness.until_ended()
        assert harness.stepper is not None
        harness.stepper.run()
        assert harness.status.of("query").count(status) == 1
        assert status is QueryStatus.FAILED or seed % 3 == 0


def test_row_15_a_failure_races_the_end_on_threads() -> None:
    with Harness(workers=3) as harness:
        for n in range(200):
            query = harness.run(harness.chain(f"query {n}"))
            query.sources["source"].inject(1)
            query.pipelines["sink"].fails_on_call = n % 2
            query.sources["source"].inject_end()
            query.sources["source"].inject_error("failed")
            harness.stop(f"query {n}")
        harness.until_ended(*[f"query {n}" for n in range(200)])
        assert all(len(statuses) == 3 for statuses in harness.status.statuses.values())


@pytest.mark.parametrize("end", ["stop", "failure", "shutdown"])
def test_row_16_tasks_of_an_ended_query_are_skipped(end: str) -> None:
    harness = Harness(workers=1, has_statistics=True)
    query = harness.chain()
    first = query.pipelines["pipeline 1"]
    first.gate.shut()
    harness.run(query)
    query.sources["source"].inject(*range(10))
    harness.until(lambda: first.gate.is_reached)
    if end == "stop":
        harness.stop()
    elif end == "failure":
        query.sources["source"].inject_error("failed")
    first.gate.open()
    if end != "shutdown":
        harness.until_ended()
    harness.shutdown()
    assert harness.statistics is not None
    expired = sum(event.inputs for event in harness.statistics.of(TaskExpired))
    if end == "shutdown":
        assert expired <= 10
    else:
        assert first.received == [0]
        assert expired == (9 if end == "stop" else 10), "of a query that fails, also what the last call has emitted"
        assert query.pipelines["sink"].received == ([0] if end == "stop" else [])


def test_row_16_a_start_that_is_not_wanted_any_more_is_reported() -> None:
    with Harness(seed=16, workers=1, has_statistics=True) as harness:
        query = harness.chain()
        harness.start(query)
        harness.until(lambda: harness.engine._queries["query"]._nodes)
        harness.engine._queries["query"].fail("a test wants it")
        assert harness.until_ended() == FAILED
        assert harness.statistics is not None
        assert {event.node for event in harness.statistics.of(TaskExpired)} <= {"pipeline 1", "sink"}
        assert not any(pipeline.starts for pipeline in query.pipelines.values())
