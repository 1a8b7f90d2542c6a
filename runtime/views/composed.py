"""Runs the nodes of a graph with one call: once for a step, or once for each row of a batch as a separate event.

```
NodeSequence: kernels and tables of the nodes ──run_nodes──▶ all have run, or one has stopped: make room, resume
EventLoop: rows of relations, in order ──run_events──▶ a window of one row ▶ run_nodes ▶ count the changed rows of views
Events: iterator over the events that change a watched view, for a caller in Python
```

A call from Python costs 0.3 µs, which a graph of five nodes would pay five times. The two kernels here are the same for
all graphs; they call the kernels of the nodes by their addresses. As long as a node is interpreted, both are
interpreted too, and call each node's kernel in its present tier.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.library import steps
from runtime.native.structures import Batch, Structure
from runtime.native.tiers import plain_kernel
from runtime.views.arrow_columns import BIND_SOURCE, ColumnBinding
from runtime.views.errors import ViewError
from runtime.views.feeds import ColumnBatch
from runtime.views.nodes.node import Node
from runtime.views.strings import Strings

__all__ = ["EVENTS_SOURCE", "RUN_SOURCE", "EventLoop", "Events", "KernelOf", "NodeSequence"]

Words = npt.NDArray[np.int64]
KernelOf = Callable[[str], Callable[[int], int] | None]
"""Function that returns the compiled kernel of a source, or None if there is none."""
Changes = list[tuple[str, tuple[Any, ...], int]]
"""Changes of an event: view, row, and the number of copies that were added (+) or removed (-)."""


def _source(title: str, function: str) -> str:
    return f'''"""{title}."""

from runtime.native.library.steps import {function}
from runtime.native.plain import jit, root


@jit
def step(address):
    return {function}(root(address))
'''


RUN_SOURCE: Final = _source("Runs the nodes of a graph in order", "run_nodes")
EVENTS_SOURCE: Final = _source("Runs the nodes of a graph in order for each row of a batch", "run_events")

_BRIEF: Final = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
"""Type of a call that keeps the interpreter lock.

A step of a few microseconds that releases the lock waits 5 ms to get it back if another thread computes.
"""


def _address(kernel: Any) -> int:
    """Return the address of a kernel's code; 0 if it is unknown because `KernelCache` did not compile the kernel."""
    try:
        return ctypes.cast(kernel, ctypes.c_void_p).value or 0
    except ctypes.ArgumentError:
        return 0


