"""The page on the architecture, and those that explain parts of it, name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "architecture.md"
PAGES = (PAGE, ROOT / "docs" / "engine.md", ROOT / "docs" / "cluster.md")
PACKAGES = ("algo_engine", "deltabook", "exchange_server", "queries", "runtime", "tests")
PATHS = sorted(
    {
        path
        for page in PAGES
        for path in re.findall(r"`([a-z_]+(?:/[\w.]+)*)`", page.read_text())
        if path.split("/")[0] in PACKAGES and ("/" in path or path in PACKAGES)
    }
)
LINKS = re.findall(r"\]\((#[\w-]+|[\w.]+\.md)\)", PAGE.read_text())


@pytest.mark.parametrize("path", PATHS)
def test_every_module_that_is_named_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_every_link_leads_somewhere(link: str) -> None:
    if not link.startswith("#"):
        assert (PAGE.parent / link).exists()
        return
    headings = re.findall(r"^#+ (.+)$", PAGE.read_text(), re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert link in anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_diagrams_and_tables_are_whole(page: Path) -> None:
    """A fence that is opened is closed, and the rows of a table have as many cells as its head."""
    lines = page.read_text().splitlines()
    assert sum(line.startswith("```") for line in lines) % 2 == 0
    width = 0
    for line in lines:
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|") - line.count(r"\|")
        width = width or cells
        assert cells == width, line


def test_the_tables_name_components_of_each_document() -> None:
    text = PAGE.read_text()
    for name in (
        "Data Structures Dispatch",
        "SequenceShredder",
        "IPersistedQueue",
        "RunningQueryPlanNode",
        "startDrain",
    ):
        assert name in text
