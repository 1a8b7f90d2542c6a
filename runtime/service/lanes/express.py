"""The express lane of a runtime: views with their state in the object space, and their place in the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from runtime.engine.express import ExpressPipeline, ExpressState, ExpressViews, Filling, Update
from runtime.engine.ingest import EpochWriter, Sections
from runtime.epochs import SnapshotDirectory
from runtime.plan import Program, decode_program, lane_program, new_views
from runtime.service.results.hub import Hub
from runtime.views.shard import Kernels

__all__ = ["ExpressLane"]

_NAME: Final = "express"
_NEAR_EPOCHS: Final = 16
"""What is filled ahead of its barrier is read up to here of the newest epoch; the barrier reads the rest."""


class ExpressLane:
    """Made with the writer, before its catalogue is begun; everything but `prepare` belongs to the owner's thread.

    While an ingest runs, views and state belong to the workers that run the pipeline.
    """

    def __init__(
        self,
        writer: EpochWriter,
        directory: Path,
        publish: Callable[[Update], None],
        kernels: Kernels | None = None,
    ) -> None:
        """``publish`` is called on a worker with every version of the lane; it must not block. ``kernels``: where
        compiled kernels come from; without them every kernel is interpreted."""
        self._writer = writer
        self._publish = publish
        self._filling = Filling(writer.log, SnapshotDirectory(directory / "snapshots"))
        self._state = ExpressState(kernels)
        self._prepared = threading.Lock()
        writer.space.runs(_NAME, self._state)
        self.pipeline: ExpressPipeline | None = None
        """Its place in the plan, from `begin` on."""

    def first(self, program: Program) -> Sections:
        """What the views of a new catalogue say to begin with; saved with the epoch that is sealed next."""
        views = self._views(is_compared=any(view.on_spark for view in program.views))
        views.begin(lane_program(program, "express"))
        return views.close()

    def begin(self, hub: Hub | None = None, *, is_compared: bool = False) -> ExpressPipeline:
        """Go on where the newest epoch ended, and show a hub what there is.

        ``is_compared``: Spark keeps the views as well, and epochs say their checksums.
        """
        views = self._views(is_compared=is_compared)
        record = decode_program(self._writer.control)
        program = lane_program(record, "express")
        if self._state.program != program:
            views.begin(program, is_anew=True)  # a directory from before there were lanes, or what a failure has left
        state = self._state
        if hub is not None:
            hub.begin_express(
                program,
                views.rows(),
                state.failed,
                self._writer.epoch,
                self._writer.recovered.cuts if self._writer.recovered else {},
            )
        self.pipeline = ExpressPipeline(views, self._publish, has_streams=bool(record.streams))
        return self.pipeline

    def failed(self) -> None:
        """The pipeline has raised: what it keeps may be half changed, and the epochs to come are not in it.

        Called on the worker that it has raised on. The next epoch commits that there is nothing, so that the next start
        fills the views anew.
        """
        self._state.begin(Program((), (), ()))

    def prepare(self, old: Program, new: Program) -> None:
        """Read what fills views that are about to be added, so that their barrier has little left to read.

        On any thread. Goes on reading as long as the log has grown a lot meanwhile.
        """
        before, after = (lane_program(program, "express") for program in (old, new))
        if self.pipeline is None or not new_views(before, after):
            return
        with self._prepared:
            filled = self._filling.read(before, after, self._writer.epoch)
            while self._writer.epoch - filled.epoch > _NEAR_EPOCHS:
                filled = self._filling.read(before, after, self._writer.epoch, filled)
            self.pipeline.prepare(filled)

    def _views(self, *, is_compared: bool = False) -> ExpressViews:
        cuts = self._writer.recovered.cuts if self._writer.recovered else {}
        return ExpressViews(self._state, self._filling, self._writer.epoch, cuts, is_compared=is_compared)
