"""The calls of a notebook give what the classes behind them give, and refuse what cannot be used."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import msgspec
import pytest

import deltabook
from algo_engine.errors import ParameterError, StrategyNotFound
from deltabook import Context, Strategy, ViewChange
from deltabook.backtest import Backtest, BacktestConfig, ConfigurationError, DataFile, StrategyStopped, SweepError
from deltabook.backtest.grid import parse_axis
from deltabook.backtest.sweep import Sweep
from deltabook.notebook import BacktestOptions
from queries import QUERIES_DIR

TRACE = QUERIES_DIR / "trace-5000.csv"


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lots: int = 100
    is_broken: bool = False


class Takes(Strategy[Parameters]):
    """Takes what is offered best, again and again, as far as its limits let it."""

    parameters_type = Parameters

    def on_view_change(self, change: ViewChange) -> None:
        if self.parameters.is_broken:
            raise ValueError("no idea")
        for symbol in self.context.symbols():
            quote = self.context.quote(symbol)
            if quote and quote.ask_price_ticks and not self.context.open_orders(symbol):
                self.context.buy(symbol, self.parameters.lots, quote.ask_price_ticks)


def test_a_backtest_is_the_one_of_the_configuration() -> None:
    found = deltabook.run_backtest(
        ["market_maker", "sobi"], {"ACME": TRACE}, parameters={"market_maker.interval_ms": 100, "sobi.factor": 2},
        latency="fixed:order=1ms", fees="maker=-20", limit=1500, day="2012-06-21", seed=3, warm_up=10, points=50,
    )  # fmt: skip
    config = BacktestConfig(
        ("market_maker", "sobi"), (DataFile(TRACE, symbol="ACME", day="2012-06-21"),),
        ("market_maker.interval_ms=100", "sobi.factor=2"), latency="fixed:order=1ms", fees="maker=-20",
        limit_records=1500, seed=3, warm_up_records=10, points=50,
    )  # fmt: skip
    assert found.to_json() == Backtest(config).run().to_json()


def test_a_class_runs_again_and_again() -> None:
    first, second = (
        deltabook.run_backtest(Takes, TRACE, parameters={"lots": 50}, limit=1000).to_json() for _ in range(2)
    )
    assert first == second
    assert msgspec.json.decode(first)["config"]["strategies"] == ["Takes"]


def test_a_class_and_the_file_of_it_do_the_same(tmp_path: Path) -> None:
    path = tmp_path / "takes.py"
    path.write_text(
        "import msgspec\nfrom deltabook import Strategy\n"
        + Path(__file__).read_text().partition("\n\n\n")[2].partition("\n\n\ndef ")[0].replace(": ViewChange", "")
    )
    by_class, by_file = (deltabook.run_backtest(each, TRACE) for each in (Takes, path))
    assert by_class.fills == [msgspec.structs.replace(trade, strategy="Takes") for trade in by_file.fills]
    assert by_class.fills


def test_a_strategy_that_raises_ends_with_its_own_error() -> None:
    with pytest.raises(StrategyStopped, match=r"before the end of its data: .*Takes: ValueError: no idea") as error:
        deltabook.run_backtest(Takes, TRACE, parameters={"is_broken": True})
    assert isinstance(error.value.__cause__, ValueError)
    assert error.value.result.strategies[0].failure == "ValueError: no idea"
    assert isinstance(error.value, deltabook.BacktestError)


class FailsAtTheEnd(deltabook.Strategy[Parameters]):
    def on_stop(self) -> None:
        raise ValueError("no idea")


def test_a_failure_in_on_stop_is_no_early_end() -> None:
    """The strategy has seen all data: the result is whole, and names the failure with its strategy."""
    simulated = deltabook.simulate(FailsAtTheEnd, hours=0.002)
    for result in (deltabook.run_backtest(FailsAtTheEnd, TRACE, limit=100), simulated):
        assert result.failure == ""
        assert result.strategies[0].failure == "on_stop: ValueError: no idea"


GRID = {"lots": (50, 100), "is_broken": [False, True]}


def test_a_sweep_is_the_one_of_the_configuration(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = deltabook.sweep(
        "market_maker", TRACE, {"replace_ticks": (1, 3)}, limit=800, folder=tmp_path,
        on_progress=lambda *at: seen.append(at),
    )  # fmt: skip
    config = BacktestConfig(("market_maker",), (DataFile(TRACE),), limit_records=800)
    again = Sweep(config, [parse_axis("replace_ticks=1,3")]).run(jobs=1)
    assert found.to_json() == again.to_json()
    assert seen == [(1, 2), (2, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00001.html", "00001.json", "00002.html", "00002.json",
    ]  # fmt: skip


@pytest.mark.process
def test_processes_give_equal_points_of_an_unimportable_class() -> None:
    class Own(Parameters, frozen=True):
        ticks: int = 0

    class Local(Takes):
        parameters_type = Own

        def on_start(self, context: Context) -> None:
            assert isinstance(self.parameters, Own)

    alone = deltabook.sweep(Local, TRACE, GRID, limit=600)
    assert deltabook.sweep(Local, TRACE, GRID, limit=600, jobs=2).points == alone.points
    assert [bool(point.error) for point in alone.points] == [False, True, False, True]
    assert alone.points[0].orders > 0


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_equal_points_of_an_unimportable_class() -> None:
    class Local(Takes):
        pass

    alone = deltabook.sweep(Local, TRACE, GRID, limit=600)
    assert deltabook.sweep(Local, TRACE, GRID, limit=600, master="local[2]").points == alone.points


def test_a_process_that_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub takes the place of the pool, as a test must not kill processes that it does not know."""
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    class Pool:
        def __init__(self, workers: int, mp_context: object) -> None:
            assert workers == 2

        def submit(self, *_: object) -> Future[bytes]:
            future: Future[bytes] = Future()
            future.set_exception(BrokenProcessPool("gone"))
            return future

        def shutdown(self, *, cancel_futures: bool) -> None:
            assert cancel_futures

    monkeypatch.setattr("deltabook.backtest.sweep.ProcessPoolExecutor", Pool)
    with pytest.raises(
        SweepError, match=r"processes of the sweep to run to its end, was a process that ended; .*__main__"
    ):
        deltabook.sweep("market_maker", TRACE, {"replace_ticks": (1, 3)}, jobs=9)


