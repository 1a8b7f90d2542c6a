"""The exchange survives the faults of the seeds; `make simulate-exchange` runs any number of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.exchange.world import World
from tests.simulation.report import Report, run_seed

FEW, MANY, PARTS = 60, 4_000, 10


def check_seeds(seeds: range) -> Report:
    report = Report()
    for seed in seeds:
        run_seed(seed, report, worlds=World)
    assert not report.failures, f"{report}\n{report.failures[0]}"
    return report


def test_seeds() -> None:
    counts = check_seeds(range(FEW)).counts
    for what in (
        "crashes", "power cuts", "disk errors", "partitions", "slow clients", "dead clients", "vandals", "snapshots",
        "stops", "trades", "pauses", "clock steps", "disk full", "desk fills", "desk kills", "desk pauses",
        "desk disk full",
    ):  # fmt: skip
        assert counts[what], f"expected the seeds to have seen {what}"
    assert counts["inputs"] > 20 * FEW


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
        for seed in (3, 11, 12):
            run_seed(seed, Report(), worlds=World, write=lines.append)
        traces.append(lines)
    assert len(traces[0]) > 30
    assert traces[0] == traces[1]