class NodeSequence(Structure):
    """The nodes of a graph in the order in which they run; see `library.steps`."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(6)
        self._nodes = list(nodes)
        self._failed: frozenset[str] = frozenset()
        count = len(self._nodes)
        self.put(steps.SEQUENCE, np.array([0, count, 0]))
        self.put(steps.KERNELS, np.zeros(count, np.int64))
        self.put(steps.TABLES, np.zeros(count, np.int64))
        self.put(steps.ACTIVE, np.ones(count, np.int64))
        self.views[steps.KERNELS] = [node.call for node in self._nodes]
        self.views[steps.TABLES] = [None] * count
        self.put(steps.FIRST_INPUT, np.cumsum([0, *(len(node.inputs) for node in self._nodes)]))
        self._inputs = _table_of([batch for node in self._nodes for batch in node.inputs])
        self.link(steps.INPUTS, self._inputs)
        self._numbers = self.views[steps.SEQUENCE]
        self._active = self.views[steps.ACTIVE]
        self._run: Callable[[Any], int] = plain_kernel(RUN_SOURCE)
        self._run_briefly = self._run
        self._argument: Any = self.views

    def use(self, kernel_of: KernelOf) -> bool:
        """Run the compiled sequence if all nodes are compiled; return False if its kernel is not compiled yet."""
        addresses = [_address(node.kernel) for node in self._nodes]
        if not all(addresses):
            return True
        run = kernel_of(RUN_SOURCE)
        if run is None:
            return False
        self.array(steps.KERNELS)[:] = addresses
        self.array(steps.TABLES)[:] = [node.address for node in self._nodes]
        self._run, self._argument = run, self.address
        self._run_briefly = _BRIEF(_address(run))
        return True

    @property
    def is_compiled(self) -> bool:
        """True if the sequence runs compiled."""
        return self._argument is not self.views

    def skip(self, failed: Collection[str]) -> None:
        """Stop running the nodes that only these views need."""
        if self._failed or failed:
            self._failed = frozenset(failed)
            for place, node in enumerate(self._nodes):
                self._active[place] = not failed or not node.views <= self._failed

    def run(self, *, is_brief: bool) -> dict[str, Exception]:
        """Run all nodes; return view → reason for its failure. With ``is_brief`` there are few rows: see `_BRIEF`."""
        kernel = self._run_briefly if is_brief else self._run
        errors: dict[str, Exception] = {}
        while kernel(self._argument):
            self.attend(errors)
        return errors

    def attend(self, errors: dict[str, Exception]) -> None:
        """Make the room that the stopped node needs; if the node failed, add its views to ``errors`` and skip it."""
        numbers = self._numbers
        node = self._nodes[numbers[steps.NODE]]
        try:
            node.attend(numbers[steps.STATUS])
        except Exception as error:  # noqa: BLE001 (the shard names the views, see `errors.reason_of`)
            for view in node.views:
                errors.setdefault(view, error)
            self.skip(self._failed | node.views)
            numbers[steps.NODE] += 1


class EventLoop(Structure):
    """Loop over rows of relations that a graph processes one by one; see `library.steps`."""

    def __init__(
        self,
        sequence: NodeSequence,
        relations: Mapping[str, ColumnBatch],
        filled: Sequence[ColumnBatch],
        outputs: Mapping[str, Sequence[ColumnBatch]],
        *,
        pauses: bool,
    ) -> None:
        """Prepare the loop over rows of relations.

        ``filled`` are all batches that a step fills, and ``outputs`` maps each view to its batches among them. With
        ``pauses`` every event ends a call of the kernel.
        """
        super().__init__(10)
        self._sequence = sequence
        self._relations, self._outputs = dict(relations), outputs
        self._filled = list(filled)
        self._sources = {name: ColumnBatch(batch.fields) for name, batch in relations.items()}
        for name, source in self._sources.items():
            source.read = relations[name].read
        self.put(0, np.array([0, 0, 0, int(pauses), len(self._filled)]))
        self.link(steps.GRAPH, sequence)
        self._tables = [_table_of(self._relations.values()), _table_of(self._sources.values()), _table_of(filled)]
        for place, table in zip((steps.RELATIONS, steps.SOURCES, steps.BATCHES), self._tables, strict=True):
            self.link(place, table)
        columns = [batch.read_columns() for batch in relations.values()]
        self.put(steps.WINDOWS, np.cumsum([0, *map(len, columns)]))
        self.put(steps.COLUMNS, np.array([n for batch in columns for column in batch for n in column], np.int64))
        self.put(steps.NEXT, np.zeros(len(columns), np.int64))
        self.put(steps.WATCHED, np.zeros(len(self._filled), np.int64))
        self._numbers = self.views[0]
        self._run: Callable[[Any], int] = plain_kernel(EVENTS_SOURCE)
        self._argument: Any = self.views

    def use(self, kernel_of: KernelOf) -> None:
        """Run compiled if the sequence runs compiled and the kernels of the loop are compiled."""
        if self._argument is self.views and self._sequence.is_compiled:
            kernel, bind = kernel_of(EVENTS_SOURCE), kernel_of(BIND_SOURCE)
            if kernel is not None and bind is not None:
                self._run, self._argument = kernel, self.address
                for source in self._sources.values():
                    source.binding = ColumnBinding(source, source.read_fields(), bind)

    @property
    def event(self) -> int:
        """Number of events that have been processed."""
        return int(self._numbers[steps.EVENT])

    @property
    def rows(self) -> int:
        """Number of rows removed from and added to views, including views that are not watched."""
        return int(self._numbers[steps.ROWS])

    def begin(
        self, tables: Mapping[str, pa.Table], order: Words | None, watched: Collection[str], strings: Strings
    ) -> None:
        """Make the rows of these relations the next events.

        ``order`` has for each event the number of its relation in ``tables``. ``watched`` is passed to `watch`.
        """
        places = {name: place for place, name in enumerate(self._relations)}
        known = [(number, name) for number, name in enumerate(tables) if name in places]
        counts = np.array([table.num_rows for table in tables.values()], np.int64)
        if order is None:
            order = np.repeat(np.arange(len(counts)), counts)
        if not np.array_equal(np.bincount(order, minlength=len(counts)), counts):
            raise ViewError(f"expected an order of {counts.tolist()} rows, was one of {np.bincount(order).tolist()}")
        relation_of = np.full(len(counts), -1)
        for number, name in known:
            relation_of[number] = places[name]
            if tables[name].num_rows:
                self._sources[name].fill_arrow(tables[name], strings)
        events = relation_of[order]  # -1 for a relation that no view reads
        self.put(steps.ORDER, np.ascontiguousarray(events, np.int64))
        self.array(steps.NEXT)[:] = 0
        self.watch(watched)
        for place, value in ((steps.EVENT, 0), (steps.LAST, len(order)), (steps.ROWS, 0)):
            self._numbers[place] = value

    def watch(self, views: Collection[str]) -> None:
        """Stop after events that change these views."""
        kinds = {id(batch): steps.WATCH if name in views else steps.UNWATCHED
                 for name, batches in self._outputs.items() for batch in batches}  # fmt: skip
        self.array(steps.WATCHED)[:] = [kinds.get(id(batch), steps.INNER) for batch in self._filled]

    def run(self, errors: dict[str, Exception]) -> bool:
        """Process events up to one that changes a watched view; return False if there is none.

        If the result is True, the changed rows of the watched views are in the views' batches.
        """
        for batch in self._relations.values():
            batch.lend()
        while (status := self._run(self._argument)) == steps.STOPPED:
            self._sequence.attend(errors)
        return status == steps.PAUSED


class Events(Iterator[tuple[int, Changes]]):
    """Iterator over events that change a watched view; yields an event's number and the changes of watched views.

    All other events are processed without the interpreter, in 0.2 to 1 µs each; the rows that they change in views that
    are not watched are only counted. Between two events of the iteration the owner may take other steps on the shard.
    It must not migrate the shard, write a base of it (which may renumber strings), or begin another iteration.
    """

    def __init__(self, loop: EventLoop, advance: Callable[[], Changes | None]) -> None:
        """Iterate with ``advance``, which processes events up to the next one that changes a watched view.

        ``advance`` returns the changes of that event, or None if there are no events left.
        """
        self._loop, self._advance = loop, advance

    @property
    def done(self) -> int:
        """Number of events processed so far."""
        return self._loop.event

    @property
    def rows(self) -> int:
        """Number of rows removed from and added to views so far, including those of watched views."""
        return self._loop.rows

    def __next__(self) -> tuple[int, Changes]:
        changes = self._advance()
        if changes is None:
            raise StopIteration
        return self.done - 1, changes


def _table_of(batches: Collection[Batch]) -> Structure:
    table = Structure(len(batches))
    for place, batch in enumerate(batches):
        table.link(place, batch)
    return table
