"""What every test shares: one profile of Hypothesis, and logging begun once, so that no test sees another's events.

Doctests are collected from modules that have one: the others would be imported and searched for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from deltabook.cli import start_logging

ROOT: Final = Path(__file__).parent
PACKAGES: Final = frozenset({"algo_engine", "deltabook", "exchange_server", "runtime"})
SLOW_TIMEOUT_S: Final = 900
"""Limit of a slow test that states none: long enough for one that waits for a busy machine."""

# Deadlines measure the machine, not the code.
settings.register_profile("deltabook", deadline=None, print_blob=True)
settings.load_profile("deltabook")

# Kernels are interpreted unless a test asks for compiled ones: a test must not start a compiler that outlives it.
os.environ.setdefault("DELTABOOK_NATIVE", "off")

# Until logging is begun, Twisted keeps events and hands them to the first observers that begin it.
start_logging()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out modules without an example in a docstring, of which pytest would collect nothing."""
    collectors = yield
    has_example = file_path.suffix == ".py" and b">>> " in file_path.read_bytes()
    package = file_path.relative_to(ROOT).parts[0] if file_path.is_relative_to(ROOT) else ""
    if has_example and package in PACKAGES:
        # Imported here as everywhere else: pytest would run a module that its package imports a second time, and the
        # classes of the two runs are not equal.
        import_module(".".join(file_path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return [each for each in collectors if has_example or not isinstance(each, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time than the others, unless they state their own."""
    for item in items:
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
