"""A running query grows by sources in front of a cut point, in any order of its tasks, and ends as if it had them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.engine.barriers import Barrier, BarrierOutcome
from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.errors import PlanError
from runtime.engine.listeners import QueryStatus, StatusListener
from runtime.engine.plan import Context, Emitter, Pipeline, Plan, Source
from tests.harness.stepper import Stepper


class Numbers(Source):
    """Offers numbers as the engine takes them, and then it is over or not."""

    def __init__(self, numbers: Sequence[int], *, ends: bool = True) -> None:
        self._left, self._ends = list(numbers), ends
        self.opened = self.closed = 0

    def open(self, emit: Emitter) -> None:
        self._emit = emit
        self.opened += 1
        self.resume()

    def resume(self) -> None:
        while self._left and self._emit.offer(self._left[0]):
            self._left.pop(0)
        if not self._left and self._ends:
            self._emit.end_of_stream()

    def finish(self) -> None:
        self._ends = True
        self._emit.end_of_stream()

    def close(self) -> None:
        self.closed += 1


class Doubling(Pipeline):
    started = stopped = 0

    def start(self, context: Context) -> None:
        self.started += 1

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        for each in inputs:
            assert isinstance(each, int)
            context.emit(2 * each)

    def stop(self, context: Context) -> None:
        self.stopped += 1


class Cutting(Pipeline):
    """Knows what stood before each barrier."""

    is_cut_point = True

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.at: list[int] = []

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        self.taken += [each for each in inputs if isinstance(each, int)]

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        self.at.append(len(self.taken))
        context.begin_barrier(barrier)


class Statuses(StatusListener):
    def __init__(self) -> None:
        self.heard: list[QueryStatus] = []

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        self.heard.append(status)


class Growing:
    def __init__(self, seed: int) -> None:
        self.stepper = Stepper(seed)
        self.statuses = Statuses()
        self.engine = QueryEngine(EngineConfig(in_flight=4), self.statuses, workers=self.stepper)
        self.first = Numbers(range(20), ends=False)
        self.cut = Cutting()
        plan = Plan("q")
        plan.add("cut", self.cut, [plan.add("double", Doubling(), [plan.add_source("first", self.first)])])
        self.engine.start(plan)

    def steps(self, most: int) -> None:
        for _ in range(most):
            if not self.stepper.step():
                return
            self.engine.check()

    def part(self, source: Source, name: str = "more") -> tuple[Plan, Doubling]:
        part, doubling = Plan("q"), Doubling()
        part.add(f"double {name}", doubling, [part.add_source(name, source)])
        return part, doubling


@pytest.mark.parametrize("seed", range(30))
def test_what_a_part_brings_reaches_the_cut_point_once(seed: int) -> None:
    growing = Growing(seed)
    growing.steps(6 + seed)
    grown = []
    for number in (1, 2, 3):
        source = Numbers(range(100 * number, 100 * number + 15), ends=number != 3)
        part, doubling = growing.part(source, str(number))
        growing.steps(seed % 7)
        while not growing.engine.grow("q", part, "cut"):
            growing.steps(1)
        grown.append((source, doubling))
        growing.engine.request_barrier("q")
    growing.stepper.run()
    expected = [2 * n for n in [*range(20), *range(100, 115), *range(200, 215), *range(300, 315)]]
    assert sorted(growing.cut.taken) == expected
    assert [doubling.stopped for _, doubling in grown] == [1, 1, 0], "a part ends with its sources"
    growing.first.finish()
    growing.stepper.run()
    assert QueryStatus.STOPPED not in growing.statuses.heard, "a part that goes on keeps the query"
    grown[2][0].finish()
    growing.stepper.run()
    assert growing.statuses.heard[-1] is QueryStatus.STOPPED
    assert all((source.opened, source.closed) == (1, 1) for source, _ in grown)
    growing.engine.shutdown(1)


@pytest.mark.parametrize("seed", range(30))
def test_a_query_that_is_stopped_while_it_grows_ends(seed: int) -> None:
    growing = Growing(seed)
    growing.stepper.run()
    source = Numbers([7], ends=False)
    part, _ = growing.part(source)
    assert growing.engine.grow("q", part, "cut")
    growing.steps(seed % 10)
    growing.engine.stop("q") if seed % 2 else growing.engine.shutdown(1)
    growing.stepper.run()
    assert growing.statuses.heard[-1] is QueryStatus.STOPPED
    assert source.opened == source.closed
    assert growing.engine.admission.inputs == 0


def test_barriers_have_no_part_in_it() -> None:
    """One completes while a part's pipeline still has to start."""
    growing = Growing(1)
    growing.stepper.run()
    part, _ = growing.part(Numbers(range(5), ends=False))
    assert growing.engine.grow("q", part, "cut")
    future = growing.engine.request_barrier("q")
    growing.stepper.run()
    assert future.outcome is BarrierOutcome.REACHED


def test_nothing_grows_without_a_running_cut_point() -> None:
    growing = Growing(2)
    part, _ = growing.part(Numbers([1]))
    assert not growing.engine.grow("nobody", part, "cut")
    assert not growing.engine.grow("q", part, "cut"), "it is not running yet"
    growing.stepper.run()
    assert not growing.engine.grow("q", part, "double"), "no cut point"
    growing.first.finish()
    growing.stepper.run()
    assert not growing.engine.grow("q", part, "cut"), "it has ended"


def test_a_part_has_one_end_and_no_cut_point() -> None:
    growing = Growing(3)
    growing.stepper.run()
    two, one = Plan("q"), Numbers([1])
    source = two.add_source("s", one)
    two.add("a", Doubling(), [source])
    two.add("b", Doubling(), [source])
    cut = Plan("q")
    cut.add("c", Cutting(), [cut.add_source("s", one)])
    for part in (two, cut):
        with pytest.raises(PlanError, match="with one end, which drain and have no cut point, to grow q by"):
            growing.engine.grow("q", part, "cut")
