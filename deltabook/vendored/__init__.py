"""Third-party files that the pages need, kept here so that no page loads them from another machine.

`uplot/` is uPlot 1.6.32 (MIT, see its LICENSE): lines over time, drawn on a canvas.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

__all__ = ["UPLOT"]

UPLOT: Final[Traversable] = files(__name__) / "uplot"
"""Folder with ``uPlot.iife.min.js`` and ``uPlot.min.css``."""
