"""The express lane's place in the plan of an ingest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from runtime.engine.barriers import Barrier
from runtime.engine.express.filling import Filled
from runtime.engine.express.views import ExpressViews, Update
from runtime.engine.ingest.deltas import Deltas
from runtime.engine.plan import Context, Pipeline
from runtime.plan import decode_program

__all__ = ["ExpressPipeline"]

_MOST_DELTAS: Final = 1024


class ExpressPipeline(Pipeline):
    """Steps over all deltas that wait, as one: those that come while a step runs become the next step.

    So the size of a step follows the load: a single message if there is time, thousands if there is none.
    The views are owned by the worker that runs a call; `prepare` may be called on any thread.
    """

    most_inputs = _MOST_DELTAS

    def __init__(self, views: ExpressViews, publish: Callable[[Update], None], *, has_streams: bool = False) -> None:
        """``publish`` is called on a worker with every version, in order; it must not block.

        ``has_streams``: derived streams add to an epoch behind what closes it, so that it ends with the barrier alone.
        """
        self._has_streams = has_streams
        self._views = views
        self._publish = publish
        self._closes = -1
        self._prepared: Filled | None = None

    def prepare(self, filled: Filled) -> None:
        """Set the tables that fill the views of the next control record."""
        self._prepared = filled

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Step over deltas."""
        del context
        deltas = cast("Sequence[Deltas]", inputs)
        self._closes = max([self._closes, *[each.closes for each in deltas]])
        self._views.take(deltas, self._publish, is_open=self._has_streams)

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """Change over if the barrier has a control record; give the epoch that closes what it changed."""
        if self._closes < 0:
            return  # an epoch that holds nothing is not closed
        if self._has_streams:
            self._views.end(self._closes, self._publish)
        self._closes = -1
        if isinstance(barrier.payload, bytes):
            program = decode_program(barrier.payload)
            prepared, self._prepared = self._prepared, None
            self._publish(self._views.change_over(program, prepared))
            self._has_streams = bool(program.streams)
        context.emit(self._views.close())