def test_a_replay_takes_the_data_of_a_backtest() -> None:
    (first, *_) = deltabook.replay({"ACME": TRACE}, ["best_quote"], limit=500, epoch_ms=2000)
    assert first["best_quote"].added.column("symbol").to_pylist() == ["ACME"]


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"data": "no/such.csv"}, ConfigurationError, "expected a recorded file, was nothing at no/such.csv"),
    ({"data": QUERIES_DIR}, ConfigurationError, "expected a recorded file, was nothing at"),
    ({"data": 3}, ConfigurationError, "expected a recorded file, or several, was 3"),
    ({"data": [3]}, ConfigurationError, "expected a path to a recorded file, was 3"),
    ({"data": []}, ConfigurationError, "expected data to play, was none"),
    ({"data": __file__}, ConfigurationError, "expected a format to be named for"),
    ({"strategy": int}, StrategyNotFound, "expected a subclass of Strategy, .* was <class 'int'>"),
    ({"strategy": Takes(Parameters())}, StrategyNotFound, "expected a subclass of Strategy"),
    ({"strategy": "nobody"}, StrategyNotFound, "expected one of market_maker, .* was nobody"),
    ({"strategy": "nobody.py"}, StrategyNotFound, "expected a strategy file, was nothing at nobody.py"),
    ({"strategy": []}, StrategyNotFound, "expected strategies with different names, was none"),
    ({"strategy": [Takes, Takes]}, StrategyNotFound, "expected strategies with different names, was Takes, Takes"),
    ({"parameters": {"lot": 1}}, ParameterError, "expected a parameter of Takes out of lots, is_broken, was lot"),
    ({"parameters": {"lots": "x"}}, ParameterError, "expected valid parameters of Takes"),
    ({"parameters": {"lots": None}}, ConfigurationError, "expected a value of the parameter lots, was None"),
    ({"latency": "quick"}, ConfigurationError, "expected a latency zero, fixed:…, .* was 'quick'"),
    ({"views": {"v": "SELECT nope FROM bids"}}, ConfigurationError, "v:1:8: unknown column 'nope'"),
    ({"fees": "little"}, ParameterError, "expected fees such as"),
    ({"format": "pcap"}, ConfigurationError, "expected one of the formats .* was 'pcap'"),
    ({"day": "today"}, ConfigurationError, "expected a day as in 2012-06-21, was 'today'"),
    ({"tick": "much"}, ConfigurationError, "expected a tick of whole 0.0001"),
    ({"limit": -1}, ConfigurationError, "expected limit of 0 or more, was -1"),
]


@pytest.mark.parametrize(("given", "error", "words"), BAD)
def test_what_a_backtest_cannot_use_is_refused(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        deltabook.run_backtest(**{"strategy": Takes, "data": TRACE, **given})
    assert isinstance(caught.value, (deltabook.BacktestError, deltabook.AlgoError))


@pytest.mark.parametrize(
    ("grid", "jobs", "words"),
    [
        ({}, 1, r"expected a grid as in \{parameter: \[values\]\}, was \{\}"),
        (["lots"], 1, "expected a grid as in"),
        ({"lots": "50"}, 1, "expected values of lots, as in .* was '50'"),
        ({"lots": 50}, 1, "expected values of lots, as in .* was 50"),
        ({"lots": []}, 1, "expected different values of lots, was none"),
        ({"lots": [1, 1]}, 1, "expected different values of lots, was 1, 1"),
        ({"lots": range(101), "x": range(100)}, 1, "expected at most 10000 points, was 10100"),
        ({"lots": [1]}, 0, "expected 1 to 64 jobs, was 0"),
        ({"lots": [1]}, 65, "expected 1 to 64 jobs, was 65"),
    ],
)
def test_what_a_sweep_cannot_use_is_refused(grid: Any, jobs: int, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        deltabook.sweep(Takes, TRACE, grid, jobs=jobs)


@pytest.mark.parametrize("call", [deltabook.run_backtest, deltabook.sweep])
def test_a_tooltip_has_every_option_with_its_default(call: Any) -> None:
    shown = inspect.signature(call).parameters
    assert set(BacktestOptions.__annotations__) <= set(shown)
    assert "options" not in shown
    assert (shown["latency"].default, shown["limit"].default, shown["latency"].annotation) == ("zero", 0, "str")


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="was latencies"):
        deltabook.run_backtest(Takes, TRACE, latencies="zero")  # type: ignore[call-arg]
