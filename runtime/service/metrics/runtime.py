"""Everything that a runtime's ``/metrics`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from deltabook.wire.metrics import Exposition
from runtime.service.metrics.engine import EngineMetrics
from runtime.service.metrics.figures import figure_metrics

__all__ = ["RuntimeMetrics"]

Figures = Mapping[str, int | float | str | None]


class RuntimeMetrics:
    """Asked on the thread that answers."""

    def __init__(self, engine: EngineMetrics, figures: Callable[[], Figures], *, run_id: str = "") -> None:
        """``figures``: those of status lines."""
        self.engine = engine
        """What the engine's part is made of."""
        self._figures = figures
        self._others: list[Callable[[], Iterator[Metric]]] = []
        self.answer = Exposition("runtime", run_id, self._collect).answer
        """The text for a monitor that accepts some types, and its type."""

    def add(self, others: Callable[[], Iterator[Metric]]) -> None:
        """What another part of the runtime tells as well; asked on the same thread."""
        self._others.append(others)

    def _collect(self) -> Iterator[Metric]:
        yield from self.engine.metrics()
        yield from figure_metrics(self._figures())
        for others in self._others:
            yield from others()
