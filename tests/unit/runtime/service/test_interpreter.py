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


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries have no such settings")
def test_memory_goes_back_to_the_system_once_it_is_free() -> None:
    """Arrays of a view that is gone, between others that stay, leave no holes."""
    program = """
import re, numpy as np, pyarrow as pa
from pathlib import Path
from runtime.service.interpreter import give_memory_back
give_memory_back()
def megabytes():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10
large = np.ones(1 << 20)
del large  # from here on the C library would put arrays of this size into its heap
kept = [[np.ones(1 << 15), np.ones(1 << 15)] for _ in range(400)]
before = megabytes()
for pair in kept:
    del pair[0]
print(before - megabytes(), pa.default_memory_pool().backend_name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    megabytes, backend = done.stdout.split()
    assert int(megabytes) >= 90
    assert backend == "system"


def test_the_end_of_a_quick_process_is_clean() -> None:
    program = "import duckdb; from runtime.service.interpreter import quicken; quicken()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")
