"""A runtime without Spark as a process: on a port that was asked for, and alone on its directory."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from queries import query_path
from tests.integration._processes import Results, Running

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def express(directory: Path, *options: str) -> Running:
    """A runtime whose exchange is not there, which it waits for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()[1]
    where = ["--feed", f"127.0.0.1:{nobody}", "--dir", str(directory), "--express", str(query_path("best_quote"))]
    return Running("runtime", "--no-spark", *where, "--exit-with-stdin", *options)


def test_results_are_served_on_the_port_that_was_asked_for(tmp_path: Path) -> None:
    """Which was free: the runtime looks before it begins, and must not stand in its own way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with express(tmp_path / "run", "--http-port", str(port)) as engine:
        assert engine.ready().ports == {"http": port}
        assert [view["name"] for view in Results(engine).get("views")] == ["best_quote"]
        engine.close_input()
        engine.finish()


def test_a_second_runtime_is_refused_with_the_owners_process(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with express(directory) as engine:
        engine.ready()
        with express(directory) as second:
            said = second.fails()
        assert f"expected {directory} to be free, was in use by another runtime (process {engine.pid} on " in said
        engine.close_input()
        engine.finish()
    with express(directory) as engine:
        engine.ready()
        engine.kill()
    with express(directory) as engine:
        engine.ready()
