"""The budget is read off the histograms of three processes."""

from __future__ import annotations

import pytest

from bench.trading.budget import STAGES, budget_records, read_stages
from deltabook.wire.durations import Durations
from deltabook.wire.metrics import Exposition, histogram, histograms


def pages(microseconds: dict[str, list[float]]) -> dict[str, str]:
    """What the processes tell a monitor of stages that took so long; of the exchange, faces that are not asked for."""
    durations = {stage.name: Durations() for stage in STAGES}
    for name, times in microseconds.items():
        for each in times:
            durations[name].add(each / 1e6)

    def page(process: str) -> str:
        families = [
            histograms(
                stage.metric, "Time.", ("face",), [((stage.face,), durations[stage.name]), (("ouch",), Durations())]
            )
            if stage.face
            else histogram(stage.metric, "Time.", durations[stage.name])
            for stage in STAGES
            if stage.process == process
        ]
        return Exposition(process, "", lambda: iter(families)).answer("")[0].decode()

    return {process: page(process) for process in ("exchange", "runtime", "algo")}


def test_stages_are_what_was_counted_between_two_moments() -> None:
    before = read_stages(pages({"step": [900.0] * 10, "delivery": [3.0]}))
    after = read_stages(pages({"step": [900.0] * 10 + [100.0] * 30, "delivery": [3.0], "wire": [6.0]}))
    found = {each.what: each for each in budget_records([{name: after[name].since(before[name]) for name in after}])}
    assert set(found) == {
        f"trading.budget.{name}.{key}" for name in ("step", "wire") for key in ("p50_us", "p99_us", "mean_us")
    }
    assert found["trading.budget.step.mean_us"].value == pytest.approx(100.0)
    assert 64 <= found["trading.budget.step.p50_us"].value <= found["trading.budget.step.p99_us"].value <= 128
    assert found["trading.budget.step.p50_us"].reference == "runtime, 30 times"
    assert found["trading.budget.wire.mean_us"].value == pytest.approx(6.0)


def test_a_stage_that_a_process_does_not_tell_is_an_error() -> None:
    told = pages({})
    told["runtime"] = told["algo"]
    with pytest.raises(ValueError, match="expected deltabook_runtime_applied_seconds of the runtime, was none"):
        read_stages(told)
