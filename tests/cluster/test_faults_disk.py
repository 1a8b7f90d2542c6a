"""The volume runs full under every part at once, and then there is room again: all go on by themselves, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.compose import STATE, ComposeCluster
from tests.cluster.engine import Engine, EngineError
from tests.cluster.report import Report
from tests.cluster.trial import Trial, on_trial, trial_override

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]

SIZE = "400m"
BALLAST = f"{STATE}/ballast"
HOLD_S = 20.0
RATE = "150"


@pytest.fixture
def trial(engine: Engine, image: str, cluster_secrets: Path, report: Report, tmp_path: Path) -> Iterator[Trial]:
    """A cluster whose volume is small and in memory; it is gone when nothing runs, which no test here needs."""
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={SIZE},uid=10001,gid=10001,mode=0750"}
    override = trial_override(tmp_path, volume={"driver_opts": options})
    name = f"deltabook-disk-{override.stat().st_ino}"
    cluster = ComposeCluster(
        engine, name, cluster_secrets, image=image, environment={"DELTABOOK_RATE": RATE}, overrides=[override]
    )
    with on_trial(cluster, report) as running:
        yield running


def test_a_full_volume_stops_everything_and_loses_nothing(trial: Trial) -> None:
    cluster = trial.cluster

    def fill() -> None:
        with pytest.raises(EngineError, match="No space left"):
            cluster.execute("probe", "sh", "-c", f"cat /dev/zero >{BALLAST}")

    def clear() -> None:
        # The exchange journals before it does anything: it must have noticed.
        assert "No space left" in cluster.logs("exchange")
        cluster.execute("probe", "rm", BALLAST)

    for _ in range(2):
        trial.hurt(f"volume full for {HOLD_S:g} s", fill, hold_s=HOLD_S, relieve=clear)
    for part in ("exchange", "runtime", "algo"):
        cluster.wait_healthy(part)
    cluster.stop("algo")
    trial.verify_orders()
