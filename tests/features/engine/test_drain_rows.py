"""Rows 26 to 29 of docs/features/engine.md: the order in which pipelines drain, and what a cut separates."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from runtime.engine.barriers import Barrier, BarrierOutcome
from runtime.engine.listeners import QueryStatus
from runtime.engine.plan import Context
from tests.harness import ControlledPipeline, Harness, QueryBuilder

SEEDS = [None, *range(10)]


class Summing(ControlledPipeline):
    """Emits the sum of what it has got at every barrier, and at its end."""

    held = 0

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        self.received += inputs
        self.held += sum(n for n in inputs if isinstance(n, int))

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """See `Pipeline`."""
        super().start_drain(barrier, context)
        context.emit(("sum", self.held))
        self.held = 0


def logged(harness: Harness, query: QueryBuilder) -> list[str]:
    """What the query's pipelines do, in one list."""
    log: list[str] = []
    for name, pipeline in query.pipelines.items():

        def happened(what: str, name: str = name) -> None:
            log.append(f"{name} {what}")
            harness.watch.changed()

        pipeline._happened = happened  # type: ignore[method-assign]
    return log


@pytest.mark.parametrize("seed", SEEDS)
def test_row_26_pipelines_drain_from_the_sources_to_the_sinks(seed: int | None) -> None:
    with Harness(seed=seed, workers=3) as harness:
        query = harness.query()
        left, right = query.source("left"), query.source("right")
        first = query.pipeline("first", [left], concurrency=3)
        second = query.pipeline("second", [first, right])
        third = query.pipeline("third", [first])
        query.sink("sink", [(second, 0), (third, 1)])
        log = logged(harness, query)
        harness.run(query)
        query.sources["left"].inject(*range(20))
        harness.barrier()
        drains = [each.split()[0] for each in log if "drain" in each]
        assert sorted(drains) == ["first", "second", "sink", "third"]
        assert drains[0] == "first"
        assert drains[-1] == "sink"


@pytest.mark.parametrize("seed", SEEDS)
def test_row_26_buffered_rows_precede_the_barrier(seed: int | None) -> None:
    with Harness(seed=seed) as harness:
        query = harness.query()
        summing = Summing("summing", harness.watch)
        node = query.own("summing", summing, [query.source()])
        last = query.pipeline("middle", [node], concurrency=2)
        query.sink("sink", [last])
        harness.run(query)
        sink = query.pipelines["sink"]
        for part in ((1, 2, 3), (10,), ()):
            query.sources["source"].inject(*part)
            harness.barrier()
        assert sink.received == [("sum", 6), ("sum", 10), ("sum", 0)]
        assert [received for _, received in sink.drained] == [1, 2, 3]


@pytest.mark.parametrize("seed", range(50))
def test_row_26_an_exchange_waits_for_all_its_producers(seed: int) -> None:
    """Each of three partitions takes from both producers; a barrier waits for the slower one."""
    with Harness(seed=seed, workers=4) as harness:
        query = harness.query()
        producers = [query.pipeline(f"producer {n}", [query.source(f"source {n}")], concurrency=2) for n in range(2)]

        def by_hash(inputs: Sequence[object], context: Context) -> None:
            for each in inputs:
                assert isinstance(each, int)
                context.emit(each, each % context.successors)

        partitions = [query.pipeline(f"partition {n}", producers) for n in range(3)]
        query.sink("sink", partitions)
        for n in range(2):
            query.pipelines[f"producer {n}"].on_execute = by_hash
        harness.run(query)
        query.sources["source 0"].inject(*range(30))
        query.sources["source 1"].inject(*range(30, 60))
        harness.barrier()
        query.sources["source 0"].inject(*range(60, 90))
        harness.barrier()
        for n in range(3):
            partition = query.pipelines[f"partition {n}"]
            assert sorted(partition.received) == [each for each in range(90) if each % 3 == n]  # type: ignore[type-var]
            assert [received for _, received in partition.drained] == [20, 30]
        assert [received for _, received in query.pipelines["sink"].drained] == [60, 90]


