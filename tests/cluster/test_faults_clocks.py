"""Machines whose clocks are hours and days apart, and are set while everything runs: no answer differs.

Containers share the kernel's clock, so that the parts see others through libfaketime; a file of each says how far off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.compose import ComposeCluster
from tests.cluster.engine import Engine
from tests.cluster.report import Report
from tests.cluster.trial import Trial, on_trial, trial_override

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]

RATE = "150"
CLOCKED = ("exchange", "runtime", "algo")
APART = (
    {"exchange": "+3600", "runtime": "-600", "algo": "+86000"},
    {"exchange": "-1800", "runtime": "+7200", "algo": "-5"},
)
"""Seconds beyond the kernel's clock; certificates hold from an hour before they were made."""
DOCKERFILE = """\
FROM {image}
USER root
RUN apt-get update -q && apt-get install -qy --no-install-recommends faketime \\
    && ln -s /usr/lib/*/faketime/libfaketime.so.1 /usr/lib/libfaketime.so.1
USER 10001:10001
"""


@pytest.fixture
def trial(engine: Engine, image: str, cluster_secrets: Path, report: Report, tmp_path: Path) -> Iterator[Trial]:
    clocked = f"{image}-clocked"
    engine.run("build", "-q", "-t", clocked, "-", stdin=DOCKERFILE.format(image=image).encode(), timeout_s=1_200)
    clocks = tmp_path / "clocks"
    clocks.mkdir()
    shared = {"LD_PRELOAD": "/usr/lib/libfaketime.so.1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
    for part in CLOCKED:
        (clocks / part).write_text("+0\n")
    override = trial_override(
        tmp_path,
        environment={part: shared | {"FAKETIME_TIMESTAMP_FILE": f"/clocks/{part}"} for part in CLOCKED},
        mounts={part: [f"{clocks}:/clocks:ro"] for part in CLOCKED},
    )
    clocks.chmod(0o755)
    name = f"deltabook-clocks-{override.stat().st_ino}"
    cluster = ComposeCluster(
        engine, name, cluster_secrets, image=clocked, environment={"DELTABOOK_RATE": RATE}, overrides=[override]
    )
    with on_trial(cluster, report) as running:
        yield running


def test_clocks_that_are_apart_and_are_set_change_no_answer(trial: Trial, tmp_path: Path) -> None:
    def set_clocks(offsets: dict[str, str]) -> None:
        for part, offset in offsets.items():
            (tmp_path / "clocks" / part).write_text(f"{offset}\n")

    for offsets in APART:
        trial.hurt("clocks set apart", lambda offsets=offsets: set_clocks(offsets))  # type: ignore[misc]
        for part in CLOCKED:
            trial.hurt(f"{part} killed, clocks apart", lambda part=part: trial.cluster.kill_within(part, "deltabook"))  # type: ignore[misc]
    trial.cluster.stop("algo")
    trial.verify_orders()
