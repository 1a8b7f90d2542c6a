"""Rows 37 to 39 of docs/features/engine.md: counters, one query for ever, and the same output every time."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest

from deltabook.wire.durations import Durations
from runtime.engine.barriers import BarrierCycle
from tests.harness import ControlledPipeline, Harness


def test_row_37_barriers_and_finished_inputs_are_counted() -> None:
    with Harness(seed=37) as harness:
        query = harness.run(harness.chain())
        query.pipelines["sink"].advance = lambda: harness.clock.advance(0.001)
        query.sources["source"].inject(*range(5))
        harness.barrier()
        harness.barrier()
        counters = harness.engine.counters("query")
        assert counters is not None
        assert counters.finished_inputs == 10, "5 inputs in two pipelines; the barriers are none"
        assert (counters.barriers, counters.barriers_aborted) == (2, 0)
        assert counters.barrier_durations.count == 2
        assert counters.barrier_durations.quantile_us(0.0) == 1
        assert counters.barrier_durations.quantile_us(1.0) == 8192, "5 ms"
        future = harness.engine.request_barrier("query")
        running = harness.engine._queries["query"]
        harness.stop()
        harness.until_ended()
        assert future.outcome is not None
        assert running.counters().barriers + running.counters().barriers_aborted == 3
        assert running.counters().finished_inputs == 10


def test_row_37_recurring_inputs_count_when_finished() -> None:
    with Harness(seed=37) as harness:
        query = harness.chain()
        pipeline = query.pipelines["pipeline 1"]
        pipeline.on_execute = lambda inputs, context: (
            context.repeat(inputs) if pipeline.calls < 4 else [context.emit(each) for each in inputs].clear()
        )
        harness.run(query)
        query.sources["source"].inject(1)
        harness.barrier()
        counters = harness.engine.counters("query")
        assert counters is not None
        assert pipeline.calls == 4
        assert counters.finished_inputs == 2


def test_row_37_durations_are_bounded_whatever_they_are() -> None:
    now_s = 0.0
    cycle = BarrierCycle(lambda: now_s, shares_begun=True)
    for exponent in range(-8, 12):
        cycle.request(None)
        assert cycle.begin() is not None
        now_s += 10.0**exponent
        cycle.complete()
    assert cycle.durations.count == 20
    assert len(cycle.durations.counts) == len(Durations().counts)
    assert Durations().quantile_us(0.5) == 0


def cycles(count: int) -> None:
    """So many barriers on one query, some of them with input; nothing may grow."""
    with Harness(seed=38, checks=False) as harness:
        query = harness.query()
        first = query.own("first", ControlledPipeline("first", harness.watch), [query.source()])
        query.sink("sink", [first])
        for pipeline in query.pipelines.values():
            pipeline._happened = lambda what: None  # type: ignore[method-assign]  # keeps no list
        harness.run(query)
        running = harness.engine._queries["query"]

        def run(number: int) -> None:
            if number % 10 == 0:
                query.sources["source"].inject(None)
            harness.barrier()
            for pipeline in query.pipelines.values():
                pipeline.drained.clear()
                pipeline.received.clear()
                pipeline.batches.clear()
            query.sources["source"].taken.clear()

        for number in range(200):
            run(number)
        gc.collect()
        gc.disable()
        try:
            tracemalloc.start()
            before, blocks = tracemalloc.get_traced_memory()[0], sys.getallocatedblocks()
            for number in range(count):
                run(number)
            after = tracemalloc.get_traced_memory()[0]
            grown = sys.getallocatedblocks() - blocks
        finally:
            tracemalloc.stop()
            gc.enable()
        assert after - before < 50_000, f"{after - before} bytes after {count} cycles"
        assert grown < 1000
        assert running.counters().barriers == count + 200
        running.check()


def test_row_38_the_same_query_is_used_again_and_again() -> None:
    cycles(3000)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_row_38_no_growth_over_100_000_cycles() -> None:
    cycles(100_000)


def output(seed: int) -> list[list[object]]:
    """What a sink gets, batch by batch, of a parallel plan with barriers."""
    with Harness(seed=seed, workers=4) as harness:
        query = harness.query()
        nodes = [query.source("left"), query.source("right")]
        wide = query.pipeline("wide", nodes, concurrency=4, most_inputs=3)
        held = query.own("held", ControlledPipeline("held", harness.watch).hold_until_barrier(), [wide])
        query.pipeline("sink", [(held, 0), (wide, 1)], most_inputs=5)
        harness.run(query)
        for epoch in range(5):
            for name, source in query.sources.items():
                source.inject(*[(name, epoch, n) for n in range(20)])
            harness.barrier()
        for source in query.sources.values():
            source.inject_end()
        harness.until_ended()
        return query.pipelines["sink"].batches


def test_row_39_two_runs_give_the_same_output_batch_by_batch() -> None:
    assert output(39) == output(39)
    assert output(39) != output(40), "workers would have taken the inputs in another order"
