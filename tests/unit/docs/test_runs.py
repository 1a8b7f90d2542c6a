"""The pages on run directories and on faults name commands, options and formats that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from algo_engine.desk.records import Checkpoint
from deltabook.backup.manifest import Manifest
from deltabook.cli import main
from exchange_server.journal.inputs_log import JOURNAL_VERSION
from exchange_server.journal.snapshots import SNAPSHOT_VERSION
from runtime.plan import FORMAT_VERSION
from runtime.spark.beginning import MARK, wanted
from runtime.state import stores

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "runs.md").read_text()
PAGES = PAGE + (ROOT / "docs" / "faults.md").read_text()
COMMANDS = sorted({found.strip() for found in re.findall(r"deltabook (?!deltabook)((?:[a-z]+ ?)+)(?=[ `\n])", PAGES)})
GROUPS = {"algo", "query", "upstream"}


def words(command: str) -> list[str]:
    """A command without its arguments."""
    first, *rest = command.split()
    return [first, *rest[:1]] if first in GROUPS else [first]


@pytest.mark.parametrize("command", sorted({" ".join(words(command)) for command in COMMANDS}))
def test_every_command_exists_with_the_options_after_it(command: str) -> None:
    asked = [*command.split(), *(["run"] if command == "exchange" else [])]
    done = CliRunner().invoke(main, [*asked, "--help"])
    assert done.exit_code == 0, done.output
    for line in re.findall(rf"deltabook {command}\b([^\n#`]*)", PAGES):
        for option in re.findall(r"--[a-z][a-z-]+", line):
            assert option in done.output, f"{command} {option}"


@pytest.mark.parametrize("option", ["--shards", "--disk-limit-megabytes", "--on-restart", "--keep-snapshots"])
def test_options_that_are_spoken_of_are_there(option: str) -> None:
    assert f"`{option}" in PAGE or f"{option} " in PAGE
    helps = [["runtime"], ["algo", "run"], ["exchange", "run"]]
    assert any(option in CliRunner().invoke(main, [*command, "--help"]).output for command in helps)


def test_the_formats_are_those_of_this_version() -> None:
    table = PAGE[PAGE.index("| file | format |") :].partition("\n\n")[0]
    formats = {
        line.split("|")[1].strip(): line.split("|")[2].strip() for line in table.splitlines() if line[:3] == "| `"
    }
    assert formats["`inputs/*.inputs`"] == str(JOURNAL_VERSION)
    assert formats["`snapshots/*.snapshot` of an exchange"] == str(SNAPSHOT_VERSION)
    assert formats["`state.db`"] == str(stores._FORMAT)
    assert formats[f"`checkpoint/{MARK}`"] == str(wanted(Path(), 1).format)
    assert formats["`orders.log`"] == str(Checkpoint(broker_id=1).format)
    assert f"| view programs in the epochs | {FORMAT_VERSION} |" in PAGE
    assert f"| a backup | {Manifest('', 0, [], []).format} |" in PAGE