@pytest.mark.parametrize("seed", range(50))
def test_row_26_an_input_that_comes_again_is_before_the_barrier(seed: int) -> None:
    """Inputs that a parallel pipeline gives back, and those that wait for their time, are executed first."""
    with Harness(seed=seed, workers=3) as harness:
        query = harness.query()
        first = query.pipeline("first", [query.source()], concurrency=3, most_inputs=4)
        query.sink("sink", [first])
        chance = random.Random(seed)

        def some(inputs: Sequence[object], context: Context) -> None:
            for each in inputs:
                if chance.random() < 0.4:
                    context.repeat([each], after_s=chance.choice([0.0, 0.0, 1.0]))
                else:
                    context.emit(each)

        query.pipelines["first"].on_execute = some
        harness.run(query)
        query.sources["source"].inject(*range(40))
        future = harness.engine.request_barrier("query")
        assert harness.stepper is not None
        while future.outcome is None:
            harness.stepper.run()
            harness.clock.advance(1.0)
        assert sorted(query.pipelines["sink"].received) == list(range(40))  # type: ignore[type-var]
        assert query.pipelines["sink"].drained == [(Barrier(1), 40)]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_27_output_is_never_merged_across_a_barrier(seed: int | None) -> None:
    """A pipeline that may take ever so many inputs at a time is never given some of before and some of behind."""
    with Harness(seed=seed) as harness:
        query = harness.query()
        node = query.pipeline("pipeline", [query.source()], most_inputs=1000)
        query.pipeline("sink", [node], most_inputs=1000)
        harness.run(query)
        futures = []
        for epoch in range(10):
            query.sources["source"].inject(*[(epoch, n) for n in range(5)])
            futures.append(harness.engine.request_barrier("query"))
        query.sources["source"].inject_end()
        harness.until_ended()
        for pipeline in query.pipelines.values():
            ends = [0, *[received for _, received in pipeline.drained], len(pipeline.received)]
            batch_ends = [sum(map(len, pipeline.batches[: n + 1])) for n in range(len(pipeline.batches))]
            assert set(ends[1:]) <= set(batch_ends) | {0}
            assert len(pipeline.received) == 50
            # Nothing that was there at the barrier waits until after it.
            assert pipeline.drained
            assert all(received >= 5 * barrier.number for barrier, received in pipeline.drained)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_row_28_in_parallel_every_sink_sees_the_same_cut(workers: int) -> None:
    """Threads, two sources, two ways: what two sinks have of each source at each barrier is the same."""
    with Harness(workers=workers) as harness:
        query = harness.query()
        sources = [query.source(f"source {n}") for n in range(2)]
        fast = query.pipeline("fast", sources, concurrency=4, most_inputs=8)
        slow = query.pipeline("slow", sources, concurrency=2)
        again = query.pipeline("again", [slow], concurrency=2)
        query.sink("left", [fast])
        query.sink("right", [again])
        query.sink("both", [fast, again])
        harness.run(query)
        for epoch in range(30):
            for n in range(2):
                query.sources[f"source {n}"].inject(*[(n, epoch, each) for each in range(20)])
            future = harness.engine.request_barrier("query")
            for n in range(2):
                query.sources[f"source {n}"].inject(*[(n, epoch, each) for each in range(20, 25)])
            harness.until(lambda f=future: f.outcome) if epoch % 3 else None  # type: ignore[misc]
        for n in range(2):
            query.sources[f"source {n}"].inject_end()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        cuts = {name: _cuts(query.pipelines[name]) for name in ("left", "right", "both")}
        assert cuts["left"] == cuts["right"]
        assert len(cuts["left"]) >= 20
        assert cuts["both"] == [sorted(cut * 2) for cut in cuts["left"]]


def _cuts(sink: ControlledPipeline) -> list[list[tuple[int, int, int]]]:
    """What a sink had received by each barrier."""
    return [sorted(sink.received[:received]) for _, received in sink.drained]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_29_rapid_cycles_and_empty_epochs(seed: int | None) -> None:
    with Harness(seed=seed) as harness:
        query = harness.run(harness.chain(pipelines=2))
        for n in range(200):
            if n % 5 == 0:
                query.sources["source"].inject(n)
            harness.barrier()
        sink = query.pipelines["sink"]
        assert [barrier.number for barrier, _ in sink.drained] == list(range(1, 201))
        assert [received for _, received in sink.drained] == [n // 5 + 1 for n in range(200)]


@pytest.mark.parametrize("seed", range(20))
def test_row_29_a_stream_ending_in_a_barrier_ends_after_it(seed: int) -> None:
    """No pipeline hears of the end before all have drained."""
    with Harness(seed=seed, workers=3) as harness:
        query = harness.run(harness.chain(pipelines=3))
        query.sources["source"].inject(1, 2, 3)
        future = harness.engine.request_barrier("query")
        query.sources["source"].inject_end()
        harness.until(lambda: query.pipelines["pipeline 1"].ended_ports)
        assert future.outcome is BarrierOutcome.REACHED
        harness.until_ended()
        for pipeline in query.pipelines.values():
            assert pipeline.events[-3:] == ["drain 1", "end 0", "stop"]


@pytest.mark.parametrize("seed", range(100))
def test_row_29_sources_end_at_different_times(seed: int) -> None:
    """Barriers go on with what is left: through pipelines that are ending, and through those that still have input."""
    with Harness(seed=seed, workers=3) as harness:
        query = harness.query()
        names = [f"source {n}" for n in range(4)]
        nodes = [query.source(name) for name in names]
        held = [ControlledPipeline(f"held {n}", harness.watch).hold_until_barrier() for n in range(3)]
        first = query.own("held 0", held[0], nodes[:2])
        second = query.own("held 1", held[1], [nodes[2]])
        third = query.own("held 2", held[2], [(first, 0), (second, 1)])
        query.sink("sink", [third, nodes[3]])
        harness.run(query)
        chance = random.Random(seed)
        futures = []
        assert harness.stepper is not None
        for name in names:
            query.sources[name].inject(*[(name, n) for n in range(chance.randint(0, 5))])
            if name != names[-1]:
                query.sources[name].inject_end()
            harness.stepper.run(chance.randint(0, 30))
            futures.append(harness.engine.request_barrier("query"))
        query.sources[names[-1]].inject_end()
        harness.until_ended()
        taken = [item for name in names for item in query.sources[name].taken]
        assert sorted(query.pipelines["sink"].received) == sorted(taken)  # type: ignore[type-var]
        assert all(future.outcome is not None for future in futures)
