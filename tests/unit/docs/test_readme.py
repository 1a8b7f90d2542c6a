"""The commands of the README and of the pages beside it are known, and their programs import what there is and run.

`test_links` follows the links.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deltabook.cli import main

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = README + "".join(
    (ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("parts.md", "figures.md", "development.md")
)
LINES = [
    shlex.split(line, comments=True)
    for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]
COMMANDS = [words[1:] for words in LINES if words and words[0] == ".venv/bin/deltabook"]
TARGETS = sorted({words[1] for words in LINES if words and words[0] == "make"})
DEFAULTS = {"run", "list", "show"}
"""Commands that need not be named in their groups."""
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_readme_fits_on_its_screens() -> None:
    """A newcomer reads it whole; what does not fit has a page in docs/."""
    assert len(README.splitlines()) <= 130


def test_the_test_command_of_the_readme_is_the_one_of_ci() -> None:
    (command,) = re.findall(r"^(make test)  ", README, re.MULTILINE)
    assert f"\n{command}\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_view_and_the_strategy_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are saved under the names in their first lines; then the README's commands about them are given."""
    files = re.findall(r"^```\w+\n((?:#|--) (lean\.\w+)[^\n]*\n.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert [name for _, name in files] == ["lean.sql", "lean.py"]
    for text, name in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    monkeypatch.chdir(tmp_path)
    explain, backtest = [words for words in COMMANDS if any(word.startswith("lean.") for word in words)]
    explained = CliRunner().invoke(main, explain, catch_exceptions=False)
    assert (explained.exit_code, "linear" in explained.output) == (0, True)
    played = CliRunner().invoke(main, [*backtest, "--json"], catch_exceptions=False)
    assert played.exit_code == 0
    (strategy,) = json.loads((tmp_path / "runs/lean/result.json").read_text())["strategies"]
    assert strategy["orders"]["filled"] > 0
    assert (tmp_path / "runs/lean/report.html").is_file()


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_made(target: str) -> None:
    assert re.search(rf"^{re.escape(target)}:.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def command_of(words: list[str]) -> click.Command:
    """Return the command that the words of a line select; the first word is the name of a command or group."""
    at: click.Command = main
    left = list(words)
    while isinstance(at, click.Group):
        names = at.list_commands(click.Context(main))
        is_named = bool(left) and not left[0].startswith("-")
        (name,) = [left.pop(0)] if is_named else [each for each in names if each in DEFAULTS]
        found = at.get_command(click.Context(main), name)
        assert found is not None, name
        at = found
    return at


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_every_option_of_a_command_is_one_of_its(words: list[str]) -> None:
    at = command_of(words)
    options = {option for parameter in at.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def shell_lines(page: Path) -> list[str]:
    """Return the command lines of a page's shell blocks, each without what a pipe or `&` connects it to."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_commands_of_a_page_have_what_they_require(page: Path) -> None:
    """A reader who copies a command is not told that an option is missing; `…` stands for options left out."""
    lacking = []
    for line in shell_lines(page):
        words = shlex.split(line, comments=True)
        if not words or words[0] not in {"deltabook", ".venv/bin/deltabook"} or "…" in words:
            continue
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        first = min(words.index(name) for name in main.list_commands(click.Context(main)) if name in words)
        required = [
            each for each in command_of(words[first:]).params if isinstance(each, click.Option) and each.required
        ]
        if any(not given & set(option.opts) for option in required):
            lacking.append(line)
    assert not lacking


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_a_program_imports_is_there(number: int) -> None:
    for node in ast.walk(ast.parse(PROGRAMS[number])):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, name.name) for name in node.names)
