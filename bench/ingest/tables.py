"""The grid of rates as one readable table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.ingest.plan import BUFFERS, WORKERS
from bench.report import Record

__all__ = ["print_rates"]


def print_rates(name: str, records: Sequence[Record]) -> None:
    """Print MB/s and millions of messages per second by size of buffer and workers, with the ratio to the reference."""
    by_name = {r.what: r for r in records}
    title = f"ingest: {name} against {by_name[f'ingest.{name}.4k.1.ratio'].reference.rpartition(', ')[0]}"
    table = Table(title=title, title_justify="left")
    table.add_column("buffers")
    for workers in WORKERS:
        label = "1 worker" if workers == 1 else f"{workers} workers"
        for heading in (label, "M messages/s", "ratio (lowest - highest)"):
            table.add_column(heading, justify="right")
    for buffer in BUFFERS:
        table.add_row(
            buffer, *(cell for workers in WORKERS for cell in _cells(by_name, f"ingest.{name}.{buffer}.{workers}"))
        )
    Console(width=160, soft_wrap=True).print(table)


def _cells(records: Mapping[str, Record], key: str) -> tuple[str, str, str]:
    ratio = records[f"{key}.ratio"]
    return (
        f"{records[f'{key}.bytes_per_s'].value / 1e6:,.0f} MB/s",
        f"{records[f'{key}.messages_per_s'].value / 1e6:,.2f}",
        f"{ratio.value:.2f} ({ratio.min:.2f} - {ratio.max:.2f})",
    )
