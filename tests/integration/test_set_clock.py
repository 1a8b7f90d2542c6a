"""The clock of a machine is set back while a process runs: its timers go on, as they count on what nobody sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltabook.wire import status

_RUN = """\
import sys, time
from pathlib import Path
shift, real_s, real_ns = Path(sys.argv.pop(1)), time.time, time.time_ns
time.time = lambda: real_s() + float(shift.read_text())
time.time_ns = lambda: real_ns() + int(float(shift.read_text()) * 1e9)
from deltabook.cli import main
main()
"""
_ROLES = {
    "exchange": ("exchange", "--dir", "{place}", "--agents", "none"),
    "runtime": ("runtime", "--dir", "{place}", "--upstream", "a={place}/none", "--no-spark"),
    "dashboard": ("dashboard", "--results", "127.0.0.1:1"),
}


@pytest.mark.process
@pytest.mark.timeout(60)
@pytest.mark.parametrize("role", _ROLES)
def test_figures_continue_when_the_clock_is_set_back_by_a_day(tmp_path: Path, role: str) -> None:
    shift = tmp_path / "shift"
    shift.write_text("0")
    options = [option.format(place=tmp_path / role) for option in _ROLES[role]]
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(shift), *options, "--status-interval", "0.05"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        events = (status.parse_event(line) for line in process.stdout)
        assert isinstance(next(events), status.Ready)
        assert isinstance(next(events), status.Status)
        shift.write_text("-86400")
        # One may have been on its way when the clock was set.
        assert [type(next(events)) for _ in range(3)] == [status.Status] * 3
    finally:
        process.kill()
        process.communicate()
