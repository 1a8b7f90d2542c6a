"""Set-up of all tests: a profile of Hypothesis, and logging that is started once, so that tests do not share events.

Doctests are collected only from modules that contain an example, so that other modules need not be imported.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from deltabook.cli._logging import start_logging
from tests.harness.examples import EXAMPLES

ROOT: Final = Path(__file__).parent
PACKAGES: Final = frozenset({"algo_engine", "deltabook", "exchange_server", "runtime"})
SLOW_TIMEOUT_S: Final = 900
"""Time limit in seconds of a slow test that states none; long enough on a busy machine."""

# Processes ignore SIGHUP where it is ignored when they start, as under nohup; the tests send it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Deadlines measure the machine, not the code.
settings.register_profile("deltabook", max_examples=EXAMPLES, deadline=None, print_blob=True)
settings.load_profile("deltabook")

# Kernels are interpreted unless a test requests compiled ones: a compiler must not outlive the test that started it.
os.environ.setdefault("DELTABOOK_NATIVE", "off")

# Until logging is started, Twisted stores events, and passes them to the first observers.
start_logging()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out modules without an example in a docstring, in which pytest would find no test."""
    collectors = yield
    has_example = file_path.suffix == ".py" and b">>> " in file_path.read_bytes()
    package = file_path.relative_to(ROOT).parts[0] if file_path.is_relative_to(ROOT) else ""
    if has_example and package in PACKAGES:
        # Import the module under its usual name. Otherwise, if the module's package has imported it before, pytest
        # would import it a second time, and the classes of the two copies would differ.
        import_module(".".join(file_path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return [each for each in collectors if has_example or not isinstance(each, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests a longer time limit, unless they state one."""
    for item in items:
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
