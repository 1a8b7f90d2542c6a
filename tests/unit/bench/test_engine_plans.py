"""What the benchmark of the engine runs: everything comes through, and barriers are reached."""

from __future__ import annotations

import pytest

from bench.engine.plans import PATIENCE_S, QUERY, Counted, ItemSource, PassOn, chain, running
from runtime.engine import BarrierOutcome


@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_goes_through_every_pipeline(workers: int) -> None:
    last = Counted()
    with running(chain(ItemSource(500, ends=True), [PassOn(workers), PassOn(workers), last]), workers) as (_, ended):
        assert ended.wait(PATIENCE_S)
    assert last.passed == 500


@pytest.mark.parametrize("items", [0, 1 << 60])
def test_barriers_are_reached_with_and_without_load(items: int) -> None:
    last = Counted()
    with running(chain(ItemSource(items, ends=False), [PassOn(), last]), 2) as (engine, _):
        for _ in range(3):
            if items:
                last.wait_for(50)
            assert engine.request_barrier(QUERY).wait(PATIENCE_S) is BarrierOutcome.REACHED
    assert bool(last.passed) == bool(items)


def test_a_failure_is_not_taken_for_a_figure() -> None:
    class Fails(PassOn):
        def execute(self, inputs: object, context: object) -> None:
            raise RuntimeError("out of order")

    with (
        pytest.raises(RuntimeError, match="out of order"),
        running(chain(ItemSource(5, ends=True), [Fails()]), 1) as (_, ended),
    ):
        assert ended.wait(PATIENCE_S)
