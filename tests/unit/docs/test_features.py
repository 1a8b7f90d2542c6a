"""The feature lists have the rows that tests are named after."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutations.breaks import LISTS

ROOT = Path(__file__).parents[3]
FEATURES = ROOT / "docs" / "features"


@pytest.mark.parametrize("name", [name for name, rows in LISTS.items() if rows.rows])
def test_a_list_has_every_row_of_its_tests_once(name: str) -> None:
    page = (FEATURES / f"{name}.md").read_text(encoding="utf-8")
    assert [int(number) for number in re.findall(r"^(\d+)\. ", page, re.MULTILINE)] == list(LISTS[name].rows)
    assert f"`{LISTS[name].tests}`" in page


def test_numbers_of_rows_are_of_a_list_in_the_tree() -> None:
    """A file of tests that names rows names their list."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^ *(?:\"\"\"|# )Rows? \d", text, re.MULTILINE):
            lists = re.findall(r"docs/features/(\w+)\.md", text)
            assert lists, f"expected docs/features/NAME.md in {path}"
            assert set(lists) <= LISTS.keys(), path
