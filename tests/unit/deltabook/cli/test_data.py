"""`deltabook data`: files are described, and converted to what a backtest plays alike."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import msgspec
from click.testing import CliRunner

from deltabook.backtest import Backtest, BacktestConfig, DataFile
from deltabook.cli import main
from queries import QUERIES_DIR
from tests.generators.lobster_levels import write_lobster

TRACE = QUERIES_DIR / "trace-5000.csv"


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["data", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_a_file_is_described() -> None:
    """Format, times, actions, prices, and the share of a crossed book."""
    output = run("info", TRACE)
    assert "trace-5000.csv: dbtoaster, REPLAY, 5,000 records (1970-01-01 09:30:00 to" in output
    assert "the book of its records alone is crossed after 4,889 of them (97.8 %)" in output
    found = json.loads(run("info", TRACE, "--json"))
    (symbol,) = found[0]["symbols"]
    assert (symbol["records"], symbol["actions"]["B"], found[0]["tick_size"]) == (5000, 1450, "0.0001")
    assert float(symbol["lowest_price"]) < float(symbol["highest_price"])


def test_an_order_book_file_is_compared(tmp_path: Path) -> None:
    """Rows that agree, and reasons of the others."""
    messages, book = write_lobster(tmp_path, Random(2), 2, 300)
    assert "order book file: the touch agrees on" in run("info", messages, "--orderbook", book)


def test_a_converted_recording_gives_the_same_backtest(tmp_path: Path) -> None:
    """One file or a folder, of any format that says no scale itself: all but the sources is the same."""
    results = []
    for name in ("", "out.parquet", "out"):
        path = TRACE
        if name:
            path = tmp_path / name
            assert "5,000 records of ACME; 0 bad and 0 left out" in run("convert", TRACE, path, "--symbol", "ACME")
        file = DataFile(path, symbol="ACME" if not name else "REPLAY")
        result = Backtest(BacktestConfig(("market_maker",), (file,), ("interval_ms=100",))).run()
        results.append(msgspec.structs.replace(result, config=None, sources=[], elapsed_s=0.0).curve)
        assert result.instruments[0].symbol == "ACME"
        assert result.sources[0].crossed == 4889
    assert results[0] == results[1] == results[2]
    assert "parquet, ACME, 5,000 records" in run("info", tmp_path / "out", tmp_path / "out.parquet")


def test_prices_alone_are_not_converted(tmp_path: Path) -> None:
    """They have no book, and a recording has one."""
    path = tmp_path / "bars.csv"
    path.write_text("open_time,open,high,low,close,volume\n60,1,1,1,1,4\n")
    result = CliRunner().invoke(main, ["data", "convert", str(path), str(tmp_path / "out.parquet")])
    assert result.exit_code != 0
    assert not (tmp_path / "out.parquet").exists()


def test_a_file_out_of_order_is_described(tmp_path: Path) -> None:
    """Its records have other times than it says."""
    path = tmp_path / "t.csv"
    path.write_text("5,1,B,1,1\n4,2,B,1,1\n3,3,B,1,1\n")
    assert "2 records were earlier than the one before them, and are played at its time" in run("info", path)


def test_a_symbol_that_no_request_can_have_is_refused() -> None:
    """Before the backtest sends a request with it."""
    for symbol in ("é", "a b", "x" * 17):
        assert "expected a symbol of 1 to 16 ASCII characters" in run("info", TRACE, "--symbol", symbol, code=1)


def test_a_tick_of_a_million_digits_is_refused(tmp_path: Path) -> None:
    """At once."""
    arguments = ["backtest", "market_maker", "--data", str(TRACE), "--tick", "1e999990"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "expected a tick of whole 0.0001" in result.output
