"""Rows 21 to 25 of docs/features/engine.md: when barriers begin, are refused, shared and cut short."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from runtime.engine.barriers import Barrier, BarrierFuture, BarrierOutcome
from runtime.engine.errors import BarrierError, PlanError
from runtime.engine.plan import Context
from tests.harness import WAIT_S, ControlledPipeline, Harness

SEEDS = [None, *range(10)]


def test_row_21_a_plan_that_cannot_drain_is_refused_by_name() -> None:
    with Harness(seed=21) as harness:
        query = harness.chain(pipelines=2)
        query.pipelines["pipeline 2"].cannot_drain = "it has spilled"
        with pytest.raises(BarrierError, match="was query query with node pipeline 2: it has spilled"):
            harness.engine.request_barrier(harness.run(query).query_id)
        query.sources["source"].inject(1)
        harness.until(lambda: query.pipelines["sink"].received)


@pytest.mark.parametrize("seed", SEEDS)
def test_row_22_after_the_last_input_it_is_refused(seed: int | None) -> None:
    with Harness(seed=seed) as harness:
        query = harness.query()
        query.sink("sink", [query.source("left"), query.source("right")])
        harness.run(query)
        query.sources["left"].inject_end()
        harness.barrier()
        assert query.pipelines["sink"].events.count("drain 1") == 1
        query.sources["right"].inject(1)
        query.sources["right"].inject_end()
        if harness.stepper is not None:
            with pytest.raises(BarrierError, match="expected input to come, was the end of all sources of query query"):
                harness.engine.request_barrier("query")
        harness.until_ended()
        future = harness.engine.request_barrier("query")
        assert future.outcome is BarrierOutcome.NOT_RUNNING


@pytest.mark.parametrize("seed", range(20))
def test_row_22_input_that_comes_during_a_barrier_is_held(seed: int) -> None:
    """Not dropped, and behind the barrier in every pipeline; so is the end of the stream."""
    with Harness(seed=seed) as harness:
        query = harness.run(harness.chain(pipelines=2))
        source = query.sources["source"]
        source.inject(1, 2, 3)
        future = harness.engine.request_barrier("query")
        source.inject(4, 5)
        source.inject_end()
        assert source.waiting == 2
        harness.until_ended()
        assert future.outcome is BarrierOutcome.REACHED
        for pipeline in query.pipelines.values():
            assert pipeline.received == [1, 2, 3, 4, 5]
            assert [received for _, received in pipeline.drained] == [3]


def test_row_22_a_source_that_puts_is_held() -> None:
    with Harness() as harness:
        query = harness.run(harness.chain())
        sink = query.pipelines["sink"]
        sink.gate.shut()
        emit = query.sources["source"].emitter
        assert emit.put(1)
        harness.until(lambda: sink.gate.is_reached)
        future = harness.engine.request_barrier("query")
        thread = threading.Thread(target=lambda: emit.put(2) and emit.put(3))
        thread.start()
        sink.gate.open()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        harness.until(lambda: sink.received == [1, 2, 3])
        assert [received for _, received in sink.drained] == [1]
        assert future.outcome is BarrierOutcome.REACHED


def test_row_23_requests_at_the_same_time_share_a_barrier() -> None:
    with Harness() as harness:
        query = harness.run(harness.chain())
        sink = query.pipelines["sink"]
        sink.gate.shut()
        query.sources["source"].inject(1)
        harness.until(lambda: sink.gate.is_reached)
        futures = [harness.engine.request_barrier("query") for _ in range(50)]
        sink.gate.open()
        assert {future.wait(WAIT_S) for future in futures} == {BarrierOutcome.REACHED}
        assert {future.barrier for future in futures} == {Barrier(1)}
        assert [barrier.number for barrier, _ in sink.drained] == [1]


def test_row_23_requests_with_a_payload_have_one_each() -> None:
    with Harness(seed=23) as harness:
        query = harness.run(harness.chain())
        futures = [harness.engine.request_barrier("query", payload) for payload in (None, "a", "b", None, None)]
        harness.until(lambda: all(future.outcome for future in futures))
        assert [future.barrier for future in futures] == [
            Barrier(1), Barrier(2, "a"), Barrier(3, "b"), Barrier(1), Barrier(1),
        ]  # fmt: skip
        assert [barrier.payload for barrier, _ in query.pipelines["sink"].drained] == [None, "a", "b"]


def test_row_23_requests_that_wait_are_bounded() -> None:
    with Harness(seed=23) as harness:
        harness.run(harness.chain())
        futures = [harness.engine.request_barrier("query", n) for n in range(1001)]
        with pytest.raises(BarrierError, match="at most 1000 requests"):
            harness.engine.request_barrier("query", 1001)
        harness.until(lambda: futures[-1].outcome)
        assert futures[-1].barrier == Barrier(1001, 1000)


@pytest.mark.parametrize("when", ["unknown", "starting", "stopping", "ended"])
def test_row_24_a_query_that_does_not_run_is_done_at_once(when: str) -> None:
    with Harness(seed=24) as harness:
        query = harness.chain()
        if when == "starting":
            harness.start(query)
        elif when != "unknown":
            harness.run(query)
            harness.stop()
            harness.until(lambda: harness.engine._queries["query"].request_barrier(None).outcome)
            if when == "ended":
                harness.until_ended()
        future = harness.engine.request_barrier("query")
        assert future.outcome is BarrierOutcome.NOT_RUNNING
        assert future.barrier is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("how", ["stop", "source", "execute", "drain", "shutdown"])
def test_row_25_the_end_of_a_query_completes_its_barrier(seed: int, how: str) -> None:
    harness = Harness(seed=seed)
    query = harness.query()
    node = query.pipeline("pipeline", [query.source("left"), query.source("right")], concurrency=2)
    query.sink("sink", [node])
    query.pipelines["sink"].fails_on_drain = int(how == "drain")
    query.pipelines["sink"].fails_on_call = int(how == "execute")
    harness.run(query)
    running = harness.engine._queries["query"]
    query.sources["left"].inject(1, 2, 3)
    futures = [harness.engine.request_barrier("query", payload) for payload in (None, "next")]
    query.sources["left"].inject(4)
    assert harness.stepper is not None
    harness.stepper.run(seed % 4)
    if how == "stop":
        harness.stop()
    elif how == "source":
        query.sources["right"].inject_error("failed")
    if how != "shutdown":
        harness.until_ended()
    harness.shutdown()
    assert running.barrier is None
    assert all(future.outcome is not None for future in futures)
    if how in {"drain", "execute"}:
        assert {future.outcome for future in futures} == {BarrierOutcome.ABORTED}


def test_row_25_a_barrier_that_was_reached_stays_reached() -> None:
    with Harness(seed=25) as harness:
        harness.run(harness.chain())
        future = harness.engine.request_barrier("query")
        harness.until(lambda: future.outcome)
        harness.stop()
        harness.until_ended()
        assert future.outcome is BarrierOutcome.REACHED


# Cut points: where barriers begin at pipelines


def cutting(harness: Harness, cut_behind: int) -> tuple[ControlledPipeline, list[list[object]]]:
    """A pipeline that begins a barrier behind every input that is a multiple, and keeps what is left of a call."""
    pipeline = ControlledPipeline("cut", harness.watch, most_inputs=10)
    pipeline.is_cut_point = True

    def on_execute(inputs: Sequence[object], context: Context) -> None:
        for place, each in enumerate(inputs):
            assert isinstance(each, int)
            context.emit(each)
            if each % cut_behind == 0:
                context.begin_barrier()
                context.repeat(inputs[place + 1 :])
                return

    pipeline.on_execute = on_execute
    return pipeline, pipeline.batches


@pytest.mark.parametrize("seed", SEEDS)
def test_row_22_a_cut_point_begins_barriers_where_it_may_be_cut(seed: int | None) -> None:
    """Its input waits meanwhile, and goes on in order; the sources before it are not held."""
    with Harness(seed=seed, workers=3) as harness:
        query = harness.query()
        first = query.pipeline("first", [query.source()])
        cut = query.own("cut", cutting(harness, 10)[0], [first])
        middle = query.pipeline("middle", [cut], concurrency=2)
        query.own("sink", ControlledPipeline("sink", harness.watch), [middle, cut])
        harness.run(query)
        query.sources["source"].inject(*range(1, 101))
        query.sources["source"].inject_end()
        harness.until_ended()
        sink = query.pipelines["sink"]
        assert sorted(sink.received) == sorted([*range(1, 101)] * 2)  # type: ignore[type-var]
        assert [received for _, received in sink.drained] == [20 * n for n in range(1, 11)]
        for n in range(10):
            part = sink.received[20 * n : 20 * n + 20]
            assert sorted(part) == sorted([*range(10 * n + 1, 10 * n + 11)] * 2)  # type: ignore[type-var]


def test_row_23_a_request_behind_the_cut_has_the_next_barrier() -> None:
    """Input goes on coming before a cut point: a request does not share a barrier that may leave its input out."""
    with Harness(seed=23) as harness:
        query = harness.query()
        cut = query.pipeline("cut", [query.source()], is_cut_point=True)
        query.sink("sink", [cut])
        harness.run(query)
        first = [harness.engine.request_barrier("query") for _ in range(2)]
        harness.until(lambda: query.pipelines["cut"].drained)
        assert first[0].outcome is None
        later = [harness.engine.request_barrier("query") for _ in range(2)]
        harness.until(lambda: all(future.outcome for future in later))
        assert [future.barrier for future in [*first, *later]] == [Barrier(1), Barrier(1), Barrier(2), Barrier(2)]


def test_row_21_a_cut_point_in_an_undrainable_plan_fails() -> None:
    with Harness(seed=21) as harness:
        query = harness.query()
        cut = query.own("cut", cutting(harness, 1)[0], [query.source()])
        query.sink("sink", [cut])
        query.pipelines["sink"].cannot_drain = "it keeps what it has"
        harness.run(query)
        query.sources["source"].inject(1)
        harness.until_ended()
        assert "sink: it keeps what it has" in harness.status.reasons["query"]


def test_row_21_a_plan_whose_cuts_do_not_fit_is_refused() -> None:
    with Harness(seed=21) as harness:
        query = harness.query()
        source = query.source()
        cut = query.pipeline("cut", [source], is_cut_point=True)
        query.sink("sink", [cut, source])
        with pytest.raises(PlanError, match="was 0 on one and 1 on another"):
            harness.start(query)
        twice = harness.query("twice")
        first = twice.pipeline("first", [twice.source()], is_cut_point=True)
        twice.pipeline("second", [first], is_cut_point=True)
        with pytest.raises(PlanError, match="at most one cut point"):
            harness.start(twice)
        parallel = harness.query("parallel")
        with pytest.raises(PlanError, match="concurrency of 1 at cut point"):
            parallel.pipeline("cut", [parallel.source()], concurrency=2, is_cut_point=True)


def test_row_25_a_cut_point_never_waits_for_more_input() -> None:
    with Harness(seed=25) as harness:
        query = harness.query()
        waiting = ControlledPipeline("waits", harness.watch)
        waiting.is_cut_point = True
        waiting.start_drain = lambda barrier, context: None  # type: ignore[method-assign]
        cuts = [
            query.pipeline("cut", [query.source("left")], is_cut_point=True),
            query.own("waits", waiting, [query.source("right")]),
        ]
        query.sink("sink", cuts)
        harness.run(query)
        future = harness.engine.request_barrier("query")
        harness.until_ended()
        assert future.outcome is BarrierOutcome.ABORTED
        assert "node waits: expected a cut point that is one of several" in harness.status.reasons["query"]


@pytest.mark.parametrize("request_at", range(12))
def test_row_25_a_cut_point_about_to_stop_drains_no_more(request_at: int) -> None:
    """Its source has ended, another one's has not: a barrier that comes now is for that one alone."""
    for seed in range(40):
        with Harness(seed=seed) as harness:
            query = harness.query()
            left = query.pipeline("left cut", [query.source("left")], is_cut_point=True)
            right = query.pipeline("right cut", [query.source("right")], is_cut_point=True)
            query.sink("sink", [left, right])
            harness.run(query)
            query.sources["left"].inject_end()
            for _ in range(request_at):
                harness.stepper.step()  # type: ignore[union-attr]
            harness.barrier()
            assert query.pipelines["right cut"].events[-1] == "drain 1"
            query.sources["right"].inject_end()
            harness.until_ended()
            assert query.pipelines["left cut"].events[-1] == "stop", f"seed {seed}"


def test_row_25_who_waits_for_a_barrier_and_raises_hurts_nobody() -> None:
    with Harness(seed=25) as harness:
        query = harness.run(harness.chain())
        future = harness.engine.request_barrier("query")
        heard: list[BarrierOutcome | None] = []

        def broken(settled: BarrierFuture) -> None:
            raise RuntimeError(f"broken at {settled.outcome}")

        future.when_done(broken)
        future.when_done(lambda settled: heard.append(settled.outcome))
        query.sources["source"].inject(1)  # refused while the barrier is under way
        harness.until(lambda: query.pipelines["sink"].received == [1])
        assert heard == [BarrierOutcome.REACHED]
