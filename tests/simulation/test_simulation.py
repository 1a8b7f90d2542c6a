"""The runtime survives the faults of the seeds; `make simulate` runs any number of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.report import Report, run_seed

FEW, MANY, PARTS = 150, 1_500, 10


def check_seeds(seeds: range) -> Report:
    report = Report()
    for seed in seeds:
        run_seed(seed, report)
    assert not report.failures, f"{report}\n{report.failures[0]}"
    return report


@pytest.mark.parametrize("part", [*range(3), *(pytest.param(part, marks=pytest.mark.slow) for part in range(3, 5))])
def test_seeds(part: int) -> None:
    size = FEW // 5
    report = check_seeds(range(part * size, (part + 1) * size))
    for what in (
        "crashes", "disk errors", "disk full", "lost connections", "stops", "upkeeps", "express versions",
        "lost executors", "lost tasks", "late tasks", "unheard tasks", "pauses", "clock steps",
    ):  # fmt: skip
        assert report.counts[what], f"expected the seeds to have seen {what}"
    assert report.counts["versions"] > 3 * size


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_seeds(part: int) -> None:
    size = MANY // PARTS
    check_seeds(range(part * size, (part + 1) * size))


def test_a_seed_replays_exactly() -> None:
    traces: list[list[str]] = []
    for _ in range(2):
        lines: list[str] = []
        for seed in (3, 11):
            report = Report()
            run_seed(seed, report, write=lines.append)
        traces.append(lines)
    assert len(traces[0]) > 100
    assert traces[0] == traces[1]
