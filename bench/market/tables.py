"""The table of docs/market.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from deltabook.facts import ROWS, Observation

__all__ = ["markdown"]


def markdown(columns: Mapping[str, Sequence[Observation]]) -> str:
    """Return the table: a column for each name, with medians of its observations, and minimum and maximum if there are
    several.
    """
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row, figure in ROWS.items():
        cells = []
        for observations in columns.values():
            values = [figure(seen) for seen in observations]
            cell = _short(statistics.median(values))
            if len(values) > 1:
                cell += f" ({_short(min(values))} to {_short(max(values))})"
            cells.append(cell)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _short(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
