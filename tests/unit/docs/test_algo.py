"""The page on the algorithm engine names every event, limit, option, command and path that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from algo_engine import EventKind, OrderOptions
from algo_engine.desk.fees import Fees
from algo_engine.desk.risk import RiskLimits
from deltabook.cli import main
from deltabook.wire import strategies

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "algo.md").read_text()
STRATEGIES = (ROOT / "docs" / "strategies.md").read_text()


@pytest.mark.parametrize("kind", EventKind)
def test_every_event_is_in_the_table(kind: EventKind) -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert any(f"`{kind}`" in row for row in rows)


@pytest.mark.parametrize("limit", RiskLimits.__struct_fields__)
def test_every_limit_is_in_the_table(limit: str) -> None:
    assert f"`{limit}`" in STRATEGIES


@pytest.mark.parametrize("field", [*OrderOptions.__struct_fields__, *Fees.__struct_fields__])
def test_every_option_and_every_fee_is_named(field: str) -> None:
    assert f"`{field}`" in PAGE


@pytest.mark.parametrize(
    "path", [strategies.STATUS_PATH, strategies.FILLS_PATH, strategies.ORDERS_PATH, strategies.KILL_PATH]
)
def test_every_path_is_in_the_table(path: str) -> None:
    assert re.search(rf"`(GET|POST) {path}[`?]", PAGE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"deltabook algo (\w+)", PAGE))))
def test_every_command_exists_with_its_named_options(command: str) -> None:
    done = CliRunner().invoke(main, ["algo", command, "--help"])
    assert done.exit_code == 0
    line = next(line for line in PAGE.splitlines() if f"deltabook algo {command} " in line)
    said = line.split(f"deltabook algo {command} ")[1].split("deltabook algo")[0]
    assert all(option in done.output for option in re.findall(r"--[\w-]+", said))
