"""The sink of an ingest's plan: what it gathers between two barriers becomes an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.engine.barriers import Barrier
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.ingest.writer import EpochWriter
from runtime.engine.plan import Context, Pipeline
from runtime.epochs import Cut

__all__ = ["EpochSink"]


class EpochSink(Pipeline):
    """Closes the epoch on the barrier, and has it committed; see `EpochWriter`.

    The barrier comes when the step that applies and all views have drained and rest until it has completed. So what
    they hold in the object space is still, and belongs to the epoch. If a commit raises, the ingest fails: only the
    next start can tell whether the epoch is committed. Whoever waits for a record or a turnover hears of it when the
    epoch is durable, and so does whoever waits for the end.

    The writer and what is here belong to the worker that makes the call; there is one at a time.
    """

    most_inputs = 1024

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._cuts: Mapping[str, Cut] | None = None
        self._numbers: dict[int, int] = {}

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Put deltas and sections into the open epoch."""
        del context
        for each in inputs:
            if isinstance(each, Deltas):
                self._writer.add(each.relations, each.messages)
                self._writer.set_aside(each.letters, each.malformed)
                if each.closes >= 0:
                    self._cuts = each.cuts
            elif isinstance(each, Sections):
                self._writer.add_sections(each)

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """Have the epoch committed if it was closed; a failed commit has begun a barrier to be raised here."""
        del context
        if self._writer.has_failed:
            self._writer.settle()
        if self._cuts is None:
            return
        cuts, self._cuts = self._cuts, None
        control = barrier.payload if isinstance(barrier.payload, bytes) else b""
        epoch = self._writer.begin_seal(cuts, control).to_epoch
        if barrier.payload is not None:
            self._writer.settle()
            self._numbers[barrier.number] = epoch

    def stop(self, context: Context) -> None:
        """The end is when all is durable."""
        del context
        self._writer.settle()

    def numbered(self, barrier: Barrier) -> int:
        """The epoch that has the control record or turnover of this barrier, which has completed; asked once."""
        return self._numbers.pop(barrier.number)
