"""What tests of the cluster have measured, in a file that the documentation quotes; nothing is asserted of it.

``python -m tests.cluster.report`` prints the newest figures as tables in Markdown.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["REPORT_FILE", "Figure", "Report", "tables"]

REPORT_FILE: Final = Path(__file__).parents[2] / "artifacts" / "cluster" / "report.json"


class Figure(msgspec.Struct, frozen=True):
    """Something that was measured."""

    group: str
    """Which table it belongs to: image, start, memory, faults, …"""
    what: str
    value: float
    unit: str
    """s, MB, …"""
    measured: str
    """When, UTC."""
    load: float
    """Of the machine then: processes that wanted to run, a mean of the last minute."""


class _Content(msgspec.Struct, frozen=True):
    machine: str
    figures: tuple[Figure, ...]


class Report:
    """Enters figures, each of them at once: what a run that breaks off has measured is there."""

    def __init__(self, path: Path = REPORT_FILE) -> None:
        self._path = path

    def figures(self) -> tuple[Figure, ...]:
        """Those that there are."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Content).figures
        except FileNotFoundError:
            return ()

    def enter(self, group: str, what: str, value: float, unit: str) -> None:
        """Enter a figure in place of the earlier one of its name."""
        others = [figure for figure in self.figures() if (figure.group, figure.what) != (group, what)]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        figure = Figure(group, what, round(value, 2), unit, now, round(os.getloadavg()[0], 1))
        content = _Content(f"{platform.machine()}, {os.cpu_count()} processors", (*others, figure))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        hidden = self._path.with_suffix(".new")
        hidden.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        hidden.replace(self._path)


def tables(figures: tuple[Figure, ...]) -> str:
    """A table for each group, in the order in which they were first entered."""
    lines: list[str] = []
    for group in dict.fromkeys(figure.group for figure in figures):
        lines += ["", f"| {group} | | load |", "|---|---:|---:|"]
        lines += [
            f"| {each.what} | {each.value:g} {each.unit} | {each.load:g} |" for each in figures if each.group == group
        ]
    return "\n".join(lines).strip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(tables(Report().figures()))
