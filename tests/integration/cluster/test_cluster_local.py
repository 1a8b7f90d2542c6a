"""A cluster of this machine by real processes: it computes, it says who is lost, and nobody outlives it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from queries import query_path
from tests.integration._processes import DEADLINE_S, Running
from tests.integration.test_query_run import FINANCE

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def query(*arguments: str) -> list[str]:
    """What the six finance queries give, a line of JSON each."""
    files = [str(query_path(name)) for name in FINANCE]
    command = [sys.executable, "-m", "deltabook", "query", "run", *files, "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def opened(directory: Path) -> dict[str, int]:
    """Process → a descriptor that is readable when it has ended."""
    files = {path.parent.name: path for path in directory.glob("**/pid")}
    return {name: os.pidfd_open(int(path.read_text())) for name, path in files.items()}


def await_end(processes: dict[str, int]) -> None:
    """Return when all of them are gone."""
    for name, descriptor in processes.items():
        ended, _, _ = select.select([descriptor], [], [], DEADLINE_S)
        os.close(descriptor)
        assert ended, f"{name} outlives its cluster"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(os.urandom(24).hex())
    return path


def test_the_finance_queries_are_what_they_are_in_local_mode(tmp_path: Path, secret: Path) -> None:
    files = ["--dir", str(tmp_path / "cluster"), "--secret-file", str(secret)]
    with Running("cluster", "local", "--workers", "2", *files) as cluster:
        url = f"spark://127.0.0.1:{cluster.ready().ports['master']}"
        there = ["--master", url, "--spark-secret-file", str(secret), "--shards", "4", "--dir", str(tmp_path / "run")]
        assert query(*there) == query()
        processes = opened(tmp_path / "cluster")
        assert processes.keys() == {"master", "1", "2"}
        cluster.stop()
        await_end(processes)


def test_a_lost_worker_is_reported_and_a_kill_leaves_nobody(tmp_path: Path) -> None:
    with Running("cluster", "local", "--workers", "2", "--dir", str(tmp_path), "--status-interval", "0.1") as cluster:
        cluster.ready()
        processes = opened(tmp_path)
        signal.pidfd_send_signal(processes["2"], signal.SIGKILL)
        figures = cluster.wait_for("lost_workers", 1)
        assert (figures["workers"], figures["lost_workers"]) == (1, 1)
        assert "worker 2 ended by SIGKILL; it is not started again" in cluster.errors()
        cluster.kill()
        await_end(processes)
