"""What is read off a running cluster: processor time by part, ages by message; and the flow that is played."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv

from bench.cluster.document import PLACES
from bench.cluster.meter import Part, Process, processes, spent_s
from bench.cluster.plan import FULL, QUICK
from bench.cluster.recording import recorded
from bench.cluster.versions import Version, covered_ns, lags_ms, percentile
from bench.strategies.tables import placed

TICKS = os.sysconf("SC_CLK_TCK")
JAVA = "/opt/java/bin/java -cp x"


def process(pid: int, parent: int, command: str) -> Process:
    return Process(pid, parent, TICKS, 0, command)


def test_processes_belong_to_their_parent_part() -> None:
    table = {
        each.pid: each
        for each in [
            process(1, 0, "init"),
            process(10, 1, "python -m deltabook runtime --feed x"),
            process(20, 1, "python -m deltabook runtime --upstream a=b"),
            process(21, 20, f"{JAVA} org.apache.spark.deploy.SparkSubmit"),
            process(22, 21, "python -m pyspark.daemon"),
            process(30, 1, "python -m deltabook cluster local"),
            process(31, 30, f"{JAVA} org.apache.spark.deploy.master.Master"),
            process(32, 30, f"{JAVA} org.apache.spark.deploy.worker.Worker"),
            process(33, 32, f"{JAVA} org.apache.spark.executor.CoarseGrainedExecutorBackend"),
            process(34, 33, "python -m pyspark.daemon"),
            process(35, 34, "python -m pyspark.daemon"),
            process(40, 1, "python -m somebody.else"),
        ]
    }
    roots: dict[int, Part] = {10: "upstream", 20: "runtime", 30: "daemon", 99: "runtime"}
    assert spent_s(roots, {}, table) == {"upstream": 1, "runtime": 1, "driver": 2, "executor": 3, "daemon": 3}
    assert not any(spent_s(roots, table, table).values())


def test_earlier_use_of_an_ended_process_is_counted_once() -> None:
    roots: dict[int, Part] = {1: "runtime"}
    before = {1: Process(1, 0, 10 * TICKS, 0, "python"), 2: Process(2, 1, 5 * TICKS, 1 * TICKS, "python")}
    ended = {1: Process(1, 0, 11 * TICKS, 8 * TICKS, "python")}
    assert spent_s(roots, before, ended)["runtime"] == 1 + (8 - 5 - 1)
    lost = {1: Process(1, 0, 11 * TICKS, 0, "python")}
    assert spent_s(roots, before, lost)["runtime"] == 1, "nobody waited for its end"


def test_a_process_has_any_name_and_may_end_during_the_look(tmp_path: Path) -> None:
    for name in ("12", "13", "self"):
        (tmp_path / name).mkdir()
    (tmp_path / "12" / "stat").write_text("12 (a) b) (c) S 7 12 12 0 -1 0 1 2 3 4 500 60 7 8 20 0 1 0 99\n")
    (tmp_path / "12" / "cmdline").write_bytes(b"python\0-m\0deltabook\0")
    assert processes(tmp_path) == {12: Process(12, 7, 560, 15, "python -m deltabook ")}


def version(number: int, published_ms: int, **cuts: int) -> Version:
    return Version(number - 1, number, published_ms * 1_000_000, cuts)


VERSIONS = [version(1, 100, a=10, b=0), version(2, 200, a=10, b=5), version(3, 350, a=30, b=5)]


def test_a_message_is_covered_by_the_first_version_with_it() -> None:
    assert covered_ns(VERSIONS, {"a": 10}) == 100_000_000
    assert covered_ns(VERSIONS, {"a": 10, "b": 5}) == 200_000_000
    assert covered_ns(VERSIONS, {"a": 11, "b": 5}) == 350_000_000
    assert covered_ns(VERSIONS, {"a": 31}) is None
    assert covered_ns(VERSIONS, {"c": 1}) is None


def test_the_age_of_a_message_ends_at_its_first_version() -> None:
    stamps = [(5, 40_000_000), (10, 90_000_000), (20, 150_000_000), (30, 330_000_000), (40, 340_000_000)]
    ages, counts = lags_ms(VERSIONS, "a", stamps)
    assert ages.tolist() == [60, 10, 200, 20]
    assert counts.tolist() == [5, 5, 10, 10]
    assert percentile(ages, counts, 50) == 20
    assert percentile(ages, counts, 99) == 200
    assert percentile(np.array([3.0]), np.array([1.0]), 50) == 3


def test_a_recording_has_every_message_of_both_exchanges(
    tmp_path: Path,
) -> None:
    made = recorded(tmp_path, 4, 400, 4_000)
    names = ["sequence", "time_ns", "order_id", "broker_id", "action", "volume", "price", "symbol"]
    options = pacsv.ReadOptions(column_names=names)
    whole, *halves = (pacsv.read_csv(path, read_options=options) for path in (made.whole, *made.halves))
    assert made.messages == (whole.num_rows, *(half.num_rows for half in halves))
    for table in (whole, *halves):
        assert table["sequence"].to_pylist() == list(range(1, table.num_rows + 1))
        assert (np.diff(table["time_ns"].to_numpy()) >= 0).all()
    assert set(halves[0]["symbol"].to_pylist()) == {"S000", "S002"}
    assert set(whole["action"].to_pylist()) == {"B", "S", "D", "E", "F"}
    kept = ["time_ns", "action", "volume", "price", "symbol"]
    for half in halves:
        mine = {*half["symbol"].to_pylist()}
        rows = [row for row in whole.select(kept).to_pylist() if row["symbol"] in mine]
        assert rows == half.select(kept).to_pylist()
    actions = whole["action"].to_pylist()
    assert 300 < sum(actions.count(a) for a in "BS") - sum(actions.count(a) for a in "DF") < 600, "about 400 are alive"
    orders = whole.filter(np.isin(whole["action"].to_pylist(), ["B", "S"]))["order_id"].to_pylist()
    assert len(set(orders)) == len(orders)
    assert recorded(tmp_path, 4, 400, 4_000) == made


def test_every_point_has_its_name_and_quick_runs_a_subset() -> None:
    names = [point.name for point in FULL.points]
    assert len(set(names)) == len(names)
    assert {point.name for point in QUICK.points} < set(names)
    assert {(p.workers, p.runtimes) for p in FULL.points} >= {(w, r) for w in (1, 2, 4) for r in (1, 2)}


def test_the_page_has_a_place_for_every_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "scaling.md").read_text("utf-8")
    for place in PLACES:
        page = placed(page, place, "here")
    assert page.count("\nhere\n") == len(PLACES)
