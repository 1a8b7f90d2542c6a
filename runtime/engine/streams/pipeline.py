"""Step of derived streams in the plan of an ingest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from runtime.engine.barriers import Barrier
from runtime.engine.express import Update
from runtime.engine.ingest.applying import StreamsNode
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.plan import Context
from runtime.engine.streams.streams import DerivedStreams
from runtime.plan import Program, decode_program

__all__ = ["StreamsPipeline"]

_MOST_DELTAS: Final = 1024
"""Greatest number of `Deltas` that a call takes."""


class StreamsPipeline(StreamsNode):
    """Pipeline that adds rows to the streams as they arrive, and emits complete rows at the barrier.

    It is owned by the worker that makes the call. The applying step may read `reads` and `times`, and takes no input
    while these change.
    """

    most_inputs = _MOST_DELTAS

    def __init__(self, streams: DerivedStreams, publish: Callable[[Update], None]) -> None:
        """Create the step.

        ``publish`` is called on a worker at the end of each epoch that has streams; it must not block.
        """
        self.streams = streams
        self._publish = publish
        self._closing: Deltas | None = None
        self._step = 0

    @property
    def reads(self) -> frozenset[str]:
        """Names of the relations that the streams need."""
        return self.streams.reads

    @property
    def times(self) -> Mapping[str, str]:
        """Time column of each relation whose watermark is needed."""
        return self.streams.times

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Add rows to the streams."""
        del context
        for each in inputs:
            if isinstance(each, Deltas):
                self.streams.take(each.relations)
                if each.closes >= 0:
                    self._closing = each

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """Emit complete rows; change to the streams of another program if the barrier has a control record."""
        closing, self._closing = self._closing, None
        if closing is None:
            return  # an empty epoch is not closed
        closed = self.streams.close(closing.watermarks, closing.ended)
        relations = dict(closed.relations)
        program: Program | None = None
        if isinstance(barrier.payload, bytes):
            record = decode_program(barrier.payload)
            if record.streams != self.streams.program.streams:
                for name, rows in self.streams.change_over(record, closing.closes).items():
                    there = relations.get(name)
                    relations[name] = rows if there is None else pa.concat_batches([there, rows])
                program = self.streams.views()
        self.streams.end_epoch()
        if relations or closed.late:
            context.emit(Deltas(relations, letters=closed.letters, malformed=closed.late))
        if closed.failed:
            context.emit(Sections(closing.closes, attributes={f"failed/{n}": why for n, why in closed.failed.items()}))
        if len(self.streams) or program is not None:
            self._step += 1
            changes = {name: pa.Table.from_batches([rows]) for name, rows in relations.items()}
            update = Update(
                self._step, closing.closes, closing.cuts, changes, closed.failed, program=program, closes=True
            )
            self._publish(update)
