"""The folder of a demo: fresh, one of few, and never anything else removed; the command lines of its processes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from click import Context, Group

from algo_engine.loader import load_strategies
from deltabook.cli import main
from deltabook.demo import DemoError, Feed, Flow, make_run_folder, make_stages
from deltabook.demo.plan import KEPT_RUNS, PARAMETERS, STRATEGIES, STREAMS, VIEWS, SparkPlace

PORTS = {"exchange.text": 1, "exchange.itch": 2, "runtime.http": 3}  # nothing connects to them


def test_the_strategies_stop_first_and_the_runtime_last() -> None:
    stages = make_stages(Path("/run"), "agents")
    assert [stage.role for stage in stages] == ["dashboard", "exchange", "runtime", "algo"]
    assert [stage.role for stage in sorted(stages, key=lambda stage: stage.stop_order)] == [
        "dashboard",
        "algo",
        "exchange",
        "runtime",
    ]


def test_every_process_ends_with_its_supervisor() -> None:
    assert all("--exit-with-stdin" in stage.command(PORTS) for stage in make_stages(Path("/run"), "agents"))


def test_ports_are_passed_on() -> None:
    _, _, runtime, algo = make_stages(Path("/run"), "agents", feed="text")
    assert f"127.0.0.1:{PORTS['exchange.text']}" in runtime.command(PORTS)
    assert f"127.0.0.1:{PORTS['runtime.http']}" in algo.command(PORTS)


def test_the_dashboard_learns_where_the_others_are() -> None:
    dashboard, *others = make_stages(Path("/run"), "agents")
    command = list(dashboard.command({}))
    assert command[command.index("--peers") + 1] == "/run/peers.json"
    assert dashboard.page == "http"
    assert [stage.peer for stage in others] == [("exchange", "admin"), ("results", "http"), ("algo", "http")]
    assert "--admin-port" in others[0].command(PORTS)
    assert "--http-port" in others[2].command(PORTS)


def test_a_capture_is_replayed_as_orders() -> None:
    _, exchange, _, _ = make_stages(Path("/run"), "capture", Path("/cache/orders.csv.gz"))
    command = list(exchange.command({}))
    assert command[command.index("--replay") + 1] == "/cache/orders.csv.gz"
    assert command[command.index("--replay-mode") + 1] == "as-orders"
    assert command[command.index("--speed") + 1] == "20"


def test_the_runtime_reads_agents_as_itch_and_orders_stay_text() -> None:
    _, exchange, runtime, algo = (list(stage.command(PORTS)) for stage in make_stages(Path("/run"), "agents"))
    assert exchange[exchange.index("--itch-port") + 1] == str(PORTS["exchange.itch"]), "where it was before"
    assert runtime[runtime.index("--feed") + 1] == f"127.0.0.1:{PORTS['exchange.itch']}"
    assert runtime[runtime.index("--feed-protocol") + 1] == "itch"
    assert runtime[runtime.index("--feed-tick") + 1] == "0.01"
    assert algo[algo.index("--orders") + 1] == f"127.0.0.1:{PORTS['exchange.text']}"


@pytest.mark.parametrize(("flow", "feed"), [("agents", "text"), ("capture", None)])
def test_the_runtime_reads_lines_where_required(flow: Flow, feed: Feed | None) -> None:
    stages = make_stages(Path("/run"), flow, Path("/cache/orders.csv.gz"), feed)
    exchange, runtime = (list(stage.command(PORTS)) for stage in stages[1:3])
    assert "--itch-port" not in exchange
    assert runtime[runtime.index("--feed") + 1] == f"127.0.0.1:{PORTS['exchange.text']}"
    assert "--feed-protocol" not in runtime


def test_spark_runs_on_the_demos_cluster_or_on_a_given_one() -> None:
    stages = make_stages(Path("/run"), "agents", spark=SparkPlace(workers=3))
    assert [stage.role for stage in stages] == ["dashboard", "cluster", "exchange", "runtime", "algo"]
    assert max(stages, key=lambda stage: stage.stop_order).role == "cluster"
    command = list(stages[1].command({}))
    assert command[command.index("--workers") + 1] == "3"
    assert "--exit-with-stdin" in command
    runtime = list(stages[3].command({**PORTS, "cluster.master": 4}))
    assert runtime[runtime.index("--master") + 1] == "spark://127.0.0.1:4"
    assert runtime[runtime.index("--shards") + 1] == "6"
    _, _, there, _ = make_stages(Path("/run"), "agents", spark=SparkPlace(0, "spark://h:1", "/secret"))
    runtime = list(there.command(PORTS))
    assert runtime[runtime.index("--master") + 1] == "spark://h:1"
    assert runtime[runtime.index("--spark-secret-file") + 1] == "/secret"
    assert "--master" not in make_stages(Path("/run"), "agents")[2].command(PORTS)


@pytest.mark.parametrize("flow", ["agents", "capture"])
def test_strategies_have_the_parameters_of_the_flow(flow: Flow) -> None:
    algo = list(make_stages(Path("/run"), flow, Path("/cache/orders.csv.gz"))[3].command(PORTS))
    given = tuple(value for name, value in pairwise(algo) if name == "--param")
    assert given == PARAMETERS[flow]
    loaded = load_strategies(STRATEGIES, given)
    assert [each.name for each in loaded] == list(STRATEGIES)


def test_without_spark_every_view_is_of_the_express_lane() -> None:
    command = list(make_stages(Path("/run"), "agents", spark=None)[2].command(PORTS))
    spark, express = (command[command.index(lane) + 1].split(",") for lane in ("--views", "--express"))
    assert "--no-spark" in command
    assert [Path(path).stem for path in express] == list(VIEWS)
    assert [Path(path).stem for path in spark] == list(STREAMS)


def test_a_process_is_started_again_on_the_ports_that_it_had() -> None:
    own = {**PORTS, "exchange.admin": 5, "algo.http": 6, "dashboard.http": 7, "cluster.master": 8}
    wanted = [("--http-port", 7), ("--port", 8), ("--admin-port", 5), ("--http-port", 3), ("--http-port", 6)]
    stages = make_stages(Path("/run"), "agents", spark=SparkPlace(workers=1))
    for stage, (option, port) in zip(stages, wanted, strict=True):
        command = list(stage.command(own))
        assert command[command.index(option) + 1] == str(port), stage.role


def test_a_capture_is_too_fine_for_itch() -> None:
    with pytest.raises(DemoError, match="expected a text feed for the capture, was itch, which cannot list BTCUSD"):
        make_stages(Path("/run"), "capture", Path("/cache/orders.csv.gz"), "itch")


def test_the_views_are_files_of_this_project() -> None:
    command = list(make_stages(Path("/run"), "agents")[2].command(PORTS))
    streams, views = (
        [Path(path) for path in command[command.index(lane) + 1].split(",")] for lane in ("--views", "--express")
    )
    assert ([path.stem for path in streams], [path.stem for path in views]) == (list(STREAMS), list(VIEWS))
    assert all(path.is_file() for path in (*streams, *views))
    assert "--spark" in command  # which keeps all views, although each is in the express lane


def test_the_processes_know_every_option_that_they_are_given() -> None:
    """Each command line parses; nothing is started."""
    assert isinstance(main, Group)
    plans = [make_stages(Path("/run"), flow, Path(__file__)) for flow in ("agents", "capture")]
    for stages in (*plans, make_stages(Path("/run"), "agents", feed="text")):
        for stage in stages:
            _, _, _, role, *arguments = stage.command(PORTS)
            command = main.get_command(Context(main), role)
            assert command is not None
            command.make_context(role, list(arguments))


def test_all_processes_go_by_one_name() -> None:
    for stage in make_stages(Path("/run"), "agents", run_id="loop-7"):
        command = list(stage.command(PORTS))
        assert command[command.index("--run-id") + 1] == "loop-7"
        assert command.index("--run-id") < command.index(stage.role), "an option of the root command"


NOW = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
DEAD_PID = 2**22 + 1
"""Above the largest process id that Linux and macOS give."""


def test_a_fresh_folder_is_named_by_time_and_process(tmp_path: Path) -> None:
    folder = make_run_folder(None, now=NOW, base=tmp_path / "runs", pid=77)
    assert folder == tmp_path / "runs" / "20260301T123005Z-77"
    assert folder.is_dir()


def test_old_runs_are_removed_and_nothing_else(tmp_path: Path) -> None:
    others = [tmp_path / "notes", tmp_path / "20260101T000000Z-x", tmp_path / f"20260101T000000Z-{os.getpid()}"]
    for other in others:
        other.mkdir()
    old = [tmp_path / f"2026020{day}T000000Z-{DEAD_PID}" for day in range(1, 9)]
    for folder in old:
        (folder / "exchange").mkdir(parents=True)
    fresh = make_run_folder(None, now=NOW, base=tmp_path)
    assert all(other.is_dir() for other in others)  # the last of them is of a process that lives
    assert [folder.name for folder in old if folder.exists()] == [folder.name for folder in old[-KEPT_RUNS + 1 :]]
    assert fresh.is_dir()


def test_a_given_folder_is_made_and_must_be_empty(tmp_path: Path) -> None:
    assert make_run_folder(tmp_path / "a" / "b", now=NOW).is_dir()
    with pytest.raises(DemoError, match="expected an empty folder for the run, was"):
        make_run_folder(tmp_path / "a", now=NOW)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DemoError, match=r"expected a folder for the run, was .*file"):
        make_run_folder(tmp_path / "file", now=NOW)


def test_the_temporary_folder_replaces_an_unwritable_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    folder = make_run_folder(None, now=NOW, base=tmp_path / "file" / "runs")
    assert folder.parent == tmp_path / "temporary" / "deltabook-runs"
