"""What makes a part healthy, and what the command says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main
from deltabook.cluster.health import PROBES, HealthRole, judge

TOKEN = "a-token-that-is-long-enough"
RUNTIME = {
    "paused": 0, "disk_bytes": 3 << 20, "disconnected": 0, "lag_ms": 250.0,
    "epoch": 9, "published_epoch": 8, "views": 6,
}  # fmt: skip
STRATEGY = {"name": "sobi", "state": "running", "is_connected": True, "reason": ""}
ALGO = {"views_connected": True, "strategies": [STRATEGY]}
MASTER = {"status": "ALIVE", "aliveworkers": 2, "coresused": 2, "cores": 4}
WORKER = {"masterurl": "spark://m:1", "executors": [{}], "coresused": 1, "cores": 2}
EXCHANGE = {"figures": {"orders": 3, "trades": 2, "listeners": 1}}
DASHBOARD = {"results": "live", "algo": "live", "exchange": "live", "pages": 0}
HEALTHY: dict[HealthRole, dict[str, Any]] = {
    "algo": ALGO,
    "dashboard": DASHBOARD,
    "exchange": EXCHANGE,
    "runtime": RUNTIME,
    "spark-history": {"spark": "4.3.0"},
    "spark-master": MASTER,
    "spark-worker": WORKER,
}


def judged(role: HealthRole, status: Any) -> tuple[bool, str]:
    health = judge(role, json.dumps(status).encode(), 60.0)
    return health.healthy, health.reason


@pytest.mark.parametrize("role", PROBES)
def test_every_part_can_be_healthy_and_is_told_from_others(role: HealthRole) -> None:
    assert judged(role, HEALTHY[role])[0]
    others: list[Any] = [{}, [], "text", 1, None]
    for other in others:
        healthy, reason = judged(role, other)
        assert not healthy
        assert reason.startswith("expected ")


@pytest.mark.parametrize(
    ("role", "status", "words"),
    [
        ("runtime", {**RUNTIME, "disconnected": 1}, "expected every origin to be connected, was 1 that is not"),
        ("runtime", {**RUNTIME, "lag_ms": 60_001.0}, "expected results within 60 s, was 60.0 s behind"),
        ("algo", {**ALGO, "views_connected": False}, "expected the views of a runtime, was not connected"),
        (
            "algo",
            {**ALGO, "strategies": [STRATEGY, {**STRATEGY, "name": "b", "is_connected": False}]},
            "expected strategies logged in to the exchange, was not: b",
        ),
        (
            "algo",
            {**ALGO, "strategies": [{**STRATEGY, "state": "failed", "reason": "a bug", "is_connected": False}]},
            "expected strategies that run, was failed: sobi: a bug",
        ),
        ("spark-master", {**MASTER, "status": "RECOVERING"}, "expected a master that is ALIVE, was RECOVERING"),
        ("spark-worker", {**WORKER, "masterurl": ""}, "expected a worker that its master knows"),
    ],
    ids=["disconnected", "behind", "views", "logged-out", "failed", "recovering", "unregistered"],
)
def test_what_does_not_do_its_work_is_unhealthy(role: HealthRole, status: Any, words: str) -> None:
    healthy, reason = judged(role, status)
    assert not healthy
    assert reason.startswith(words)


@pytest.mark.parametrize(
    ("role", "status", "words"),
    [
        ("runtime", {**RUNTIME, "paused": 1, "disconnected": 1}, "the feed is held back: 3 MiB on disk"),
        ("runtime", {**RUNTIME, "lag_ms": None}, "epoch 9, published 8, 6 views"),
        ("algo", {**ALGO, "strategies": [{**STRATEGY, "state": "killed"}]}, "sobi killed"),
        ("dashboard", {**DASHBOARD, "algo": "connecting"}, "0 pages; results live, algo connecting, exchange live"),
    ],
    ids=["paused", "quiet", "killed", "waiting"],
)
def test_what_waits_on_purpose_is_healthy(role: HealthRole, status: Any, words: str) -> None:
    assert judged(role, status) == (True, words)


class _Server(HTTPServer):
    """Server whose next answers are of a runtime with a lost origin, as many times as it is `lost`."""

    lost = 0


class _Port(BaseHTTPRequestHandler):
    """A runtime that asks for its token."""

    server: _Server

    def do_GET(self) -> None:
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        status = {**RUNTIME, "disconnected": int(self.server.lost > 0)}
        self.server.lost -= 1
        body = json.dumps(status).encode() if is_known else b"expected the token, was another or none\n"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library names it
        """Nothing: the test's output is its own."""


@contextmanager
def port(lost: int = 0) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Port)
    server.lost = lost
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def health(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["health", *arguments], env=env)


def test_the_commands_line_and_exit_code_agree(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    with port() as where:
        good = health("runtime", "--at", where, "--token-file", str(token))
        bad = health("runtime", "--at", where)
        told = health("--json", env={
            "DELTABOOK_HEALTH_ROLE": "runtime", "DELTABOOK_HEALTH_AT": where, "DELTABOOK_HEALTH_TOKEN_FILE": str(token),
        })  # fmt: skip
    assert (good.exit_code, good.output) == (0, "runtime: healthy: epoch 9, published 8, 6 views\n")
    assert (bad.exit_code, bad.output) == (
        1,
        "runtime: unhealthy: expected the token, was another or none (--token-file)\n",
    )
    assert json.loads(told.output) == {
        "role": "runtime", "healthy": True, "reason": "epoch 9, published 8, 6 views", "status": RUNTIME,
    }  # fmt: skip


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("wait_s", "exit_code", "waited_s"), [("0", 1, 0.0), ("1", 1, 1.0), ("4", 0, 1.5)])
def test_a_check_can_wait_for_a_healthy_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_s: str, exit_code: int, waited_s: float
) -> None:
    clock = Clock()
    monkeypatch.setattr("deltabook.cli.health.time", clock)
    (tmp_path / "token").write_text(TOKEN)
    with port(lost=3) as where:
        result = health("runtime", "--at", where, "--token-file", str(tmp_path / "token"), "--wait", wait_s)
    assert (result.exit_code, clock.now_s) == (exit_code, waited_s)
    assert ("was 1 that is not" in result.output) == (exit_code == 1)


def test_a_part_that_is_not_there_is_unhealthy() -> None:
    found = health("exchange", "--at", "127.0.0.1:1")
    assert found.exit_code == 1
    assert found.output.startswith("exchange: unhealthy: expected the exchange at 127.0.0.1:1, was: ")


def test_a_token_crosses_machines_encrypted_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    found = health("runtime", "--at", "192.0.2.7:1", "--token-file", str(tmp_path / "token"))
    assert found.exit_code == 1
    assert "expected TLS to send a token to another machine" in found.output
