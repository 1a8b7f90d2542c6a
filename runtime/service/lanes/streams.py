"""Lane of the derived streams of a runtime: their state in the object space, their pipeline, and their results."""

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
    """Derived streams of one runtime, created after its catalogue; they belong to the workers while an ingest runs."""

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
        streams, recovered = self._streams, self._writer.recovered
        hub.begin_streams(
            streams.views(),
            streams.rows(),
            streams.failed(),
            self._writer.epoch,
            recovered.cuts if recovered else {},
        )

    def explain(self, name: str) -> str:
        """Return a description of a stream; raises `KeyError` if it does not exist."""
        return explain_stream(stream_of(self._streams.program, name))

    def figures(self) -> Mapping[str, StreamFigures]:
        """Return the figures of each stream as of the last epoch; may be called on any thread."""
        return self._streams.figures
