"""`deltabook simulate`: what it prints and writes is the simulation of its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import deltabook
from deltabook.cli import main
from deltabook.simulation import Simulation, SimulationConfig
from deltabook.wire.symbols import Instrument

SHORT = ("--hours", "0.001", "--agents", "lively")


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def test_json_is_the_result_of_the_options() -> None:
    done = simulate(
        "market_maker", "sobi", *SHORT, "--seed", "4", "--set", "noise.market=0.2", "--latency", "sobi=distance:500km",
        "--latency", "fixed:order=1ms", "--compute", "sobi=2ms", "--compute", "10us", "--halt", "1s+500ms",
        "--param", "sobi.factor=2", "--opening-auction", "1", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    config = SimulationConfig(
        ("market_maker", "sobi"), hours=0.001, agents="lively", seed=4, settings=("noise.market=0.2",),
        latency="fixed:order=1ms", latencies={"sobi": "distance:500km"}, compute="10us", computes={"sobi": "2ms"},
        halts=("1s+500ms",), parameters=("sobi.factor=2",), opening_s=1.0,
    )  # fmt: skip
    assert done.stdout_bytes == Simulation(config).run().to_json()


def test_tables_files_and_journal(tmp_path: Path) -> None:
    done = simulate("market_maker", *SHORT, "--out", str(tmp_path / "out"), "--dir", str(tmp_path / "exchange"))
    assert done.exit_code == 0, done.output
    assert "profits in ticks × lots" in done.stdout
    assert "requests/s" in done.stdout
    assert "info" not in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "result.json", "trades.csv", "trades.parquet", "orders.csv", "daily.csv", "report.html"
    }  # fmt: skip
    report = (tmp_path / "out" / "report.html").read_text()
    assert "Simulation of market_maker" in report
    assert "deltabook simulate market_maker --hours 0.001 --agents lively" in report
    checked = CliRunner().invoke(main, ["exchange", "verify", str(tmp_path / "exchange"), "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)["problems"] == []


def test_agents_alone(tmp_path: Path) -> None:
    done = simulate(*SHORT, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "profits" not in done.stdout
    assert "Simulation of the market" in (tmp_path / "report.html").read_text()


def test_instruments_are_symbols_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "instruments.json"
    path.write_bytes(msgspec.json.encode([Instrument("TINY", "0.01", "1", 500)]))
    for given, symbols in ((str(path), ["TINY"]), ("ACME,OTHER", ["ACME", "OTHER"])):
        done = simulate(*SHORT, "--instruments", given, "--json")
        assert [each["symbol"] for each in json.loads(done.stdout)["instruments"]] == symbols


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agents", "dya"], "did you mean 'day'"),
        (["--instruments", "nowhere.json"], "expected a JSON file of instruments"),
        (["nobody"], "expected one of"),
        (["--latency", "sobi=zero"], "was of sobi"),
    ],
)
def test_a_wrong_option_is_one_line(arguments: list[str], words: str) -> None:
    done: Any = CliRunner().invoke(main, ["simulate", *SHORT, *arguments])
    assert done.exit_code != 0
    assert words in done.stderr + str(done.exception)


def test_a_strategy_that_fails_ends_it_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "breaks.py"
    path.write_text(
        "from algo_engine import Strategy\nclass Breaks(Strategy):\n    def on_start(self, context):\n        1 / 0\n"
    )
    done = simulate(str(path), *SHORT)
    assert done.exit_code == 1
    assert "ended before the end of its day" in done.stderr


GRID = ("--grid", "seed=1,2", "--grid", "agents.noise.market=0.01,0.2", "--grid", "replace_ticks=1..3..2")


def test_a_grid_of_simulations(tmp_path: Path) -> None:
    """Its points are those of `deltabook.sweep_simulations`, and each is the simulation of its options."""
    done = simulate("market_maker", *SHORT, *GRID, "--jobs", "1", "--out", str(tmp_path), "--keep-results", "--json")
    assert done.exit_code == 0, done.output
    grid: dict[str, list[float]] = {"seed": [1, 2], "agents.noise.market": [0.01, 0.2], "replace_ticks": [1, 3]}
    same = deltabook.sweep_simulations("market_maker", grid, hours=0.001, agents="lively")
    assert done.stdout_bytes == same.to_json() == (tmp_path / "sweep.json").read_bytes()
    alone = simulate(
        "market_maker", *SHORT, "--seed", "2", "--set", "noise.market=0.01", "--param", "replace_ticks=3", "--json"
    )
    assert (tmp_path / "points" / "00006.json").read_bytes() == alone.stdout_bytes


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.spark
def test_a_grid_over_spark_has_the_same_points() -> None:
    """Spark's workers run the simulations; seeds, agents and strategies go there as data."""
    here = simulate("market_maker", *SHORT, *GRID, "--jobs", "1", "--json")
    spark = simulate("market_maker", *SHORT, *GRID, "--master", "local[2]", "--json")
    assert spark.exit_code == 0, spark.output
    assert spark.stdout_bytes == here.stdout_bytes
    assert len(json.loads(spark.stdout)["points"]) == 8


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--jobs", "2"), "--jobs needs --grid"),
        (("--master", "local[1]"), "--master needs --grid"),
        (("--keep-results",), "--keep-results needs --grid"),
        (("--grid", "seed=1", "--dir", "new"), "--dir cannot be used with --grid"),
        (("--grid", "seed=1", "--keep-results"), "--keep-results needs --out"),
    ],
)
def test_options_that_do_not_go_together(options: tuple[str, ...], reason: str) -> None:
    done = simulate(*SHORT, *options)
    assert done.exit_code == 2
    assert reason in done.output
