"""Every row of the formats' feature list has a test that has been seen to fail when the code is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations.format_breaks import BREAKS, Break
from tests.mutations.formats import ROOT, ROW_TESTS, run_breaks

ROWS = range(1, 31)


def test_every_row_has_a_test_and_a_break() -> None:
    text = "".join(path.read_text() for path in Path(ROOT, ROW_TESTS).glob("test_*.py"))
    assert {int(row) for row in re.findall(r"def test_row_(\d\d)_", text)} == set(ROWS)
    assert {broken.row for broken in BREAKS} == set(ROWS)


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: f"{broken.row:02}-{broken.what}")
def test_breaks_fit_the_code(broken: Break) -> None:
    assert (ROOT / broken.file).read_text().count(broken.find) == 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_break_turns_its_row_red() -> None:
    green = [f"row {broken.row}, {broken.what}: {verdict}" for broken, verdict in run_breaks(BREAKS, 2) if verdict]
    assert not green, "\n".join(green)
