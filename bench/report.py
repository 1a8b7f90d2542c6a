"""Results of a benchmark: records with medians and spread, as JSON and as a table."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

__all__ = ["Record", "machine", "print_table", "record", "write_records"]


class Record(msgspec.Struct, frozen=True):
    """One figure."""

    what: str
    """Dotted name of the figure."""
    value: float
    """Median of the runs."""
    unit: str
    """Unit of the value."""
    reference: str
    """Reference, measured in the same run."""
    ratio: float | None
    """Value ÷ the reference's median."""
    runs: int
    """Number of counted runs."""
    min: float
    """Lowest value."""
    max: float
    """Highest value."""


def record(
    what: str, values: Sequence[float], unit: str, reference: str = "", reference_values: Sequence[float] = ()
) -> Record:
    """Return the record of these runs, compared with those of a reference."""
    median = statistics.median(values)
    ratio = median / statistics.median(reference_values) if reference_values else None
    return Record(what, median, unit, reference, ratio, len(values), min(values), max(values))


def machine() -> str:
    """Describe the machine in one line."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, {gigabytes:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load {load:.1f} at the end"
    )


def write_records(folder: Path, name: str, records: Sequence[Record]) -> Path:
    """Write ``NAME.json`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(list(records)), indent=2) + b"\n")
    return path


def print_table(name: str, records: Sequence[Record]) -> None:
    """Print the records on standard output."""
    table = Table(title=f"{name}: {machine()}", title_justify="left")
    for heading in ("what", "median", "min", "max", "unit", "runs", "ratio", "reference"):
        table.add_column(
            heading,
            justify="left" if heading in ("what", "unit", "reference") else "right",
            min_width=max((len(r.what) for r in records), default=0) if heading == "what" else None,
        )
    for r in records:
        ratio = "" if r.ratio is None else f"{r.ratio:.2f}"
        table.add_row(r.what, _short(r.value), _short(r.min), _short(r.max), r.unit, str(r.runs), ratio, r.reference)
    Console(width=180, soft_wrap=True).print(table)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
