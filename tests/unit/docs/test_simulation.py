"""docs/simulation.md and docs/learning.md: their examples run, and every option is one that there is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main

DOCS = Path(__file__).parents[3] / "docs"
SIMULATION, LEARNING = (DOCS / "simulation.md").read_text(), (DOCS / "learning.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_example_of_simulations_runs() -> None:
    (code,) = BLOCK.findall(SIMULATION)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "simulation.md", "exec"), {"__name__": "example"})
    assert len(said.getvalue().splitlines()) == 2


def test_the_example_of_learning_runs() -> None:
    pytest.importorskip("gymnasium")
    (code,) = BLOCK.findall(LEARNING)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "learning.md", "exec"), {"__name__": "example"})
    assert "best_quote.bid_price" in said.getvalue()


def test_every_option_is_one() -> None:
    options = CliRunner().invoke(main, ["simulate", "--help"]).output
    lines = [line for line in SIMULATION.splitlines() if "deltabook simulate" in line or line.startswith("| `--")]
    named = {option for line in lines for option in re.findall(r"--[a-z-]+", line)}
    assert len(named) > 10
    assert [option for option in sorted(named) if option not in options] == []
