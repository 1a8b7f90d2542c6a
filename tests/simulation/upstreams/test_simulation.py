"""Upstreams and their readers survive the faults of the seeds; `make simulate-upstreams` runs any number of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.report import Report, run_seed
from tests.simulation.upstreams.world import World

FEW, MANY, PARTS = 8, 800, 4


def check_seeds(seeds: range) -> Report:
    report = Report()
    for seed in seeds:
        run_seed(seed, report, worlds=World)
    assert not report.failures, f"{report}\n{report.failures[0]}"
    return report


def test_seeds() -> None:
    counts = check_seeds(range(FEW)).counts
    for what in ("crashes", "power cuts", "disk errors", "stops", "upkeeps", "usurpations", "fenced"):
        assert counts[what], f"expected the seeds to have seen {what}"
    assert counts["messages"] > 20 * FEW


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_seeds(part: int) -> None:
    size = MANY // PARTS
    assert check_seeds(range(part * size, (part + 1) * size)).counts["rewinds"]


def test_a_seed_replays_exactly() -> None:
    traces: list[list[str]] = []
    for _ in range(2):
        lines: list[str] = []
        run_seed(3, Report(), worlds=World, write=lines.append)
        traces.append(lines)
    assert len(traces[0]) > 20
    assert traces[0] == traces[1]
