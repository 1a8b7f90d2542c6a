"""Tests in a real browser are collected where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.generators.browser import PROGRAM, Browser

collect_ignore_glob = [] if PROGRAM else ["test_*.py"]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all tests of a module: its start takes longer than most of them."""
    folder: Path = tmp_path_factory.mktemp("profile")
    with Browser(folder) as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Browser:
    """An empty page of 1280 × 800 that has not complained yet."""
    started.open("about:blank")
    started.resize(1280, 800)
    started.complaints.clear()
    return started
