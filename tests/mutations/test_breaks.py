"""Every row of the feature lists has a test that has been seen to fail when the code is broken."""

from __future__ import annotations

import re

import pytest

from tests.mutations.breaks import LISTS, Break
from tests.mutations.running import ROOT, run_breaks

BREAKS = [(name, broken) for name, rows in LISTS.items() for broken in rows.breaks()]


@pytest.mark.parametrize("name", [name for name, rows in LISTS.items() if rows.rows])
def test_every_row_has_a_test_and_a_break(name: str) -> None:
    rows = LISTS[name]
    text = "".join(path.read_text() for path in (ROOT / rows.tests).glob("test_*.py"))
    assert {int(row) for row in re.findall(r"def test_row_(\d\d)_", text)} == set(rows.rows)
    assert {broken.row for broken in rows.breaks()} == set(rows.rows)


@pytest.mark.parametrize("name", [name for name, rows in LISTS.items() if not rows.rows])
def test_every_break_without_a_row_names_its_tests(name: str) -> None:
    breaks = LISTS[name].breaks()
    assert breaks
    missing = [
        broken.tests for broken in breaks if broken.row or not (ROOT / broken.tests.partition("::")[0]).is_file()
    ]
    assert missing == []
    assert len({broken.what for broken in breaks}) == len(breaks)


@pytest.mark.parametrize(
    "broken",
    [pytest.param(broken, id=f"{name}-{broken.row:02}-{broken.what}") for name, broken in BREAKS],
)
def test_breaks_fit_the_code_and_change_it(broken: Break) -> None:
    assert (ROOT / broken.file).read_text().count(broken.find) == 1
    assert broken.replacement != broken.find


@pytest.mark.slow
@pytest.mark.mutation
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LISTS)
def test_every_break_turns_its_row_red(name: str) -> None:
    rows = LISTS[name]
    found = run_breaks(rows.tests, rows.breaks(), 2)
    green = [f"{broken.tests or broken.row}, {broken.what}: {verdict}" for broken, verdict in found if verdict]
    assert not green, "\n".join(green)
