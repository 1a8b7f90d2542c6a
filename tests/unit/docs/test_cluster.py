"""Every command of the page of the cluster is one that there is, with options that it has."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from deltabook.cli._root import COMMANDS

ROOT = Path(__file__).parents[3]
PAGES = ("docs/cluster.md", "deploy/kubernetes/README.md")


def commands() -> list[str]:
    """Command lines of ours in the pages' blocks, also those that run in a container."""
    found: list[str] = []
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8").replace("\\\n", " ")
        for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                starts = [place for place, word in enumerate(words) if word == "deltabook"]
                if starts and "kubectl" not in words:
                    found.append(shlex.join(words[starts[-1] + 1 :]))
    return found


@pytest.mark.parametrize("line", commands())
def test_a_command_is_one_that_there_is(line: str) -> None:
    first, *rest = shlex.split(line)
    assert first in COMMANDS
    command: click.Command = importlib.import_module(f"deltabook.cli.{first}").command
    while isinstance(command, click.Group):
        name = rest.pop(0) if rest and not rest[0].startswith("-") else getattr(command, "default", "")
        found = command.get_command(click.Context(command), name)
        assert found is not None, name
        command = found
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options


def test_there_are_commands() -> None:
    assert len(commands()) > 10
