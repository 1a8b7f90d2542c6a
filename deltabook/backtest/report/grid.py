"""The report of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from deltabook.backtest.report.document import document, escaped, section, table, tiles

if TYPE_CHECKING:
    from deltabook.backtest.sweep import SweepResult

__all__ = ["write_sweep_report"]

_ROWS: Final = 1_000
_FIGURES: Final = ("profit", "max_drawdown", "fees", "fills", "orders")


def write_sweep_report(path: Path, result: SweepResult) -> Path:
    """Write the page of a sweep; its heat map leads to the reports of points in the folder ``points`` beside it."""
    keys = [key for key, _ in result.axes]
    best = result.best
    failed = [point for point in result.points if point.error]
    names = ", ".join(result.config.strategies)
    lead = f"{len(result.points):,} points over {', '.join(keys)}; profits in ticks × lots"
    top = best[0]
    at = ", ".join(f"{key} {value}" for key, value in zip(keys, top.values, strict=True))
    cells: list[tuple[str, object, str]] = [
        ("Best profit", f"{top.profit:,}", ""),
        ("At", at, ""),
        ("Median profit", f"{best[len(best) // 2].profit:,}", ""),
        ("Points with a profit", f"{sum(point.profit > 0 for point in best):,} of {len(best):,}", ""),
        ("Failed", f"{len(failed):,}", ""),
    ]
    body = [section("Result", tiles(cells), kind="wide"), section("Heat map", _map(result), kind="wide")]
    rows = [[*p.values, f"{p.profit:,}", f"{p.fees:,}", f"{p.max_drawdown:,}", f"{p.orders:,}", f"{p.fills:,}"]
            for p in best[:_ROWS]]  # fmt: skip
    body.append(
        section(
            "Points, the best first",
            table([*keys, "profit", "fees", "drawdown", "orders", "fills"], rows, name="Points"),
            kind="wide long",
        )
    )
    if failed:
        why = [[*point.values, point.error] for point in failed[:_ROWS]]
        body.append(
            section("Failed", table([*keys, "why"], why, name="Failed", kind="words reasons"), kind="wide long notice")
        )
    data: dict[str, Any] = {
        "axes": result.axes,
        "points": [msgspec.structs.asdict(point) for point in result.points],
        "reports": [p.number for p in result.points if (path.parent / "points" / f"{p.number:05}.html").is_file()],
    }
    page = document(f"Sweep of {names}", lead, "\n".join(body), data, "sweep.js", has_charts=False)
    path.write_text(page, encoding="utf-8")
    return path


def _map(result: SweepResult) -> str:
    def choice(name: str, chosen: int) -> str:
        options = "".join(
            f'<option value="{place}"{" selected" if place == chosen else ""}>{escaped(key)}</option>'
            for place, (key, _) in enumerate(result.axes)
        )
        return f'<label class="quiet">{name} <select id="{name.lower()}">{options}</select></label>'

    last = min(1, len(result.axes) - 1)
    figures = "".join(f'<option value="{name}">{name.replace("_", " ")}</option>' for name in _FIGURES)
    chosen = f'<label class="quiet">Figure <select id="figure">{figures}</select></label>'
    axes = f'<div class="axes">{choice("Across", 0)}{choice("Down", last)}{chosen}</div>'
    heat = '<table class="heat" id="heat" aria-describedby="words"></table>'
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="Heat map">{heat}</div>'
    return f'{axes}{scroll}<p class="quiet" id="words"></p>'
