"""Figures of a market: of series that are known, of a journal, of recorded files, and of the BTC/USD recording."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from deltabook.backtest import ConfigurationError, DataFile
from deltabook.cli import main
from deltabook.demo.captures import capture_file
from deltabook.facts import (
    BANDS,
    MORE_ROWS,
    RECORDED,
    ROWS,
    Band,
    Observation,
    autocorrelation,
    draw,
    facts_of,
    kurtosis,
    watch_capture,
    watch_files,
    watch_journal,
)
from deltabook.simulation import Simulation, SimulationConfig
from exchange_server.config import DEFAULT_INSTRUMENTS
from exchange_server.journal.history import History
from exchange_server.matching import Market, Now
from exchange_server.nasdaq.mold import framed_messages
from exchange_server.outputs import all_outputs

MARKET = SimulationConfig(hours=0.03, seed=3, instruments=DEFAULT_INSTRUMENTS[:2], rate_per_s=150)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("facts") / "exchange"
    Simulation(MARKET, directory=found).run()
    return found


@pytest.fixture(scope="module")
def seen(directory: Path) -> Observation:
    return watch_journal(directory, "ACME")


def test_moments_and_memory() -> None:
    rng = np.random.default_rng(1)
    normal = rng.standard_normal(200_000)
    assert kurtosis(normal) == pytest.approx(3, abs=0.05)
    assert autocorrelation(normal, 1) == pytest.approx(0, abs=0.01)
    assert autocorrelation(np.repeat(normal, 2), 1) == pytest.approx(0.5, abs=0.01)


def test_bands() -> None:
    assert Band(factor=2).holds(0.5, 1)
    assert not Band(factor=2).holds(0.49, 1)
    assert Band(difference=0.1).holds(-0.05, 0.04)
    assert not Band(difference=0.1).holds(0.15, 0.04)
    assert BANDS.keys() == RECORDED.keys() == {*ROWS, *MORE_ROWS}
    assert all(band.holds(RECORDED[name], RECORDED[name]) for name, band in BANDS.items())


def test_a_journal_is_watched(seen: Observation) -> None:
    """As many seconds as there are behind the first ten, and figures of all."""
    assert seen.seconds == pytest.approx(98, abs=2)
    facts = {fact.name: fact for fact in facts_of(seen)}
    assert len(facts) == len(RECORDED)
    assert facts["spread, median, steps"].is_within
    assert 0.5 < facts["orders cancelled, of those displayed"].value < 1
    assert facts["correlation of lots bought net with the move"].value > 0.1
    # Who takes from sellers moves the price up, and not down.
    assert facts["impact: move for each clip bought net in a second, steps"].value > 0


def test_each_symbol_is_watched_alone(directory: Path, seen: Observation) -> None:
    other = watch_journal(directory, "GLOBEX")
    assert other.name == "GLOBEX"
    assert other.step_ticks == 5
    assert other.mids.tolist() != seen.mids.tolist()
    assert abs(other.added - seen.added) < other.added / 2
    with pytest.raises(ConfigurationError, match="ACME, GLOBEX, was WHAT"):
        watch_journal(directory, "WHAT")


def test_trades_are_those_of_the_symbol(directory: Path, seen: Observation) -> None:
    """Orders for one trade are orders and trades of the same symbol; all symbols together have all trades."""
    each = [watch_journal(directory, instrument.symbol, warm_s=0) for instrument in MARKET.instruments]
    reader = History(directory, all_outputs).reader
    market = Market(reader.head.rules, (), (), Now())
    for _, batch in reader.batches(0):
        for item in batch:
            market.apply(item)
    assert sum(one.trades for one in each) == pytest.approx(market.trades, abs=20)
    assert seen.trades_per_s.sum() <= seen.trades


def test_a_halt_is_no_second(tmp_path: Path) -> None:
    """The trades and orders between the seconds before and after a halt happened in no second."""
    halted = msgspec.structs.replace(MARKET, halts=("40s+20s+10s",), instruments=DEFAULT_INSTRUMENTS[:1])
    Simulation(halted, directory=tmp_path / "d").run()
    watched = watch_journal(tmp_path / "d")
    assert watched.seconds == pytest.approx(98 - 30, abs=2)
    assert len(watched.returns(1)) == len(watched.orders_per_s) == watched.seconds - 2
    assert len(watched.returns(10)) == pytest.approx(5, abs=1)
    assert watched.orders_per_s.max() < 4 * watched.orders_per_s.mean()


def test_the_same_market_as_a_recorded_file(tmp_path: Path, directory: Path, seen: Observation) -> None:
    """Its feed as ITCH has the same prices and spreads, in ticks of a hundredth."""
    walk = History(directory, all_outputs).walk(lambda _: False)
    path = tmp_path / "day.itch"
    with path.open("wb") as out:

        def write(name: str, data: bytes) -> None:
            if name == "feed.itch":
                out.write(b"".join(framed_messages(data)))

        walk.on_output = write
        for _ in walk.each():
            pass
    found = watch_files([DataFile(path, "itch", "ACME", "2026-01-05", "0.01")], step_ticks=2)
    assert found.seconds == pytest.approx(seen.seconds, abs=2)
    assert np.median(found.spreads) == np.median(seen.spreads)
    assert found.mids[5:80].tolist() == pytest.approx(seen.mids[5:80].tolist(), abs=2)


def test_too_little_is_refused(tmp_path: Path) -> None:
    Simulation(SimulationConfig(hours=0.005), directory=tmp_path / "d").run()
    with pytest.raises(ConfigurationError, match="expected 60 seconds"):
        watch_journal(tmp_path / "d")


@pytest.mark.slow
def test_the_recorded_figures_are_those_of_the_recording() -> None:
    found = {fact.name: fact.value for fact in facts_of(watch_capture(capture_file(os.environ)))}
    assert found == pytest.approx(dict(RECORDED), rel=1e-3)


def test_the_command(tmp_path: Path, directory: Path) -> None:
    out = tmp_path / "report"
    done = CliRunner().invoke(main, ["market-report", "--dir", str(directory), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "spread, median, steps" in done.output
    assert f"of {len(RECORDED)} figures are within their bands" in done.output
    facts = json.loads((out / "facts.json").read_bytes())
    assert [fact["name"] for fact in facts] == list(RECORDED)
    assert (out / "facts.png").read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(main, ["market-report"]).exit_code == 2


def test_panels_are_drawn(tmp_path: Path, seen: Observation) -> None:
    draw([seen, seen], tmp_path / "two.png")
    assert (tmp_path / "two.png").stat().st_size > 10_000
