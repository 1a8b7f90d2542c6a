"""Random queries over random streams are what DuckDB says; `make fuzz-views` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.conformance.fuzz import Report, run_seed

FEW, MANY, PARTS = 150, 3_000, 10


def check_seeds(seeds: range) -> Report:
    report = Report()
    for seed in seeds:
        run_seed(seed, report, shrink=not report.failures)
    assert not report.failures, f"{report}\n{report.failures[0]}"
    return report


@pytest.mark.parametrize("part", range(3))
def test_random_queries(part: int) -> None:
    size = FEW // 3
    report = check_seeds(range(part * size, (part + 1) * size))
    assert report.rows > size


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_queries(part: int) -> None:
    size = MANY // PARTS
    report = check_seeds(range(part * size, (part + 1) * size))
    assert report.skipped <= 0.02 * size
    assert {"linear", "reevaluated"} <= report.classes.keys()
