"""What a dashboard tells a monitor: its pages, and how its peers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, get_args

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from deltabook.dashboard.links import LinkState
from deltabook.wire.metrics import Exposition, counter, gauge, labelled

__all__ = ["DashboardMetrics"]

Figures = Mapping[str, int | float | str | None]

_PREFIX: Final = "deltabook_dashboard"
_GAUGES: Final = (
    ("pages", "Pages that are open."),
    ("stuck_pages", "Pages whose connection is full."),
    ("symbols", "Symbols that are known."),
)
_COUNTED: Final = (
    ("frames_sent", "Frames that were sent to pages."),
    ("frames_encoded", "Sections that were encoded for frames."),
    ("bytes_sent", "Bytes of the frames that were sent."),
)
"""Figure, which is also the metric's name, and help."""
_PEERS: Final = ("results", "algo", "exchange")


class DashboardMetrics:
    """Asked on the reactor's thread."""

    def __init__(self, figures: Callable[[], Figures], run_id: str = "") -> None:
        """``figures``: those of status lines."""
        self._figures = figures
        self.answer = Exposition("dashboard", run_id, self._collect).answer
        """The text for a monitor that accepts some types, and its type."""

    def _collect(self) -> Iterator[Metric]:
        figures = self._figures()
        for make, listed in ((gauge, _GAUGES), (counter, _COUNTED)):
            for name, what in listed:
                yield make(f"{_PREFIX}_{name}", what, float(figures[name] or 0))
        states = [((peer, state), float(figures[peer] == state)) for peer in _PEERS for state in get_args(LinkState)]
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_peer", "1 for the state of a peer.", ("peer", "state"), states)
