"""Picture of a soak: memory, descriptors, threads and disk over time, with the restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from tests.soak.resources import Sample

__all__ = ["draw"]

_DPI: Final = 110
_PANELS: Final = (
    ("Resident memory, MB", 1e6, ("runtime_rss_bytes", "children_rss_bytes")),
    ("Open descriptors", 1.0, ("runtime_descriptors", "children_descriptors")),
    ("Threads", 1.0, ("runtime_threads", "children_threads")),
    ("Run directory, MB", 1e6, ("disk_bytes",)),
)
_COLOURS: Final = ("#0072B2", "#D55E00")


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Draw four panels; a line breaks where the runtime was restarted."""
    plt.rcParams.update({"font.size": 10, "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True})
    figure, panels = plt.subplots(2, 2, figsize=(12, 7.6))
    for axes, (title, unit, uses) in zip(panels.flat, _PANELS, strict=True):
        _panel(axes, samples, uses, unit)
        axes.set_title(title)
        axes.set_xlabel("seconds")
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def _panel(axes: Any, samples: Sequence[Sample], uses: Sequence[str], unit: float) -> None:
    starts = sorted({sample.start for sample in samples})
    for use, colour in zip(uses, _COLOURS, strict=False):
        label = {"runtime": "runtime", "children": "Spark's processes", "disk": "all files"}[use.partition("_")[0]]
        for start in starts:
            part = [sample for sample in samples if sample.start == start]
            values = [getattr(sample, use) / unit for sample in part]
            axes.plot([sample.seconds for sample in part], values, color=colour, label=label if not start else None)
    for start in starts[1:]:
        at = next(sample for sample in samples if sample.start == start)
        axes.axvline(at.seconds - at.age_s, color="#999999", linestyle=":", linewidth=1)
