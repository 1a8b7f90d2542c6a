"""Guard of a view's pipeline inside an ingest: whatever the pipeline raises, the ingest continues without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.engine.barriers import Barrier
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.plan import Context, Pipeline

__all__ = ["GuardedView"]


class GuardedView(Pipeline):
    """Passes every call on to a view's pipeline until one raises, and drops later input.

    The epoch in which the view fails has the attribute ``express/failed/NAME`` in its segment. Owned by the worker that
    makes the call; a view takes one call at a time.
    """

    def __init__(self, name: str, view: Pipeline, on_failed: Callable[[str, str], None]) -> None:
        """Wrap ``view``; ``on_failed`` is called with the view's name and the reason, once, on a worker."""
        self._name = name
        self._view = view
        self._on_failed = on_failed
        self._reason = ""
        self._is_published = False
        self._closes = -1
        self.most_inputs = view.most_inputs
        self.most_size = view.most_size

    def __str__(self) -> str:
        return str(self._view) if type(self._view).__str__ is not object.__str__ else type(self._view).__name__

    def start(self, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.start(context))

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        for each in inputs:
            if isinstance(each, Deltas) and each.closes >= 0:
                self._closes = each.closes
        if self._reason:
            return
        try:
            self._view.execute(inputs, context)
        except Exception as error:  # noqa: BLE001 (whatever a view raises, messages go on)
            self._fail(error)

    def end_of_input(self, port: int, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.end_of_input(port, context))

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.start_drain(barrier, context))
        if self._reason and not self._is_published and self._closes >= 0:
            self._is_published = True
            context.emit(Sections(self._closes, attributes={f"express/failed/{self._name}": self._reason}))
        self._closes = -1

    def stop(self, context: Context) -> None:
        """See `Pipeline`."""
        self._guard(lambda: self._view.stop(context))

    def discard(self) -> None:
        """See `Pipeline`."""
        self._guard(self._view.discard)

    def _guard(self, call: Callable[[], None]) -> None:
        if self._reason:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 (as in execute)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._reason = f"{type(error).__name__}: {error}"
        self._on_failed(self._name, self._reason)
