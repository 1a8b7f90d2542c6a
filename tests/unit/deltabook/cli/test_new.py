"""What `deltabook new` writes runs as it is, and overwrites nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def following(done: Result) -> list[str]:
    """The words of the command that is named as the next one."""
    assert done.exit_code == 0, done.output
    line = done.output.splitlines()[-1]
    assert line.startswith("next: deltabook ")
    return shlex.split(line.removeprefix("next: deltabook "))


def test_a_new_strategy_runs_in_a_backtest_and_trades(place: Path) -> None:
    """By the very command that is named."""
    words = following(run("new", "strategy", "my_own"))
    assert (place / "my_own.py").read_text().startswith('"""my_own: a strategy.')
    assert "class MyOwn(Strategy[Parameters]):" in (place / "my_own.py").read_text()
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert " 0 own" not in done.output
    assert (place / "my_own-report" / "report.html").is_file()


def test_a_new_view_is_one_that_can_be_kept(place: Path) -> None:
    words = following(run("new", "view", "walls"))
    assert (place / "walls.sql").is_file()
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("view walls: linear")


@pytest.mark.parametrize(("kind", "file"), [("strategy", "mine.py"), ("view", "mine.sql")])
def test_nothing_is_written_over(place: Path, kind: str, file: str) -> None:
    (place / file).write_text("precious")
    done = run("new", kind, "mine")
    assert (done.exit_code, (place / file).read_text()) == (1, "precious")
    assert f"expected no file {file} yet, was one" in done.stderr


@pytest.mark.parametrize("name", ["Mine", "../mine", "1st", "my-own", "", "x" * 70])
def test_a_name_that_is_none_is_refused(place: Path, name: str) -> None:
    done = run("new", "strategy", name)
    assert (done.exit_code, list(place.iterdir())) == (2, [])
    assert "expected a name of small letters" in done.stderr


@pytest.mark.parametrize("name", ["asks", "bids", "trades", "best_quote", "none", "true", "false"])
@pytest.mark.parametrize("kind", ["strategy", "view"])
def test_a_name_that_is_taken_is_refused(place: Path, kind: str, name: str) -> None:
    """The file would not run: its view, or the class, cannot have this name."""
    done = run("new", kind, name)
    assert (done.exit_code, list(place.iterdir())) == (2, [])
    assert "expected a name other than asks, best_quote, bids" in done.stderr
