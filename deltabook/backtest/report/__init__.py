"""The report of a backtest."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltabook.backtest.result import Result

__all__ = ["write_report"]


def write_report(path: Path, result: Result) -> Path:
    """Write the page."""
    path.write_text(f"<!doctype html><pre>{html.escape(result.to_json().decode())}</pre>", encoding="utf-8")
    return path


def write_sweep_report(path, result):
    path.write_text("todo")
    return path
