"""The feature lists have the rows that tests are named after."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations.breaks import LISTS

FEATURES = Path(__file__).parents[3] / "docs" / "features"


@pytest.mark.parametrize("name", [name for name, rows in LISTS.items() if rows.rows])
def test_a_list_has_every_row_of_its_tests_once(name: str) -> None:
    page = (FEATURES / f"{name}.md").read_text(encoding="utf-8")
    assert [int(number) for number in re.findall(r"^(\d+)\. ", page, re.MULTILINE)] == list(LISTS[name].rows)
    assert f"`{LISTS[name].tests}`" in page
