"""`deltabook backtest` says what its recordings are like, and refuses those whose books are crossed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from deltabook.backtest.errors import SweepError
from deltabook.backtest.sweep import Sweep
from deltabook.cli import main
from deltabook.cli.backtest import config_of
from tests.generators.lobster_levels import write_lobster


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["backtest", "market_maker", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_stale_orders_are_refused_mended_or_played(tmp_path: Path) -> None:
    """The refusal names the option that mends the book and the one that does not."""
    messages, book = write_lobster(tmp_path, Random(5), 1, 600)
    reason = run("--data", messages, code=1)
    assert "expected a book that is crossed after 5 % of the records at most, was " in reason
    assert f"--orderbook {book} corrects it" in reason
    assert "--max-crossed 100 plays it as it is" in reason
    mended = run("--data", messages, "--orderbook", book)
    assert "order book file: the touch agrees on " in mended
    assert "is crossed after" not in mended
    assert "records without effect: " in mended
    played = run("--data", messages, "--max-crossed", "100")
    assert "the book of its records alone is crossed after " in played
    assert "lobster, REPLAY, 599 records (2012-06-21 09:30:00 to " in played


def test_files_beside_the_data_come_in_its_order(tmp_path: Path) -> None:
    """One for each file, or none; a day for each, or one for all."""
    path = tmp_path / "t.csv"
    path.write_text("1,1,B,5,100\n")
    two = ["--data", f"A={path}", "--data", f"B={path}"]
    for option, value in (("--orderbook", path), ("--trades", path)):
        result = CliRunner().invoke(main, ["backtest", "market_maker", *two, option, str(value)])
        assert (result.exit_code, f"expected one {option} for each of 2 files, was 1" in result.output) == (2, True)
    result = CliRunner().invoke(main, ["backtest", "market_maker", *two, *["--day", "2012-06-21"] * 3])
    assert "expected one --day, or one for each of 2 files, was 3" in result.output
    options = {
        "symbol": "REPLAY", "form": None, "days": ("2012-06-21", "2012-06-22"), "tick": "", "data": (str(path),) * 2,
        "folders": (), "parameters": (), "latency": "zero", "seed": 1, "fees": "", "step_us": 0, "warm_up": 0,
        "limit": 0, "first_broker_id": 9001, "max_crossed_percent": None, "queue": "front",
        "orderbooks": (), "trades": (path, tmp_path / "missing"),
    }  # fmt: skip
    config = config_of(("market_maker",), options)
    assert [(file.day, file.trades, file.queue) for file in config.data] == [
        ("2012-06-21", path, "front"), ("2012-06-22", tmp_path / "missing", "front")
    ]  # fmt: skip
    with pytest.raises(SweepError, match=r"^expected a file at .*missing, was none$"):
        Sweep(config, [("interval_ms", ("100",))]).run(jobs=1)
