"""What a process sets to be quick; undone here, as it holds for all of Python."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runtime.service.interpreter import quicken


@pytest.fixture
def as_before() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.usefixtures("as_before")
def test_the_lock_switches_sooner_and_the_start_is_frozen() -> None:
    before = sys.getswitchinterval()
    quicken()
    assert sys.getswitchinterval() < before
    assert gc.get_freeze_count() > 0
    assert gc.isenabled(), "cycles that come later still go"


def test_the_end_of_a_quick_process_is_clean() -> None:
    program = "import duckdb; from runtime.service.interpreter import quicken; quicken()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")
