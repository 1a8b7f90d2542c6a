"""Runs one slice of a net as a process with a time limit, and reads what it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.endurance.nets import Command, Net

__all__ = ["ROOT", "Outcome", "RunSlice", "replays", "run_slice"]

ROOT: Final = Path(__file__).resolve().parents[2]
_LINES: Final = 2_000
"""Of the output, so many of the first and of the last lines are kept."""
_LINE_BYTES: Final = 4_000
_AGAIN: Final = re.compile(r"again: (.+)$", re.MULTILINE)
_MOST_REPLAYS: Final = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a slice ended."""

    code: int | None
    """Exit code, None for a slice that was ended at its time limit."""
    output: str
    """What it printed, shortened in the middle."""
    seconds: float
    """How long it took."""


RunSlice = Callable[[Command, int], Outcome]
"""Runs a command with a time limit in seconds."""


def run_slice(command: Command, limit_s: int) -> Outcome:
    """Run a command from the root of the tree; it and what it has started are killed at the limit, or if we are.

    Its temporary files go with it, whatever it leaves.
    """
    begun = time.monotonic()
    with TemporaryDirectory(prefix="deltabook-slice-", ignore_cleanup_errors=True) as scratch:
        code, output = _run(command, limit_s, scratch)
    return Outcome(code, output, time.monotonic() - begun)


def _run(command: Command, limit_s: int, scratch: str) -> tuple[int | None, str]:
    process = subprocess.Popen(
        [sys.executable, *command.arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": scratch, **command.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    first: list[str] = []
    last: deque[str] = deque(maxlen=_LINES)

    def read() -> None:
        assert process.stdout is not None
        while line := process.stdout.readline(_LINE_BYTES):
            (first if len(first) < _LINES else last).append(line.decode(errors="replace"))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    code: int | None = None
    try:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(limit_s)
    finally:
        # The leader of the session may be gone already and leave processes behind, which would keep the pipe open.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(timeout=10)
    return code, "".join([*first, *last])


def counted(net: Net, output: str) -> int:
    """How much a slice has run, by what it printed."""
    return sum(int(number.replace(",", "")) for number in re.findall(net.counted, output, re.MULTILINE))


def replays(net: Net, command: Command, output: str) -> list[str]:
    """The commands that repeat what a failing slice has found; that of the slice if it names none."""
    commands = _AGAIN.findall(output)
    if net.failing_seed is not None:
        commands += [net.again.format(seed) for seed in re.findall(net.failing_seed, output, re.MULTILINE)]
    return list(dict.fromkeys(commands))[:_MOST_REPLAYS] or [str(command)]
