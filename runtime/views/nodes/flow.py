"""Interface between the operators of a flow: changes of rows, how a kernel reads them, and how it writes them.

```
scan, select, union      no kernel: they are `Rows` that the kernels of their consumers compute
joins, bound             one kernel per input; both append to one batch of changes
sets, group, top, window one kernel, which appends to a batch of changes
the view's rows          one kernel that adds up equal rows, where the last operator does not do so
```

`runtime.views.nodes.flow_body` lowers the records of a flow in order; the function of each record gets the `Rows` of
its inputs and returns its own. The changes of a step may repeat a row or cancel each other: only their sum counts. Rows
are read with weights of any sign, because a deletion may arrive before the insertion that it undoes.

The kernel of an operator is written like this:

```
batch = ctx.batch(fields)
k = ctx.kernel("selects distinct rows")
k.begin()
with rows.open(k) as row:                  # row.values: name → Value; row.weight: an identifier
    reserve(k, batch, "2")                 # before anything of the row is applied
    ...
    batch.put_append(k, values, weight)
k.put("return -1 if bad else 0")
ctx.add(k, rows)
return BatchRows(batch)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from runtime.native.library import hashing
from runtime.native.structures import HashTable, RecordStructure
from runtime.plan import View
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field
from runtime.views.feeds import ColumnBatch, LoadedColumns, Row, Rows, stop
from runtime.views.graph import GraphBuilder
from runtime.views.nodes.node import Node
from runtime.views.nodes.show import BEGUN
from runtime.views.strings import Strings

__all__ = ["BEGUN", "BatchRows", "FlowBatch", "FlowContext", "open_touched", "reserve"]

S = TypeVar("S", bound=RecordStructure)

_ROWS: Final = 64
"""Number of rows for which a new batch of changes has room; a variable of its own, so that tests can reduce it."""


class FlowBatch(ColumnBatch):
    """Batch of an operator's changes."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._projections: list[tuple[ColumnBatch, list[int]]] = []
        super().__init__(fields, _ROWS)

    def grow(self, room: int) -> None:
        """Make room for at least this many rows."""
        super().grow(room)
        for batch, places in self._projections:
            for place, source in enumerate(places):
                batch.put(place, self.array(source))

    def projection(self, names: Sequence[str]) -> ColumnBatch:
        """Return a batch of some columns that shares its arrays with this batch."""
        fields = [next(field for field in self.fields if field.name == name) for name in names]
        batch = ColumnBatch([Field(f"c{place}", f.type, f.nullable) for place, f in enumerate(fields)])
        places = [0, 1]
        for field in fields:
            places += range(self.place(field.name), self.place(field.name) + 1 + field.nullable)
        self._projections.append((batch, places))
        self.grow(0)
        return batch


class BatchRows(Rows):
    """Rows that a kernel has appended to a batch."""

    def __init__(self, batch: FlowBatch, *, is_distinct: bool = False) -> None:
        self.fields = batch.fields
        self.is_distinct = is_distinct
        self.batch = batch
        self.batches = (batch,)

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        weight = k.assign("w", f"{k.cells(self.batch, 1)}[{number}]")
        yield Row(LoadedColumns(k, self.batch, number), weight)

    def stored(self, names: Sequence[str]) -> ColumnBatch | None:
        return self.batch.projection(names)


class FlowContext(msgspec.Struct, frozen=True):
    """Further arguments of a function that lowers a record, besides the record's inputs."""

    builder: GraphBuilder
    """The graph under construction."""
    view: View
    """The view whose body is the flow."""
    number: int
    """Number of the record in the flow."""

    @property
    def strings(self) -> Strings:
        """Numbers of strings."""
        return self.builder.strings

    def structure(self, name: str, make: Callable[[], S]) -> S:
        """Return a structure of this record: that of the previous program, or a new one."""
        return self.builder.structure(f"view/{self.view.name}/{self.number}/{name}", make)

    def batch(self, fields: Sequence[Field]) -> FlowBatch:
        """Return a batch for this record's changes, which the graph empties after each step."""
        batch = FlowBatch(fields)
        self.builder.transient.append(batch)
        return batch

    def kernel(self, title: str, *, numbers: int = 4) -> KernelSource:
        """Return a kernel under construction."""
        return KernelSource(title, self.strings, numbers=numbers)

    def add(self, k: KernelSource, rows: Rows, *, runs_first: bool = False) -> None:
        """Run a kernel in each step that has rows for it, after the kernels that were added before it.

        With ``runs_first`` the kernel runs in every step, because it must run in the first one even without rows. It
        sets its number `BEGUN` to 1 to record that it has run.
        """
        inputs = () if runs_first else rows.batches
        self.builder.ends.append(Node(k, [self.view.name], inputs))


def reserve(k: KernelSource, batch: ColumnBatch, count: str = "1", *, saves: Sequence[str] = ()) -> None:
    """Write the lines that stop the kernel at the current row unless a batch has room for ``count`` more rows.

    ``saves`` are lines that store further cursors, from ``s[2]`` on, before the kernel stops.
    """

    def stops(status: int) -> None:
        k.put(*saves)
        stop(k, status)

    batch.put_room(k, count, stops)


@contextmanager
def open_touched(k: KernelSource, table: HashTable, batch: ColumnBatch, rows: int = 1) -> Iterator[str]:
    """Write the loop over the records of a table that the step has touched, and end the step for the table.

    Yields the place of a record in the table's cells; its number among the touched records is ``i``. The kernel stops
    before the loop unless a batch has room for ``rows`` rows for each record; see `Rows.open`.
    """
    k.use("hashing", "settle")
    count = k.assign("count", f"{k.cells(table, hashing.META)}[{hashing.CHANGED}]")
    reserve(k, batch, f"{rows} * {count}")
    k.put("i = 0")
    with k.block(f"while i < {count}:"):
        yield k.assign("c", f"{k.cells(table, hashing.TOUCHED)}[i] * {table.stride}")
        k.put("i += 1")
    k.put("s[0] = 0", f"settle({k.table(table)})")
