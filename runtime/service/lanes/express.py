"""The express lane of a runtime: views with their state in the object space, and their place in the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from runtime.engine.express import ExpressState, ExpressViews, Filling, Update
from runtime.engine.ingest import EpochWriter, Sections
from runtime.epochs import SnapshotDirectory
from runtime.plan import Program, decode_program, lane_program, new_views
from runtime.service.results.hub import Hub
from runtime.views.shard import Kernels

__all__ = ["ExpressLane"]

_NAME: Final = "express"
_NEAR_EPOCHS: Final = 16
"""Distance to the newest epoch up to which new views are filled before their barrier; the barrier reads the rest."""


class ExpressLane:
    """Express lane of one runtime, created with the writer, before its catalogue.

    Everything except `prepare` belongs to the owner's thread. While an ingest runs, views and state belong to the
    workers that run the pipeline.
    """

    def __init__(
        self,
        writer: EpochWriter,
        directory: Path,
        publish: Callable[[Update], None],
        kernels: Kernels | None = None,
    ) -> None:
        """Create the lane.

        ``publish`` is called on a worker with every version of the lane; it must not block. ``kernels`` compiles
        kernels; without it every kernel is interpreted.
        """
        self._writer = writer
        self._publish = publish
        self._filling = Filling(writer.log, SnapshotDirectory(directory / "snapshots"))
        self._state = ExpressState(kernels)
        self._prepared = threading.Lock()
        writer.space.runs(_NAME, self._state)
        self.pipeline: ExpressViews | None = None
        """The lane's pipeline in the plan; None before `begin`."""

    def first(self, program: Program) -> Sections:
        """Return the first results of the views of a new catalogue; saved with the epoch that is sealed next."""
        views = self._views(is_compared=any(view.on_spark for view in program.views))
        views.begin(lane_program(program, "express"))
        return views.close()

    def begin(self, hub: Hub | None = None, *, is_compared: bool = False) -> ExpressViews:
        """Resume at the end of the newest epoch, and pass the results to a hub.

        With ``is_compared`` Spark maintains the views, too, and epochs have their checksums.
        """
        record = decode_program(self._writer.control)
        views = self._views(is_compared=is_compared, has_streams=bool(record.streams))
        program = lane_program(record, "express")
        if self._state.program != program:
            views.begin(program, is_anew=True)  # the directory is of a release without lanes, or the lane has failed
        state = self._state
        if hub is not None:
            hub.begin_express(
                program,
                views.rows(),
                state.failed,
                self._writer.epoch,
                self._writer.recovered.cuts if self._writer.recovered else {},
            )
        self.pipeline = views
        return views

    def failed(self) -> None:
        """Discard the state after an error of the pipeline: it may be half changed, and will miss further epochs.

        Called on the worker on which the pipeline raised. The next epoch commits the empty state, so that the next
        start fills the views again.
        """
        self._state.begin(Program((), (), ()))

    def prepare(self, old: Program, new: Program) -> None:
        """Fill views that are about to be added from the log, so that their barrier has few epochs left to read.

        May run on any thread. Repeats while the log has grown a lot in the meantime.
        """
        before, after = (lane_program(program, "express") for program in (old, new))
        if self.pipeline is None or not new_views(before, after):
            return
        with self._prepared:
            filled = self._filling.read(before, after, self._writer.epoch)
            while self._writer.epoch - filled.epoch > _NEAR_EPOCHS:
                filled = self._filling.read(before, after, self._writer.epoch, filled)
            self.pipeline.prepare(filled)

    def _views(self, *, is_compared: bool, has_streams: bool = False) -> ExpressViews:
        cuts = self._writer.recovered.cuts if self._writer.recovered else {}
        return ExpressViews(
            self._state,
            self._filling,
            self._writer.epoch,
            cuts,
            self._publish,
            is_compared=is_compared,
            has_streams=has_streams,
        )
