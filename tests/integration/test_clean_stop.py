"""A stop by a signal seals everything accepted, and Spark and the result log reach the last epoch."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from queries import query_path
from runtime.epochs import EpochLogReader, ResultLog
from runtime.spark.beginning import newest_commit
from tests.integration._processes import DEADLINE_S, Results, Running, await_end_of_java, exchange

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]
FAST, SLOW = ("best_quote", "vwap_book"), ("book_depth",)
ROWS = 20_000


def started(directory: Path, feed_port: int, *options: str) -> Running:
    where = ["--feed", f"127.0.0.1:{feed_port}", "--dir", str(directory), "--status-interval", "0.1"]
    return Running("runtime", *where, "--epoch-ms", "50", *options)


def paths(names: tuple[str, ...]) -> str:
    return ",".join(str(query_path(name)) for name in names)


def inspected(directory: Path) -> list[dict[str, Any]]:
    """What `deltabook inspect` says of a run directory."""
    command = [sys.executable, "-m", "deltabook", "inspect", "--json", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    parts: list[dict[str, Any]] = json.loads(done.stdout)
    return parts


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kills", [0, 1])
def test_log_and_spark_end_at_one_epoch_and_agree(tmp_path: Path, kills: int) -> None:
    """Also after a kill; the views of both lanes are compared at every version of Spark."""
    held = tmp_path / "run"
    with exchange(tmp_path / "exchange", "--rate", "300", "--start-on", "1") as market:
        port = market.ready().ports["text"]
        views = ["--views", paths(SLOW), "--express", paths(FAST)]
        for _ in range(kills):
            with started(held, port, *views) as engine:
                engine.wait_for("lane_comparisons", 6)
                engine.kill()
            await_end_of_java(held)
        with started(held, port, *views) as engine:
            figures = engine.wait_for("lane_comparisons", 10)
            assert (figures["lanes_differ"], figures["lane_differences"]) == (0, 0)
            records = {view["name"]: view["record"] for view in Results(engine).get("views")}
            assert {name: record and record["comparison"] for name, record in records.items()} == {
                "book_depth": None, "best_quote": "equal", "vwap_book": "equal",
            }  # fmt: skip
            engine.stop()
            assert "everything accepted is sealed and published at epoch" in engine.errors()
    last = EpochLogReader(held / "epochs").latest()
    assert (ResultLog(held / "results").latest(), newest_commit(held / "checkpoint")) == (last, last)
    (part,) = inspected(held)
    facts = part["facts"]
    assert facts["views"] == "book_depth (spark), best_quote (express and spark), vwap_book (express and spark)"
    assert (facts["epochs"].split()[-1], facts["version"]) == (str(last), last)
    assert facts["spark checkpoint"].startswith(f"version {last},")


def add_reader(engine: Running, port: int) -> None:
    body: dict[str, Any] = {
        "name": "ticks",
        "connection": {"kind": "socket", "host": "127.0.0.1", "port": port, "delivery": "at-most-once"},
        "columns": [{"name": "n", "type": "int64"}],
    }
    url = f"http://127.0.0.1:{engine.ready().ports['http']}/v1/readers"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        assert answer.status == 201


def sealed_rows(directory: Path, relation: str) -> int:
    log = EpochLogReader(directory / "epochs")
    tables = [log.read(epoch).rows(relation) for epoch in range(log.latest() + 1)]
    return sum(table.num_rows for table in tables if table is not None)


def test_a_reader_that_cannot_be_read_again_loses_nothing(tmp_path: Path) -> None:
    """Everything that its sender has sent is sealed, though no epoch would have been closed for an hour."""
    held = tmp_path / "run"
    with (
        exchange(tmp_path / "exchange", "--start-on", "1", "--agents", "none") as market,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        options = ["--express", paths(FAST), "--epoch-ms", "60000"]
        with started(held, market.ready().ports["text"], *options) as engine:
            add_reader(engine, server.getsockname()[1])
            sender, _ = server.accept()
            with sender:
                sender.sendall("".join(f"{n}\n" for n in range(ROWS)).encode())
                engine.stop()
    assert sealed_rows(held, "ticks") == ROWS


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """While a sender that never pauses is still read."""
    held = tmp_path / "run"
    with exchange(tmp_path / "exchange", "--start-on", "1", "--agents", "none") as market:
        options = ["--express", paths(FAST), "--stop-seconds", "3600", "--epoch-ms", "60000"]
        with started(held, market.ready().ports["text"], *options) as engine:
            engine.ready()
            os.kill(engine.pid, signal.SIGTERM)
            os.kill(engine.pid, signal.SIGINT)
            engine.finish()
