"""What every test shares: one profile of Hypothesis, and logging begun once, so that no test sees another's events.

Doctests are collected from modules that have one: the others would be imported and searched for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from deltabook.cli import start_logging

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
    return [each for each in collectors if has_example or not isinstance(each, DoctestModule)]
