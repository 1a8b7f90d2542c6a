"""A view's pipeline that raises on the world's request, before or after a call has done its work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.engine.barriers import Barrier
from runtime.engine.plan import Context, Pipeline

__all__ = ["BROKEN", "BreakingView"]

BROKEN: Final = "broken by the world"


class BreakingView(Pipeline):
    """Passes on every call."""

    def __init__(self, view: Pipeline) -> None:
        self._view = view
        self.most_inputs = view.most_inputs
        self.most_size = view.most_size
        self.breaks_in = -1
        """Number of places until it raises; below 0 it does not."""

    def start(self, context: Context) -> None:
        """See `Pipeline`."""
        self._view.start(context)

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        self._place()
        self._view.execute(inputs, context)
        self._place()

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """See `Pipeline`."""
        self._place()
        self._view.start_drain(barrier, context)

    def _place(self) -> None:
        if self.breaks_in >= 0:
            self.breaks_in -= 1
            if self.breaks_in < 0:
                raise RuntimeError(BROKEN)
