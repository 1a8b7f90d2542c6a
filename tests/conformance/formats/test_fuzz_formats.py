"""Random files in random pieces are what the libraries read in one; `make fuzz-formats` runs as long as one likes.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import os
import signal
from itertools import count

import pytest

from tests.conformance.formats.cases import KINDS, Report, run_case
from tests.conformance.formats.fuzz import default_jobs, guarded, run_seed

FEW = 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_cases(kind: str) -> None:
    """Rows 1 to 13, 15 to 25, 30: whatever the cuts, the order and the workers."""
    report = Report()
    for seed in range(FEW):
        run_seed(kind, seed, report)
    assert not report.failures, f"{report}\n{report.failures[0]}"
    assert report.counts["tuples"] > FEW
    assert report.counts["cuts"] > 20 * FEW


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_cases() -> None:
    """As `make fuzz-formats` does, beyond the seeds of `test_a_few_cases`."""
    report = guarded(run_case, start=len(KINDS) * FEW, seconds=300, jobs=default_jobs())
    assert not report.failures, f"{report}\n{report.failures[0]}"
    assert set(report.kinds) == set(KINDS)


def test_a_case_is_made_from_its_seed() -> None:
    """Twice the same files, mutations and cuts; of two kinds, and of two seeds, others."""
    reports = [Report() for _ in range(4)]
    for report, kind, seed in zip(
        reports, ("csv.broken", "csv.broken", "csv", "csv.broken"), (3, 3, 3, 5), strict=True
    ):
        run_case(kind, seed, report)
        del report.counts["repeats"]  # where threads come in another order
    assert reports[0].counts == reports[1].counts
    assert reports[0].counts != reports[2].counts
    assert reports[0].counts != reports[3].counts


def wrong(kind: str, seed: int, report: Report) -> None:
    report.kinds[kind] += 1
    assert seed != 2, "two is wrong"


def dying(kind: str, seed: int, report: Report) -> None:
    report.kinds[kind] += 1
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def endless(kind: str, seed: int, report: Report) -> None:
    report.kinds[kind] += 1
    if seed == 3:
        for _ in count():
            pass


def test_a_failure_names_the_command_that_repeats_it() -> None:
    failures: list[str] = []
    report = guarded(wrong, case="csv", most=5, seconds=60, jobs=2, report=failures.append)
    assert report.kinds["csv"] == 5
    assert failures == report.failures
    (failure,) = failures
    assert "two is wrong" in failure
    assert "python -m tests.conformance.formats.fuzz --seed 2 --case csv" in failure


def test_a_process_that_dies_is_a_failure_and_the_rest_goes_on() -> None:
    report = guarded(dying, case="json", most=6, seconds=60, jobs=1)
    (failure,) = report.failures
    assert "ended with code -9" in failure
    assert "--seed 1 --case json" in failure
    assert report.kinds["json"] == 5


def test_a_case_without_end_is_a_failure_and_the_rest_goes_on() -> None:
    report = guarded(endless, case="itch", most=6, seconds=60, jobs=1, case_seconds=1.0)
    (failure,) = report.failures
    assert "no end within 1 s" in failure
    assert "--seed 3 --case itch" in failure
    assert report.kinds["itch"] == 5
