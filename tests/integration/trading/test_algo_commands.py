"""`deltabook algo` beside strategies that run: status, trades, verify and the kill switch, over the real port."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main
from tests.generators.certificates import make_certificate
from tests.integration.algo_process import FakeResults, Process, private_stream, trades
from tests.integration.test_algo_recovery import algo, check, exchange, live

pytestmark = pytest.mark.process


def deltabook(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["algo", *arguments])


def status(directory: Path) -> dict[str, Any]:
    done = deltabook("status", "--dir", str(directory), "--json")
    assert done.exit_code == 0, done.stderr
    line: dict[str, Any] = json.loads(done.stdout)["strategies"][0]
    return line


def killed(engine: Process, directory: Path, reason: str) -> None:
    """Nothing is left in the market, and nothing comes after."""
    engine.wait_for("orders_sent", 1)
    while (line := status(directory))["orders_open"]:
        pass
    assert (line["state"], line["reason"]) == ("killed", reason)
    sent = line["orders_sent"]
    while status(directory)["orders_refused"] <= line["orders_refused"]:
        pass
    assert status(directory)["orders_sent"] == sent


def test_running_strategies_are_inspected_checked_and_stopped(tmp_path: Path) -> None:
    directory, market_directory = tmp_path / "algo", tmp_path / "exchange"
    with FakeResults() as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port, "--http-port", "0") as engine:
            where = f"127.0.0.1:{engine.ready().ports['http']}"
            engine.wait_for("fills", 40)
            shown = deltabook("status", "--algo", where)
            assert shown.exit_code == 0
            assert "busy" in shown.stdout
            assert "running" in shown.stdout
            for name in ("t.csv", "t.parquet"):
                assert deltabook("trades", "--dir", str(directory), "--out", str(tmp_path / name)).exit_code == 0
            assert pq.read_table(tmp_path / "t.parquet").num_rows >= 40
            checked = deltabook(
                "verify", "--dir", str(directory), "--exchange-dir", str(market_directory), "--while-running"
            )
            assert checked.exit_code == 0, checked.output
            done = deltabook("kill", "--dir", str(directory), "--reason", "it is late", "busy")
            assert "killed busy" in done.stdout
            killed(engine, directory, "it is late")
            assert live(private_stream(port, 9001)) == {}
            figures = engine.stop()
        check(private_stream(port, 9001), figures, directory)
    assert [trade["fee"] for trade in trades(directory)] != []
    verified = deltabook("verify", "--dir", str(directory), "--exchange-dir", str(market_directory), "--json")
    assert verified.exit_code == 0
    assert json.loads(verified.stdout)["strategies"][0]["fills"] == figures["fills"]
    gone = deltabook("status", "--dir", str(directory))
    assert gone.exit_code == 1
    assert "expected strategies with a status port" in gone.stderr


def test_a_signal_throws_the_kill_switch_too(tmp_path: Path) -> None:
    with FakeResults() as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port, "--http-port", "0") as engine:
            pid = engine.ready().pid
            engine.wait_for("orders_sent", 20)
            os.kill(pid, signal.SIGUSR1)
            while status(tmp_path / "algo")["state"] != "killed":
                pass
            killed(engine, tmp_path / "algo", "SIGUSR1")
            figures = engine.stop()
        check(private_stream(port, 9001), figures, tmp_path / "algo")


def test_a_port_that_would_be_open_to_strangers_is_not_opened(tmp_path: Path) -> None:
    strange = ["--http-port", "0", "--interface", "0.0.0.0"]
    with FakeResults() as results, algo(tmp_path, results, 1, *strange) as engine:
        said = engine.fails()
    assert "expected a token for a port that is not on loopback" in said.splitlines()[-1]


def test_a_runtime_that_asks_for_a_token_over_tls_is_given_it(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    token, other = "0123456789abcdef", "fedcba9876543210"
    (tmp_path / "token").write_text(token)
    (tmp_path / "other").write_text(other)
    ca = ["--results-ca-file", str(certificate[0])]
    with FakeResults(token=token, certificate=certificate) as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port, *ca, "--results-token-file", str(tmp_path / "token")) as engine:
            engine.wait_for("orders_sent", 5)
            engine.stop()
        with algo(tmp_path, results, port, *ca, "--results-token-file", str(tmp_path / "other")) as engine:
            assert (
                "expected access to the runtime (--results-token-file), was HTTP 401" in engine.fails().splitlines()[-1]
            )
