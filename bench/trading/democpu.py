"""Processor time of each of the demo's processes while it runs as in `make demo`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from bench.report import Record, record

__all__ = ["measure_demo_cpu", "seconds_of"]

_ROLES: Final = ("dashboard", "exchange", "runtime", "algo")
_BEGUN: Final = "running for"
"""Text that the demo prints when its seconds begin."""
_PATIENCE_S: Final = 300.0


def measure_demo_cpu(quick: bool) -> list[Record]:
    """Measure ``demo.cpu.PROCESS``: mean number of cores in use once Spark is up; ``total`` is the sum."""
    seconds, runs = (10, 1) if quick else (40, 3)
    found = [_cores(seconds) for _ in range(runs)]
    names = sorted({name for cores in found for name in cores})
    where = f"{seconds} s of the demo"
    records = [record(f"demo.cpu.{name}", [cores.get(name, 0.0) for cores in found], "cores", where) for name in names]
    return [*records, record("demo.cpu.total", [sum(cores.values()) for cores in found], "cores", where)]


def _cores(seconds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-trading-") as place:
        command = [
            sys.executable,
            "-m",
            "deltabook",
            "demo",
            "--seconds",
            str(seconds),
            "--dir",
            str(Path(place) / "run"),
        ]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        begun, lines = threading.Event(), list[str]()
        reading = threading.Thread(target=_read, args=(demo, lines, begun), daemon=True)
        reading.start()
        try:
            if not begun.wait(_PATIENCE_S):
                raise RuntimeError(f"expected the demo to begin within {_PATIENCE_S:g} s, was {lines[-1:]}")
            before, begun_s = _used(demo.pid), time.monotonic()
            time.sleep(seconds - 1)  # while all of its processes are running
            after, took_s = _used(demo.pid), time.monotonic() - begun_s
            if demo.wait(_PATIENCE_S):
                raise RuntimeError(f"expected a demo that ends well, was {lines[-1:]}")
        finally:
            demo.terminate()  # also stops its processes; no effect if it has ended
            demo.wait()
            reading.join()
    return {name: (used - before.get(name, 0.0)) / took_s for name, used in after.items()}


def _read(demo: subprocess.Popen[str], lines: list[str], begun: threading.Event) -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        lines.append(line.rstrip())
        if _BEGUN in line:
            begun.set()
    begun.set()


def _used(root: int) -> dict[str, float]:
    """Return the seconds that the descendants of a process have used so far, by their kind."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,time=,args="], check=True, capture_output=True, text=True)
    rows = [line.split(maxsplit=3) for line in table.stdout.splitlines()]
    below, used = {root}, defaultdict[str, float](float)
    for pid, parent, spent, *rest in sorted(rows, key=lambda row: int(row[0])):  # children mostly have higher numbers
        if int(parent) in below:
            below.add(int(pid))
            used[_name("".join(rest))] += seconds_of(spent)
    return used


def _name(command: str) -> str:
    words = command.split()
    if words and Path(words[0]).name == "java":
        return "spark_java"
    if "-m" in words and "deltabook" in words:
        return next((word for word in words if word in _ROLES), "others")
    return "spark_python" if "pyspark" in command else "others"


def seconds_of(spent: str) -> float:
    """Parse the time of a process in `ps`: ``[[days-]hours:]minutes:seconds``, with a fraction on macOS.

    >>> seconds_of("1-02:03:04"), seconds_of("2:03.50")
    (93784.0, 123.5)
    """
    days, _, clock = spent.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = 60 * total + float(part)
    return total + 86_400 * int(days or 0)
