"""Plans, and what pipelines may ask of the engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.engine.listeners import QueryStatus
from runtime.engine.plan import Context, Pipeline
from tests.harness import ControlledPipeline, Harness


def test_a_plan_is_drawn() -> None:
    with Harness(seed=1) as harness:
        query = harness.query()
        left, right = query.source("left"), query.source("right")
        first = query.pipeline("first", [left], concurrency=2)
        query.pipeline("join", [first, (right, 1)], is_cut_point=True)
        assert str(query.plan).splitlines() == [
            "plan query",
            "  left (ControlledSource)",
            "  right (ControlledSource)",
            "    first (ControlledPipeline, ×2) ◀── left",
            "      join (ControlledPipeline, cut point) ◀── first, right at 1",
        ]


def test_a_parallel_pipeline_has_as_many_calls_as_it_may() -> None:
    with Harness(workers=4) as harness:
        query = harness.query()
        query.pipeline("wide", [query.source()], concurrency=3)
        wide = query.pipelines["wide"]
        wide.gate.shut()
        harness.run(query)
        query.sources["source"].inject(*range(20))
        harness.until(lambda: wide.overlapping == 3)
        wide.gate.open()
        harness.until(lambda: len(wide.received) == 20)
        assert wide.most_overlapping == 3


@pytest.mark.parametrize(("most_inputs", "most_size", "batches"), [(4, 0, [1, 4, 4, 1]), (100, 12, [1, 3, 3, 3])])
def test_what_waits_is_taken_together(most_inputs: int, most_size: int, batches: list[int]) -> None:
    """As many as there may be, or as much; here of 4 each."""
    with Harness(workers=1) as harness:
        query = harness.query()
        pipeline = ControlledPipeline("pipeline", harness.watch, most_inputs=most_inputs)
        pipeline.most_size = most_size
        query.own("pipeline", pipeline, [query.source()])
        pipeline.gate.shut()
        harness.run(query)
        query.sources["source"].inject(0, size=4)
        harness.until(lambda: pipeline.gate.is_reached)
        query.sources["source"].inject(*range(1, 10), size=4)
        pipeline.gate.open()
        harness.until(lambda: len(pipeline.received) == 10)
        assert [len(batch) for batch in pipeline.batches] == batches


def test_an_input_that_is_too_large_comes_alone() -> None:
    with Harness(seed=1) as harness:
        query = harness.query()
        pipeline = ControlledPipeline("pipeline", harness.watch, most_inputs=10)
        pipeline.most_size = 5
        query.own("pipeline", pipeline, [query.source()])
        harness.run(query)
        query.sources["source"].inject("large", "too", size=50)
        harness.until(lambda: len(pipeline.received) == 2)
        assert pipeline.batches == [["large"], ["too"]]


class TakesTurns(ControlledPipeline):
    """Gives its turn up when it is told to, in the middle of a call."""

    takes_turns = True

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        self.events.append(f"begins {inputs[0]}")
        if inputs[0] == "gives":
            context.give_turn()
        super().execute(inputs, context)


@pytest.mark.parametrize("first", ["keeps", "gives"])
def test_a_turn_begins_when_the_one_before_ends(first: str) -> None:
    with Harness(workers=3) as harness:
        query = harness.query()
        pipeline = TakesTurns("pipeline", harness.watch, concurrency=3)
        query.own("pipeline", pipeline, [query.source()])
        pipeline.gate.shut()
        harness.run(query)
        query.sources["source"].inject(first, "second")
        if first == "gives":
            harness.until(lambda: pipeline.overlapping == 2)
        else:
            harness.until(lambda: pipeline.overlapping == 1)
            assert pipeline.events.count("begins second") == 0
        pipeline.gate.open()
        query.sources["source"].inject_end()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert [each for each in pipeline.events if "begins" in each] == [f"begins {first}", "begins second"]


def test_what_a_sequential_pipeline_gives_back_comes_first() -> None:
    with Harness(seed=3) as harness:
        query = harness.chain()
        pipeline = query.pipelines["pipeline 1"]
        pipeline.most_inputs = 10

        def one(inputs: Sequence[object], context: Context) -> None:
            context.emit(inputs[0])
            context.repeat(inputs[1:])

        pipeline.on_execute = one
        harness.run(query)
        query.sources["source"].inject(*range(30))
        harness.until(lambda: len(query.pipelines["sink"].received) == 30)
        assert query.pipelines["sink"].received == list(range(30))
        harness.until(lambda: harness.engine.admission.inputs == 0)


class Needy(Pipeline):
    """Can only execute the lowest of the numbers that it has not executed; gives the others back."""

    concurrency = 3
    most_inputs = 2

    def __init__(self) -> None:
        self.done: list[object] = []
        self.calls = 0

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        self.calls += 1
        again: list[object] = []
        for each in inputs:
            if each == len(self.done):
                self.done.append(each)
            else:
                again.append(each)
        if again:
            context.repeat(again)


@pytest.mark.parametrize("seed", range(20))
def test_returned_rows_of_a_parallel_pipeline_come_last(seed: int) -> None:
    """So that what it waits for comes, in whatever order it was brought."""
    with Harness(seed=seed, workers=3) as harness:
        query = harness.query()
        needy = Needy()
        query.own("needy", needy, [query.source()])
        harness.run(query)
        query.sources["source"].inject(*reversed(range(20)))
        query.sources["source"].inject_end()
        assert harness.until_ended() == [QueryStatus.STOPPED]
        assert needy.done == list(range(20))
        assert needy.calls < 1000


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        (lambda context: context.emit(1, 5), "expected a successor from 0 to 0 of node pipeline 1, was 5"),
        (lambda context: context.begin_barrier(), "expected a cut point to begin a barrier, was node pipeline 1"),
    ],
)
def test_what_a_pipeline_must_not_do_fails_its_query(misuse: object, said: str) -> None:
    with Harness(seed=2) as harness:
        query = harness.chain()
        assert callable(misuse)
        query.pipelines["pipeline 1"].on_execute = lambda inputs, context: misuse(context)
        harness.run(query)
        query.sources["source"].inject(1)
        assert harness.until_ended() == [QueryStatus.FAILED]
        assert harness.status.reasons["query"] == f"node pipeline 1: {said}"


def test_nothing_is_emitted_outside_of_a_call() -> None:
    with Harness(seed=2) as harness:
        query = harness.chain()
        kept: list[Context] = []
        query.pipelines["pipeline 1"].on_execute = lambda inputs, context: kept.append(context)
        query.pipelines["sink"].start = lambda context: context.emit(1)  # type: ignore[method-assign]
        harness.start(query)
        assert harness.until_ended() == [QueryStatus.FAILED]
        assert "expected node sink to emit within a call after start" in harness.status.reasons["query"]
