"""Lanes that run in the process of the runtime: express views, and derived streams.

Each lane has its state in the object space and is a pipeline in the plan of the ingest. At the start, it passes its
results as of the newest epoch to the hub.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from runtime.engine.express import ExpressState, ExpressViews, Filling, Update
from runtime.engine.ingest import EpochWriter, Sections
from runtime.engine.streams import DerivedStreams, StreamFigures, StreamsPipeline, explain_stream
from runtime.epochs import Cut, SnapshotDirectory
from runtime.plan import Program, decode_program, lane_program, new_views, stream_of
from runtime.service.results.hub import Hub
from runtime.views.shard import Kernels

__all__ = ["ExpressLane", "StreamLane"]

_NAME: Final = "express"
_NEAR_EPOCHS: Final = 16
"""Number of epochs that a barrier may read in order to fill new views, without a delay that the feed would notice."""
_MOST_READS: Final = 10
"""Greatest number of times that the log is read before the barrier, each time from the end of the last read on."""


class ExpressLane:
    """Express lane of one runtime, created with the writer, before the catalogue.

    Everything except `prepare` and `failed` belongs to the owner's thread. While an ingest runs, views and state belong
    to the workers that run the pipeline.
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
        self._preparing = threading.Lock()
        writer.space.runs(_NAME, self._state)
        self.pipeline: ExpressViews | None = None
        """The lane's pipeline in the plan; None before `begin`."""

    def first(self, program: Program) -> Sections:
        """Return the first results of the views of a new catalogue; their state is saved with the next sealed epoch."""
        views = self._views(is_compared=any(view.on_spark for view in program.views))
        views.begin(lane_program(program, "express"))
        return views.close()

    def begin(self, hub: Hub | None = None, *, is_compared: bool = False) -> ExpressViews:
        """Resume at the end of the newest epoch, pass the results to a hub, and return the lane's pipeline.

        ``is_compared`` is True if Spark maintains the views, too; every epoch then has their checksums.
        """
        record = decode_program(self._writer.control)
        views = self._views(is_compared=is_compared, has_streams=bool(record.streams))
        program = lane_program(record, "express")
        if self._state.program != program:
            views.begin(program, is_anew=True)  # the directory is of a release without lanes, or the lane has failed
        if hub is not None:
            hub.begin_lane(program, views.rows(), self._state.failed, self._writer.epoch, _cuts(self._writer))
        self.pipeline = views
        return views

    def failed(self) -> None:
        """Discard the state after an error of the pipeline: the state may be half changed, and misses later epochs.

        Called on the worker on which the pipeline raised. The next epoch commits the empty state, so that the next
        start fills the views again.
        """
        self._state.begin(Program((), (), ()))

    def prepare(self, old: Program, new: Program) -> None:
        """Read the log for views that are about to be added, so that their barrier has few epochs left to read.

        May run on any thread. While the log is read, it grows by further epochs, which the next read adds. Reading ends
        when few epochs are left, when no fewer epochs are left than before (the log grows as fast as it is read), or
        after ten reads. The barrier reads the rest, which delays the feed; the log cannot grow meanwhile.
        """
        before, after = (lane_program(program, "express") for program in (old, new))
        if self.pipeline is None or not new_views(before, after):
            return
        with self._preparing:
            filled = self._filling.read(before, after, self._writer.epoch)
            left = self._writer.epoch - filled.epoch
            for _ in range(1, _MOST_READS):
                if left <= _NEAR_EPOCHS:
                    break
                filled = self._filling.read(before, after, self._writer.epoch, filled)
                left_before, left = left, self._writer.epoch - filled.epoch
                if left >= left_before:
                    break
            self.pipeline.prepare(filled)

    def _views(self, *, is_compared: bool, has_streams: bool = False) -> ExpressViews:
        return ExpressViews(
            self._state,
            self._filling,
            self._writer.epoch,
            _cuts(self._writer),
            self._publish,
            is_compared=is_compared,
            has_streams=has_streams,
        )


class StreamLane:
    """Derived streams of one runtime, created after its catalogue. Belongs to the workers while an ingest runs."""

    def __init__(self, writer: EpochWriter, directory: Path, publish: Callable[[Update], None]) -> None:
        """Restore the streams as of the newest epoch.

        ``publish`` is called on a worker at the end of each epoch; it must not block.
        """
        self._writer = writer
        self._streams = DerivedStreams(
            writer.space, writer.log, decode_program(writer.control), SnapshotDirectory(directory / "snapshots")
        )
        self.pipeline = StreamsPipeline(self._streams, publish)
        """The lane's pipeline in the plan."""

    def begin(self, hub: Hub) -> None:
        """Pass the streams as of the newest epoch to a hub."""
        streams, writer = self._streams, self._writer
        hub.begin_lane(streams.views(), streams.rows(), streams.failed(), writer.epoch, _cuts(writer), lane="stream")

    def explain(self, name: str) -> str:
        """Return a description of a stream; raises `KeyError` if it does not exist."""
        return explain_stream(stream_of(self._streams.program, name))

    def figures(self) -> Mapping[str, StreamFigures]:
        """Return the figures of each stream as of the newest epoch; may be called on any thread."""
        return self._streams.figures


def _cuts(writer: EpochWriter) -> Mapping[str, Cut]:
    """Return the cuts of the newest epoch that the writer has recovered."""
    return writer.recovered.cuts if writer.recovered else {}
