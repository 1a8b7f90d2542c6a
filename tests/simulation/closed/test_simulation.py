"""Random closed simulations agree with the independent market, and conserve orders and lots."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.closed.world import World
from tests.simulation.report import Report, run_seed

FEW, MANY, PARTS = 7, 300, 6


def check_seeds(seeds: range) -> Counter[str]:
    report = Report()
    for seed in seeds:
        run_seed(seed, report, worlds=World)
    assert not report.failures, f"{report}\n{report.failures[0]}"
    return report.counts


def test_seeds() -> None:
    """Run a few seeds; a failure names its seed and the command that runs it again."""
    counts = check_seeds(range(FEW))
    for what in ("trades", "own trades", "own orders", "halts", "auctions", "delayed agents", "failures"):
        assert counts[what], f"expected the seeds to have had {what}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_seeds(part: int) -> None:
    size = MANY // PARTS
    check_seeds(range(part * size, (part + 1) * size))


def test_a_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a feed without a message is found, and its seed named."""
    from exchange_server.text.protocol import TextEncoder

    def forget(self: TextEncoder, *arguments: object) -> None: ...

    monkeypatch.setattr(TextEncoder, "deleted", forget)
    report = Report()
    run_seed(1, report, worlds=World)
    assert report.failed == [1]
    assert "--seed 1" in report.failures[0]
