"""A recorded market through the cluster: the six finance queries on two workers are what they are in local mode."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from queries import QUERIES_DIR, query_path
from runtime.compiler import read_script
from tests.cluster.compose import ComposeCluster, MakeCluster
from tests.cluster.report import Report
from tests.integration.test_query_run import FINANCE, query_run

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]
TRACE = "trace-5000.csv"
Rows = Counter[tuple[Any, ...]]
SERVICES = ("dashboard", "exchange", "runtime", "spark-master", "spark-worker")
"""Strategies have nobody to trade with in a recording."""
PLAYED = {
    "DELTABOOK_EXCHANGE_REPLAY_FILE": f"/opt/project/queries/{TRACE}",
    "DELTABOOK_EXCHANGE_REPLAY_MODE": "as-recorded",
    "DELTABOOK_EXCHANGE_SPEED": "max",
    "DELTABOOK_EXCHANGE_AGENTS": "none",
}


def override(tmp_path: Path) -> Path:
    """A second compose file: the exchange plays the trace, the runtime keeps the six queries."""
    views = tmp_path / "views"
    views.mkdir()
    for name in FINANCE:
        (views / f"{name}.sql").write_text(read_script(query_path(name)).selects[0].sql + ";\n")
    runtime = {
        "environment": {
            "DELTABOOK_RUNTIME_VIEWS": ",".join(f"/views/{name}.sql" for name in FINANCE),
            "DELTABOOK_RUNTIME_EXPRESS": "",
        },
        "volumes": [f"{views}:/views:ro"],
    }
    # JSON is YAML.
    path = tmp_path / "trace.yml"
    path.write_text(json.dumps({"services": {"exchange": {"environment": PLAYED}, "runtime": runtime}}))
    views.chmod(0o755)
    return path


def local(tmp_path: Path) -> dict[str, Rows]:
    """The same queries over the file, by Spark on this machine's threads."""
    files = [query_path(name) for name in FINANCE]
    done = query_run(*files, "--data-dir", QUERIES_DIR, "--json", "--dir", tmp_path / "local")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line, parse_float=Decimal) for line in done.stdout.splitlines()]
    return {line["query"]: Counter(map(_exact, line["rows"])) for line in lines}


def _exact(row: list[Any]) -> tuple[Any, ...]:
    return tuple(Decimal(value) if isinstance(value, int | Decimal) else value for value in row)


def answers(cluster: ComposeCluster) -> dict[str, Rows]:
    """What the cluster serves."""
    found: dict[str, Rows] = {}
    for name in FINANCE:
        said = cluster.execute("runtime", "deltabook", "query", "show", name, "--json")
        found[name] = Counter(_exact(row) for row in json.loads(said, parse_float=Decimal)["rows"])
    return found


def is_through(cluster: ComposeCluster) -> bool:
    """Whether the file is played, and everything of it inside of what is published."""
    playing = cluster.ask("exchange", "exchange", "replay")
    if not playing["finished"]:
        return False
    status = cluster.health("runtime")["status"]
    fed = cluster.ask("exchange", "exchange", "status")["figures"]["sequence"]
    return bool(status["feed_sequence"] == fed and status["published_epoch"] == status["epoch"])


def test_the_finance_queries_on_two_workers_are_those_of_local_mode(
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
