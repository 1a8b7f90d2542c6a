"""Every version of every view is the same on both lanes while views and derived streams come and go under a feed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.soak.lanes import Plan, soak
from tests.soak.resources import read_samples
from tests.soak.views import BEGINNING, STREAMS, VIEWS, Catalogue

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "3"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(3600)
def test_both_lanes_agree_while_the_catalogue_changes(tmp_path: Path) -> None:
    """A minute of `python -m tests.soak`, with a restart and cuts of the feed."""
    found = soak(tmp_path, Plan(40, changes=20, seed=SEED, restarts=1, cuts=3, sample_s=0.5))
    assert found.versions > 20
    assert found.comparisons > 10 * found.versions
    assert found.shown > 0
    assert {sample.start for sample in read_samples(tmp_path / "resources.csv")} == {0, 1}


def test_disturbances_follow_from_the_seed() -> None:
    """Restarts leave the second half to one process, whose uses are compared."""
    plans = [Plan(100, changes=50, seed=seed, restarts=20, cuts=50) for seed in range(20)]
    for plan in plans:
        assert plan.disturbed() == plan.disturbed() == (frozenset(range(20)), frozenset(range(50)))
    assert len({Plan(100, changes=50, seed=seed, restarts=3, cuts=3).disturbed() for seed in range(20)}) == 20


def test_changes_reach_every_view_and_every_stream() -> None:
    """There are never more views than allowed, each after the relations that it reads."""
    catalogue, seen = Catalogue(random.Random(SEED)), set(BEGINNING)
    for _ in range(300):
        catalogue.change()
        seen |= set(catalogue.names)
        assert 11 <= len(catalogue.views) <= 12
    assert seen == {*VIEWS, *STREAMS}
