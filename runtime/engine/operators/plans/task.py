"""A plan that runs on the caller's thread, one batch after the other: for tests, and for use as a library.

The same plan over the same input gives the same output batch by batch. Inputs are taken in turn, a batch of each scan,
until every scan has come to the barrier or to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from runtime.engine.errors import BarrierError
from runtime.engine.operators.columns import as_schema
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.operator import Batches
from runtime.engine.operators.plans.instances import Sink, connected
from runtime.engine.operators.plans.stages import stages_of
from runtime.engine.operators.plans.stream import Stream
from runtime.state import ObjectSpace

__all__ = ["Task", "run_plan"]


class _Token:
    """A barrier, or the end, in a scan's input."""


_BARRIER, _END = _Token(), _Token()


class Task:
    """Runs a plan for ever: feed batches, ask for barriers, take outputs. One thread at a time.

    At a barrier the task has the state of a new one, but for what operators keep; that lies in ``space``, whose owner
    commits it once `next` has given None.
    """

    def __init__(self, stream: Stream, *, space: ObjectSpace | None = None) -> None:
        self._sink = Sink()
        scans, self._instances = connected(stages_of(stream.step), self._sink, space)
        self.schema = stream.schema
        """Of the output."""
        self._scans = scans
        self._queues: dict[str, deque[pa.RecordBatch | _Token]] = {name: deque() for name in scans}
        self._ended: set[str] = set()
        self._running: Iterator[pa.RecordBatch] | None = None
        self.barriers = 0
        """Barriers that were reached."""
        self.inputs = 0
        """Batches that were taken in; a barrier's own passage does not count."""
        self.dropped_rows = 0
        """Rows that were not looked at, since they could not change the output any more before a barrier."""

    def add_input(self, name: str, batch: pa.RecordBatch) -> None:
        """A batch for a scan, to be looked at by `next`; behind a barrier that is under way it waits."""
        queue = self._queue(name)
        queue.append(as_schema(batch, self._scans[name].schema))

    def end_of_input(self, name: str) -> None:
        """Nothing more comes for a scan."""
        self._queue(name).append(_END)
        self._ended.add(name)

    def request_barrier(self) -> None:
        """A barrier behind what was added so far; it is reached when `next` gives None.

        Raises `BarrierError` if an operator cannot drain, or all inputs have ended.
        """
        for instance in self._instances:
            if instance.chain.cannot_drain:
                raise BarrierError(f"expected operators that can drain, was {instance.name}: "
                                   f"{instance.chain.cannot_drain}")  # fmt: skip
        if len(self._ended) == len(self._queues):
            raise BarrierError("expected a barrier before the end of all inputs, was one behind it")
        for name, queue in self._queues.items():
            if name not in self._ended:
                queue.append(_BARRIER)

    def next(self) -> pa.RecordBatch | None:
        """The next batch of output; None: there is none before more input, and all barriers were reached."""
        if self._running is None:
            self._running = self._run()
        batch = next(self._running, None)
        if batch is None:
            self._running = None
        return batch

    def drain(self) -> list[pa.RecordBatch]:
        """Ask for a barrier and take all output before it."""
        self.request_barrier()
        return self.outputs()

    def outputs(self) -> list[pa.RecordBatch]:
        """All output that there is now."""
        return list(iter(self.next, None))

    def held_rows(self) -> int:
        """Rows that operators hold."""
        return sum(instance.chain.held_rows() for instance in self._instances)

    def _queue(self, name: str) -> deque[pa.RecordBatch | _Token]:
        if name not in self._queues:
            raise PlanError(f"expected one of the scans {', '.join(self._queues)}, was {name}")
        if name in self._ended:
            raise PlanError(f"expected no more input of {name} after its end, was some")
        return self._queues[name]

    def _run(self) -> Batches:
        at_barrier: set[str] = set()
        while True:
            moved = False
            for name, queue in self._queues.items():
                if name in at_barrier or not queue:
                    continue
                moved = True
                item = queue.popleft()
                if item is _BARRIER:
                    at_barrier.add(name)
                yield from self._taken(name, item)
            if self._sink.reached:
                self._sink.reached -= 1
                self.barriers += 1
                at_barrier.clear()
            elif not moved:
                return

    def _taken(self, name: str, item: pa.RecordBatch | _Token) -> Batches:
        out = self._scans[name].out
        if item is _BARRIER:
            yield from out.barrier()
        elif isinstance(item, _Token):
            yield from out.end()
        elif out.is_unwanted():
            self.dropped_rows += item.num_rows
        else:
            self.inputs += 1
            yield from out.batch(item)


def run_plan(stream: Stream, inputs: Mapping[str, Iterable[pa.RecordBatch]]) -> pa.Table:
    """The output of a plan over whole inputs, by the name of their scans, without barriers."""
    task = Task(stream)
    batches: list[pa.RecordBatch] = []
    for name, given in inputs.items():
        for batch in given:
            task.add_input(name, batch)
        task.end_of_input(name)
    batches += task.outputs()
    return pa.Table.from_batches(batches, task.schema)
