"""The README's links lead somewhere, its commands are known, and its programs import what there is."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from deltabook.cli import main

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
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


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)\)", TEXT))))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_made(target: str) -> None:
    assert re.search(rf"^{re.escape(target)}:.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_every_option_of_a_command_is_one_of_its(words: list[str]) -> None:
    at: click.Command = main
    left = list(words)
    while isinstance(at, click.Group):
        names = at.list_commands(click.Context(main))
        is_named = bool(left) and not left[0].startswith("-")
        (name,) = [left.pop(0)] if is_named else [each for each in names if each in DEFAULTS]
        found = at.get_command(click.Context(main), name)
        assert found is not None, name
        at = found
    options = {option for parameter in at.params for option in parameter.opts}
    assert {word for word in left if word.startswith("--")} <= options


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_a_program_imports_is_there(number: int) -> None:
    for node in ast.walk(ast.parse(PROGRAMS[number])):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, name.name) for name in node.names)
