"""The tutorial's commands are known with all their options; `test_tutorial_run` gives them."""

from __future__ import annotations

import ast
import importlib
import re
from itertools import takewhile
from pathlib import Path

import click
import pytest

from deltabook.cli import main
from runtime.compiler import MARKET_RELATIONS, compile_program, read_script
from tests.generators.tutorial import DELTABOOK, PAGE, Command, SavedFile, Stop, steps

ROOT = Path(__file__).parents[3]
COMMANDS = [step for step in steps() if isinstance(step, Command) and step.words[0] == DELTABOOK]
FILES = {Path(step.path).name: step for step in steps() if isinstance(step, SavedFile)}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words[1:4]))
def test_a_command_is_known_with_its_options(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It parses, over the files that are there by then; nothing is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    for step in steps():
        if isinstance(step, SavedFile):
            path = tmp_path / step.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text)
    (tmp_path / "runs/tutorial/exchange").mkdir()
    (tmp_path / "runs/tutorial/algo").mkdir()
    (tmp_path / "runs/tutorial/day.itch").touch()
    words = list(takewhile(lambda word: word != "|", command.words[1:]))
    at: click.Command = main
    context = click.Context(main)
    while isinstance(at, click.Group):
        name = "run" if words[0].startswith("-") else words.pop(0)
        found = at.get_command(context, name)
        assert found is not None, name
        at = found
    at.make_context(at.name, words)


def test_it_goes_from_a_view_to_a_sweep() -> None:
    said = [" ".join(command.words[1:3]) for command in COMMANDS]
    for wanted in ("query add", "algo run", "dashboard --results", "exchange export-itch"):
        assert wanted in said
    assert said[-2].startswith("backtest ")
    assert said[-1].startswith("sweep ")
    assert sum(isinstance(step, Stop) for step in steps()) == 1


def test_the_strategy_has_thirty_lines() -> None:
    text = FILES["walls.py"].text
    ast.parse(text)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 30


def test_the_view_is_cheap_and_the_lane_can_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "walls.sql"
    path.write_text(FILES["walls.sql"].text)
    (view,) = compile_program(list(read_script(path).selects), MARKET_RELATIONS).views
    assert (view.name, view.view_class) == ("walls", "linear")


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)\)", PAGE.read_text()))))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (PAGE.parent / link).is_file()


def test_the_address_of_the_page_is_the_dashboards() -> None:
    (dashboard,) = (command for command in COMMANDS if command.words[1] == "dashboard")
    (address,) = re.findall(r"<http://127\.0\.0\.1:(\d+)/>", PAGE.read_text())
    assert dashboard.words[dashboard.words.index("--http-port") + 1] == address
    assert importlib.import_module("deltabook.cli.dashboard").command is not None
