"""A recorded market through the cluster: the six finance queries on two workers are what they are in local mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.compose import MakeCluster
from tests.cluster.recorded import SERVICES, answers, is_through, local, override
from tests.cluster.report import Report
from tests.integration.test_query_run import FINANCE

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]


def test_finance_queries_on_two_workers_equal_local_mode(
    make_cluster: MakeCluster, report: Report, tmp_path: Path
) -> None:
    expected = local(tmp_path)
    assert set(expected) == set(FINANCE)
    with make_cluster(services=SERVICES, overrides=[override(tmp_path)]) as cluster:
        seconds = cluster.wait_until(lambda: is_through(cluster), "a trace that is played and published")
        report.enter("start", "trace: played and published", seconds, "s")
        # What is applied may not be sealed yet: the timer of the epoch seals it.
        cluster.pass_time(5)
        cluster.wait_until(lambda: is_through(cluster), "a last epoch that is published")
        workers = cluster.health("spark-master")["status"]
        assert workers["aliveworkers"] == 2
        assert workers["coresused"] == 2
        assert answers(cluster) == expected
        for name, used in cluster.memory().items():
            report.enter("idle memory", name.removeprefix(f"{cluster.project}-"), used / 1e6, "MB")
