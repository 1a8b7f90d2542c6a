"""Processor time of a system's processes by their role, from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

__all__ = ["PARTS", "Part", "Process", "processes", "spent_s"]

Part = Literal["upstream", "runtime", "driver", "executor", "daemon"]
PARTS: Final[tuple[Part, ...]] = ("upstream", "runtime", "driver", "executor", "daemon")
"""Roles of processes:

* upstream: runtimes that read a feed and have no views;
* runtime: the Python of the runtime with the views;
* driver: the Java of that runtime, and the Python that plans batches;
* executor: Java and Python of the executors, which with ``local[N]`` are part of the driver;
* daemon: Spark's master, Spark's workers, and the launchers of both.
"""
_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Process(msgspec.Struct, frozen=True):
    """One row of the process table."""

    pid: int
    """Process id."""
    parent: int
    """Id of the process that started this process."""
    own: int
    """Processor time of the process itself, in ticks."""
    ended: int
    """Processor time of the process's children that have ended, and of their descendants, in ticks."""
    command: str
    """Command line, with blanks between the words."""


def processes(proc: Path = _PROC) -> dict[int, Process]:
    """Return the process table, by process id; raise `FileNotFoundError` if the system has no such table."""
    found: dict[int, Process] = {}
    for name in os.listdir(proc):  # noqa: PTH208 (names alone)
        if not name.isdigit():
            continue
        try:
            stat = (proc / name / "stat").read_text("ascii", "replace")
            command = (proc / name / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
            continue
        fields = stat[stat.rindex(")") + 2 :].split()  # the name before it may contain any character
        own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        found[int(name)] = Process(int(name), int(fields[1]), own, ended, command)
    return found


def spent_s(
    roots: Mapping[int, Part], before: Mapping[int, Process], after: Mapping[int, Process]
) -> dict[Part, float]:
    """Return the seconds that each role spent between two tables, in its root processes and their descendants."""
    seconds = dict.fromkeys(PARTS, 0.0)
    children: dict[int, list[int]] = {}
    for process in after.values():
        children.setdefault(process.parent, []).append(process.pid)
    # When a process ends, all of its time is added to the time of its parent. Time from before the first table is
    # subtracted here.
    gone: dict[int, int] = {}
    for process in before.values():
        if process.pid not in after:
            gone[process.parent] = gone.get(process.parent, 0) + process.own + process.ended
    waiting = [(pid, part) for pid, part in roots.items() if pid in after]
    while waiting:
        pid, above = waiting.pop()
        now, part = after[pid], _part(after[pid], above)
        then = before.get(pid, Process(pid, now.parent, 0, 0, ""))
        ended = max(0, now.ended - then.ended - gone.get(pid, 0))
        seconds[part] += (now.own - then.own + ended) / _TICKS
        waiting += [(child, part) for child in children.get(pid, ())]
    return seconds


def _part(process: Process, above: Part) -> Part:
    """Return the role of a process: executors are descendants of the worker that started them, and the driver's Java
    process is a descendant of the runtime.
    """
    if "CoarseGrainedExecutorBackend" in process.command or above == "executor":
        return "executor"
    if above in {"runtime", "driver"} and ("java" in process.command.split(" ")[0] or above == "driver"):
        return "driver"
    return above
