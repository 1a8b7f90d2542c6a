"""The derived streams of a runtime: their state in the object space, their place in the plan, and the hub's view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from runtime.engine.express import Update
from runtime.engine.ingest import EpochWriter
from runtime.engine.streams import DerivedStreams, StreamFigures, StreamsPipeline, explain_stream
from runtime.epochs import SnapshotDirectory
from runtime.plan import decode_program, stream_of
from runtime.service.results.hub import Hub

__all__ = ["StreamLane"]


class StreamLane:
    """Made with the writer, once its catalogue is begun; while an ingest runs, the streams belong to its workers."""

    def __init__(self, writer: EpochWriter, directory: Path, publish: Callable[[Update], None]) -> None:
        """``publish`` is called on a worker at the end of each epoch; it must not block."""
        self._writer = writer
        self._streams = DerivedStreams(
            writer.space, writer.log, decode_program(writer.control), SnapshotDirectory(directory / "snapshots")
        )
        self.pipeline = StreamsPipeline(self._streams, publish)
        """Its place in the plan."""

    def begin(self, hub: Hub) -> None:
        """Show a hub the streams as the newest epoch has left them."""
        streams, recovered = self._streams, self._writer.recovered
        hub.begin_streams(
            streams.views(),
            streams.rows(),
            streams.failed(),
            self._writer.epoch,
            recovered.cuts if recovered else {},
        )

    def explain(self, name: str) -> str:
        """A stream in words; raises `KeyError` if it is not there."""
        return explain_stream(stream_of(self._streams.program, name))

    def figures(self) -> Mapping[str, StreamFigures]:
        """By stream, as of the last epoch; may be asked on any thread."""
        return self._streams.figures
