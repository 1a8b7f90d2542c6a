"""The whole loop in containers: agents, views on two workers, strategies, dashboard; and everything stops cleanly."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.cluster.compose import STATE, ComposeCluster, MakeCluster
from tests.cluster.report import Report

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(2400)]
RUN_S = 120.0
OURS = ("algo", "dashboard", "exchange", "runtime")
SPARKS = ("spark-master", "spark-worker")
_TERMINATED = 143
"""Of a Java that SIGTERM ended in order."""


def frame(cluster: ComposeCluster) -> dict[str, Any]:
    """What a page of the dashboard is sent first, over the port that is published on this machine."""
    where = cluster.published("dashboard", 8000)
    with urllib.request.urlopen(f"http://{where}/", timeout=60) as page:
        assert page.status == 200
        assert b"<html" in page.read()
    with connect(f"ws://{where}/v1/frames", origin=Origin(f"http://{where}"), open_timeout=60) as socket:
        socket.send(json.dumps({"have": 0}))
        found: dict[str, Any] = json.loads(socket.recv(timeout=60))
    return found


def test_agents_strategies_and_dashboard_run_for_two_minutes(make_cluster: MakeCluster, report: Report) -> None:
    cluster = make_cluster()
    try:
        report.enter("start", "all services healthy", cluster.up(), "s")
        cluster.pass_time(RUN_S)
        market = cluster.ask("exchange", "exchange", "status")["figures"]
        assert min(market[name] for name in ("orders", "trades", "listeners", "clients", "live_orders")) > 0
        status = cluster.health("runtime")["status"]
        assert min(status[name] for name in ("published_epoch", "express_epoch", "view_updates", "messages")) > 0
        assert (status["failed_views"], status["dead_letters"], status["paused"]) == (0, 0, 0)
        traders = cluster.ask("algo", "algo", "status")["strategies"]
        assert {line["state"] for line in traders} == {"running"}
        assert sum(line["orders_sent"] for line in traders) > 0
        assert sum(line["fills"] for line in traders) > 0
        shown = frame(cluster)
        assert {name: link["state"] for name, link in shown["links"].items()} == {
            "results": "live", "algo": "live", "exchange": "live",
        }  # fmt: skip
        assert {row[0] for _, row in shown["symbols"]["rows"]} == {"ACME", "GLOBEX", "INITECH"}
        for name, used in cluster.memory().items():
            report.enter("memory after two minutes", name.removeprefix(f"{cluster.project}-"), used / 1e6, "MB")
        cluster.stop("algo")
        # Exits with 1, and so raises, if an order, a fill or money is lost or there twice.
        where = ("--dir", f"{STATE}/algo", "--exchange-dir", f"{STATE}/exchange")
        cluster.execute("runtime", "deltabook", "algo", "verify", *where)
        cluster.stop()
        assert {service: cluster.container(service).exit_code for service in OURS} == dict.fromkeys(OURS, 0)
        assert {cluster.container(service).exit_code for service in SPARKS} <= {0, _TERMINATED}
        assert not any(cluster.container(service).restarts for service in (*OURS, *SPARKS))
    except BaseException as error:
        error.add_note(cluster.last_words())
        raise
    finally:
        cluster.down()


def test_only_the_pages_can_be_reached_and_nothing_reaches_out(make_cluster: MakeCluster) -> None:
    with make_cluster(services=("exchange", "dashboard", "spark-master")) as cluster:
        probe = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
        unreachable = (
            "import socket, sys\ntry: socket.create_connection(('192.0.2.1', 80), 5)\nexcept OSError: sys.exit()"
        )
        cluster.execute("dashboard", "python", "-c", probe, "exchange", "4714")
        cluster.execute("exchange", "python", "-c", unreachable)
        where = cluster.published("dashboard", 8000)
        assert where.startswith("127.0.0.1:")
        stranger = urllib.request.Request(f"http://{where}/v1/status", headers={"Host": "example.org"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(stranger, timeout=60)
        assert refused.value.code == 403
        for service in ("exchange", "dashboard", "spark-master"):
            written = cluster.execute(service, "sh", "-c", "touch /opt/x /etc/x 2>&1 || id -u").splitlines()
            assert written[-1] == "10001"
            secrets = cluster.execute(service, "sh", "-c", "env; cat /proc/1/cmdline")
            token = cluster.execute("exchange", "cat", "/run/secrets/exchange.token").strip()
            assert token not in secrets
