"""Grids, their points, and what each point gives."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import msgspec
import pytest

from deltabook.backtest import Backtest, BacktestConfig, ConfigurationError, DataFile, SweepError
from deltabook.backtest.grid import Point, parse_axis, points_of
from deltabook.backtest.sweep import Sweep, SweepResult, _plain, _task, run_point
from queries import QUERIES_DIR
from runtime.spark.config import SparkConfig

CONFIG = BacktestConfig(("market_maker",), (DataFile(QUERIES_DIR / "trace-5000.csv"),), limit_records=1500)


def test_axes_and_points() -> None:
    axes = [parse_axis("a=1,2"), parse_axis("b=5..9..2")]
    assert axes == [("a", ("1", "2")), ("b", ("5", "7", "9"))]
    assert points_of(axes) == [("1", "5"), ("1", "7"), ("1", "9"), ("2", "5"), ("2", "7"), ("2", "9")]


@pytest.mark.parametrize("text", ["a", "a=", "=1", "a=1,1", "a=1..9..0", "a=0..1000000"])
def test_what_is_no_axis_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        parse_axis(text)


def test_a_grid_has_a_limit_and_different_parameters() -> None:
    with pytest.raises(ConfigurationError, match="at most 10000 points"):
        points_of([parse_axis("a=1..200"), parse_axis("b=1..200")])
    with pytest.raises(ConfigurationError, match="one grid or more"):
        points_of([parse_axis("a=1"), parse_axis("a=2")])
    with pytest.raises(ConfigurationError, match="one grid or more"):
        points_of([])


def test_each_value_of_a_point_belongs_to_its_axis() -> None:
    sweep = Sweep(CONFIG, [parse_axis("replace_ticks=1,3"), parse_axis("lots=5,7")])
    assert sweep.config_of(("3", "5")).parameters == ("replace_ticks=3", "lots=5")


def test_a_point_is_the_backtest_of_its_parameters(tmp_path: Path) -> None:
    sweep = Sweep(CONFIG, [parse_axis("replace_ticks=1,3")])
    point = run_point(sweep.config_of(("3",)), 2, ("3",), str(tmp_path))
    alone = msgspec.structs.replace(CONFIG, parameters=("replace_ticks=3",))
    data = Backtest(alone).run().to_json()
    assert (tmp_path / "00002.json").read_bytes() == data
    assert point.sha256 == hashlib.sha256(data).hexdigest()
    assert point.orders > 0
    assert point.error == ""
    assert "Backtest of market_maker" in (tmp_path / "00002.html").read_text()


def test_a_point_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    strategy = tmp_path / "breaks.py"
    strategy.write_text(
        "from algo_engine import Strategy\nclass Breaks(Strategy):\n    def on_start(self, context):\n        1 / 0\n"
    )
    assert "many" in run_point(msgspec.structs.replace(CONFIG, parameters=("replace_ticks=many",)), 1, ("many",)).error
    for strategies in ((str(strategy),), ("market_maker", str(strategy))):
        point = run_point(msgspec.structs.replace(CONFIG, strategies=strategies), 1, ())
        assert "ZeroDivisionError" in point.error
        assert point.profit == point.orders == 0


def test_the_best_points_come_first_and_the_page_shows_all(tmp_path: Path) -> None:
    points = [Point(1, ("1",), profit=5), Point(2, ("<2>",), error="no <figure>"), Point(3, ("3",), profit=9)]
    result = SweepResult(CONFIG, (("a", ("1", "<2>", "3")),), points, elapsed_s=3.0)
    assert [point.number for point in result.best] == [3, 1]
    json_path, page = result.write(tmp_path)
    decoded = msgspec.json.decode(json_path.read_bytes())
    assert decoded["best"] == [3, 1]
    assert "elapsed_s" not in decoded
    text = page.read_text()
    assert "no &lt;figure&gt;" in text
    assert "no <figure>" not in text


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.slow
def test_spark_gives_points_in_order_and_passes_a_failing_point() -> None:
    config = msgspec.structs.replace(CONFIG, limit_records=300)
    sweep = Sweep(config, [parse_axis("replace_ticks=1,x,4")])
    seen: list[tuple[int, int]] = []
    result = sweep.run(SparkConfig(), lambda done, of: seen.append((done, of)))
    alone = [run_point(sweep.config_of(values), n, values) for n, values in enumerate(sweep.points, 1)]
    assert result.points == alone
    assert [bool(point.error) for point in result.points] == [False, True, False]
    assert seen[-1] == (3, 3)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def on_worker(config: BacktestConfig, place: Path, folder: str = "") -> Point:
    """What a worker answers to a task of a sweep that was started at a place."""
    task = (config, 1, ("3",), folder, str(place), b"", "deltabook.backtest.sweep:BacktestExperiment")
    return msgspec.msgpack.decode(_task(msgspec.msgpack.encode(_plain(task))), type=Point)


def test_a_worker_finds_files_relative_to_the_sweeps_start(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_bytes((QUERIES_DIR / "trace-5000.csv").read_bytes())
    config = msgspec.structs.replace(CONFIG, data=(DataFile(Path("day.csv")),), parameters=("replace_ticks=3",))
    before = Path.cwd()
    point = on_worker(config, tmp_path)
    assert point.error == ""
    assert point.orders > 0
    assert Path.cwd() == before


def test_a_worker_that_does_not_see_a_file_says_which_and_where(tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, data=(DataFile(Path("day.csv")),))
    assert f"expected day.csv on {socket.gethostname()}" in on_worker(config, tmp_path).error
    assert "expected away on" in on_worker(CONFIG, tmp_path, "away").error
    gone = tmp_path / "gone"
    assert f"expected {gone} on {socket.gethostname()}" in on_worker(CONFIG, gone).error


def test_a_missing_file_is_refused_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltabook.backtest.sweep._on_spark", lambda *_: pytest.fail("Spark was started"))
    config = msgspec.structs.replace(CONFIG, data=(DataFile(Path("no-such-day.csv")),))
    with pytest.raises(SweepError, match=r"expected a file at no-such-day\.csv"):
        Sweep(config, [parse_axis("replace_ticks=1")]).run()


def test_a_sweep_without_a_point_that_can_be_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltabook.backtest.sweep._on_spark", lambda *_: [Point(1, ("1",), error="no such data")])
    with pytest.raises(SweepError, match="expected a point that can be run, was none: no such data"):
        Sweep(CONFIG, [parse_axis("half_spread_percent=1")]).run()


def test_unknown_parameters_are_refused_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltabook.backtest.sweep._on_spark", lambda *_: pytest.fail("Spark was started"))
    with pytest.raises(SweepError, match=r"was none: expected a parameter of .* was no_such_parameter"):
        Sweep(CONFIG, [parse_axis("no_such_parameter=1")]).run()
