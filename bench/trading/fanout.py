"""Distribution of results: changes of one view to its subscribers, and a view of a million rows page by page."""

from __future__ import annotations

import time
from typing import Any, Final

from bench.processes import BenchProcess
from bench.report import Record, record
from bench.trading.results_process import SYMBOLS
from runtime.client import connect

__all__ = ["measure_fanout", "measure_paging"]

_CROWDS: Final = (1, 10, 50, 200)
_HEADLINE: Final = 50
_PAGE_ROWS: Final = 10_000


def measure_fanout(quick: bool) -> list[Record]:
    """Measure ``results.fanout.changes_per_s`` with 50 subscribers, and the same with other numbers of subscribers.

    A change is a row that was added or removed, sent to one subscriber. A version replaces all ten rows of the view,
    which makes 20 changes. The time is from the first version until every subscriber has the last version.
    """
    runs, versions = (1, 100) if quick else (5, 2_000)
    found: list[Record] = []
    for crowd in _CROWDS[:: 2 if quick else 1]:
        rates, frames, summed = [], [], []
        for _ in range(runs):
            count = max(50, versions // max(1, crowd // 10))
            seconds, counts = _fan_out(crowd, count)
            rates.append(counts["changed"] / seconds)
            frames.append(counts["frames"] / seconds)
            summed.append(100 * counts["summed"] / max(1, counts["frames"]))
        found.append(record(f"results.fanout.{crowd}.changes_per_s", rates, "changes/s"))
        found.append(record(f"results.fanout.{crowd}.frames_per_s", frames, "frames/s"))
        found.append(record(f"results.fanout.{crowd}.summed_percent", summed, "% of frames"))
        if crowd == _HEADLINE or (quick and crowd == _CROWDS[-2]):
            found.append(record("results.fanout.changes_per_s", rates, "changes/s", f"{crowd} subscribers"))
    return found


def _fan_out(crowd: int, versions: int) -> tuple[float, dict[str, int]]:
    """Publish versions to subscribers; return the seconds until every subscriber has the last version, and the sums of
    the subscribers' counts."""
    with (
        BenchProcess("bench.trading.results_process", rows=1) as service,
        BenchProcess(
            "bench.trading.listeners_process",
            port=service.read_line()["port"], subscribers=crowd, last=versions, rows=2 * SYMBOLS,
        ) as listeners,
    ):  # fmt: skip
        listeners.read_line()  # all subscribers have their snapshots
        begun_s = time.perf_counter()
        service.write_line(str(versions))
        counts = listeners.read_line()
        return time.perf_counter() - begun_s, counts


def measure_paging(quick: bool) -> list[Record]:
    """Measure ``results.paging.rows_per_s``: a large view through a cursor, in pages of 10,000 rows, into the client's
    tables.

    The reference is the same view in one answer.
    """
    rows, runs = (50_000, 1) if quick else (1_000_000, 5)
    pages_s, whole_s, first_ms, page_ms = [], [], [], []
    with BenchProcess("bench.trading.results_process", rows=rows) as service:
        port = service.read_line()["port"]
        with connect(f"127.0.0.1:{port}") as client:
            for _ in range(runs):
                begun_s = time.perf_counter()
                taken = 0
                with client.cursor("large", _PAGE_ROWS) as pages:
                    for number, page in enumerate(pages):
                        taken += page.num_rows
                        if number == 0:
                            first_ms.append((time.perf_counter() - begun_s) * 1000)
                pages_s.append(rows / (time.perf_counter() - begun_s))
                page_ms.append(rows / pages_s[-1] * 1000 / max(1, rows // _PAGE_ROWS))
                begun_s = time.perf_counter()
                table: Any = client.view("large").to_arrow()
                whole_s.append(rows / (time.perf_counter() - begun_s))
                if taken != rows or table.num_rows != rows:
                    raise RuntimeError(f"expected {rows} rows, was {taken} in pages and {table.num_rows} at once")
    return [
        record("results.paging.rows_per_s", pages_s, "rows/s", "the same rows in one answer", whole_s),
        record("results.paging.whole_rows_per_s", whole_s, "rows/s"),
        record("results.paging.page_ms", page_ms, "ms", f"pages of {_PAGE_ROWS:,} of {rows:,} rows"),
        record("results.paging.first_page_ms", first_ms, "ms", "the cursor made, in order, and its first page"),
    ]
