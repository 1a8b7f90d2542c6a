"""What a notebook shows of a result: plain tables, without scripts and without anything from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deltabook.backtest.report.backtest import failure_words, moment, result_tiles
from deltabook.backtest.report.document import escaped, table
from deltabook.backtest.report.measures import STATISTICS_HEAD, statistics_note, statistics_rows
from deltabook.backtest.sources import book_lines, dropped_line

if TYPE_CHECKING:
    from deltabook.backtest.result import Result
    from deltabook.backtest.statistics import Statistics
    from deltabook.backtest.sweep import SweepResult

__all__ = ["result_html", "statistics_html", "sweep_html"]

_POINTS: Final = 20


def result_html(result: Result) -> str:
    """Return what happened, in figures and statistics."""
    names = ", ".join(strategy.name for strategy in result.strategies)
    f = result.figures
    lead = f"{moment(f.begin_ns)} to {moment(f.end_ns)} UTC, {f.records:,} records, {result.elapsed_s:.2f} s to run"
    rows = [[name, f"{value} {unit}".strip()] for name, value, unit in result_tiles(result)]
    recordings = [line for source in result.sources for line in book_lines(source)]
    about = "".join(f"<p>{escaped(line)}</p>" for line in (*recordings, dropped_line(f.dropped)))
    notices = "".join(f"<p><strong>{escaped(words)}</strong></p>" for words in failure_words(result))
    return (
        f"<div><p><strong>Backtest of {escaped(names)}</strong><br>{escaped(lead)}</p>{notices}"
        f"{table(['figure', 'value'], rows, name='Figures')}{statistics_html(result.statistics)}{about}</div>"
    )


def statistics_html(statistics: Statistics) -> str:
    """Return a table of the lines."""
    shown = table(STATISTICS_HEAD, statistics_rows(statistics), name="Statistics")
    return f"<div>{shown}<p>{escaped(statistics_note(statistics))}</p></div>"


def sweep_html(result: SweepResult) -> str:
    """Return a table of the best points, and how many failed."""
    keys = [key for key, _ in result.axes]
    best = result.best
    rows = [
        [*p.values, f"{p.profit:,}", f"{p.fees:,}", f"{p.max_drawdown:,}", f"{p.orders:,}", f"{p.fills:,}"]
        for p in best[:_POINTS]
    ]
    failed = [point for point in result.points if point.error]
    why = f"; {len(failed):,} failed, the first with: {failed[0].error}" if failed else ""
    lead = f"The best {min(_POINTS, len(best)):,} of {len(result.points):,} points, money in ticks × lots{why}"
    head = [*keys, "profit", "fees", "drawdown", "orders", "fills"]
    return f"<div><p>{escaped(lead)}</p>{table(head, rows, name='Points')}</div>"
