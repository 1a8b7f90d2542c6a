"""Every part of the cluster is killed, frozen and cut off in turn: it recovers by itself, nothing is lost or doubled.

The tests share one cluster, each goes on where the one before left it; how long recovery takes is entered, not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.compose import STATE, ComposeCluster
from tests.cluster.engine import Engine, EngineError
from tests.cluster.report import Report
from tests.cluster.trial import Trial, on_trial, trial_override

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]

PARTS = ("exchange", "runtime", "algo", "dashboard", "spark-master", "spark-worker")
HOLD_S = 20.0
"""Longer than anybody waits for a sign of life from a peer."""
RATE = "150"
EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def trial(
    engine: Engine, image: str, cluster_secrets: Path, report: Report, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trial]:
    override = trial_override(tmp_path_factory.mktemp("trial"))
    name = f"deltabook-faults-{override.stat().st_ino}"
    environment = {"DELTABOOK_RATE": RATE}
    cluster = ComposeCluster(engine, name, cluster_secrets, image=image, environment=environment, overrides=[override])
    with on_trial(cluster, report) as running:
        yield running


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_killed_comes_back_by_itself(trial: Trial, part: str) -> None:
    trial.hurt(f"{part} killed", lambda: trial.cluster.kill_within(part, "deltabook" if part in PARTS[:4] else "java"))
    trial.cluster.wait_healthy(part)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_stands_still_goes_on_where_it_was(trial: Trial, part: str) -> None:
    cluster = trial.cluster
    trial.hurt(
        f"{part} frozen for {HOLD_S:g} s",
        lambda: cluster.pause(part),
        hold_s=HOLD_S,
        relieve=lambda: cluster.unpause(part),
    )


@pytest.mark.parametrize("part", PARTS)
def test_a_network_that_is_cut_and_healed_costs_nothing(trial: Trial, part: str) -> None:
    cluster = trial.cluster
    trial.hurt(
        f"{part} cut off for {HOLD_S:g} s",
        lambda: cluster.disconnect(part),
        hold_s=HOLD_S,
        relieve=lambda: cluster.connect(part),
    )


def test_a_worker_lost_in_mid_batch_costs_that_batch_alone(trial: Trial) -> None:
    cluster = trial.cluster

    def strike() -> None:
        # An executor that stands still holds its batch up: so the batch is under way when the worker goes.
        cluster.kill_within("spark-worker", EXECUTOR, signal="STOP")
        trial.until(lambda: trial.behind() >= 4, "a batch that does not end")
        cluster.kill("spark-worker")

    trial.hurt("worker lost in a batch", strike)
    cluster.start("spark-worker")
    cluster.wait_healthy("spark-worker")
    trial.check()


def test_a_second_runtime_and_a_second_exchange_are_refused(trial: Trial) -> None:
    feed = ("--feed", "exchange:1", "--no-spark", "--http-port", "0")
    for command in (
        ("runtime", "--dir", f"{STATE}/runtime", *feed),
        ("exchange", "--dir", f"{STATE}/exchange", "--port", "0"),
        (
            "algo",
            "run",
            "market_maker",
            "--dir",
            f"{STATE}/algo",
            "--results",
            "runtime:1",
            "--orders",
            "exchange:1",
        ),
    ):
        with pytest.raises(EngineError, match=r"in use by|held by"):
            trial.cluster.execute("probe", "deltabook", *command, timeout_s=120)
    trial.check()


def test_what_is_left_in_the_end_follows_from_the_journal(trial: Trial) -> None:
    """The exchange's own replay of its requests makes the feed that everything was compared with."""
    trial.cluster.stop("algo")
    trial.verify_orders()
    trial.cluster.stop("exchange")
    trial.cluster.execute("probe", "deltabook", "exchange", "verify", f"{STATE}/exchange", timeout_s=600)
