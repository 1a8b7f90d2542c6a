"""Interface between the operators of a flow: changes of rows, how a kernel reads them, and how it writes them.

```
scan, select, union      no kernel: they are `FlowRows` that the kernels of their consumers compute
joins                    one kernel per input (`FlowNode`), both of which append to one batch of changes
sets, group, top         one kernel, which appends to a batch of changes
the view's rows          one kernel that adds up equal rows, where the last operator does not do so
```

`runtime.views.nodes.flow_body` lowers the records of a flow in order; the function of each record gets the `FlowRows`
of its inputs and returns its own. The changes of a step may repeat rows and may cancel: only their sum counts. Rows are
read with weights of any sign, because a deletion may arrive before the insertion that it undoes.

The kernel of an operator is written like this:

```
batch = ctx.batch(fields)
k = ctx.kernel("selects distinct rows")
k.begin()
k.put("bad = False")
with rows.open(k) as row:                  # row.values: name → Value; row.weight: an identifier
    reserve(k, batch, "2")                 # before anything of the row is applied
    ...
    append(k, batch, values, weight)
k.put("return -1 if bad else 0")
ctx.add(FlowNode(k, [ctx.view.name], rows))
return BatchRows(batch)
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from runtime.native.structures import Structure
from runtime.plan import View
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value
from runtime.views.feeds import ColumnBatch, Feed
from runtime.views.graph import GraphBuilder
from runtime.views.nodes.node import Node
from runtime.views.nodes.show import BEGUN
from runtime.views.strings import Strings

__all__ = [
    "BEGUN",
    "BatchRows",
    "FeedRows",
    "FlowBatch",
    "FlowContext",
    "FlowNode",
    "FlowRow",
    "FlowRows",
    "append",
    "reserve",
    "stop",
]

S = TypeVar("S", bound=Structure)

_ROWS: Final = 64
"""Rows that a new batch has room for."""


class FlowRow(msgspec.Struct, frozen=True):
    """Source for one row of `FlowRows`."""

    values: dict[str, Value]
    """The requested columns by name, each in its field's type."""
    weight: str
    """An identifier, int64; of any sign."""


class FlowRows(ABC):
    """Changes of rows in one step, as the kernel of a consumer reads them."""

    fields: tuple[Field, ...]
    """Columns; their names do not repeat."""
    is_distinct: bool = False
    """Whether no two rows of a step are equal in all columns, and no weight is 0."""
    batches: tuple[ColumnBatch, ...]
    """Where the rows come from."""

    @contextmanager
    def open(
        self, k: KernelSource, names: Collection[str] | None = None, *, stays_at_end: bool = False
    ) -> Iterator[FlowRow]:
        """Write the loop over the rows, whose body is what the caller writes; ``names``: columns to load (all).

        The loop begins at the kernel's cursor ``s[0]``; behind the loop the cursor is 0 again, or with ``stays_at_end``
        the number of rows, so that the kernel may stop again behind the loop and skips it when it resumes; it then sets
        ``s[0]`` to 0 itself. The number of the row is ``e``. A kernel has one such loop. The body must not contain
        ``continue``; it may end the kernel with `stop`.
        """
        wanted = [field.name for field in self.fields if names is None or field.name in names]
        rows = " + ".join(f"{k.cells(batch, 0)}[{batch.ROWS}]" for batch in self.batches)
        k.put("e = s[0]", f"rows = {rows}")
        with k.block("while e < rows:"):
            with self.row(k, wanted, "e") as row:
                # A value that is loaded when it is first used would be missing behind a condition of the caller.
                yield FlowRow({name: row.values[name] for name in wanted}, row.weight)
            k.put("e += 1")
        k.put("s[0] = e" if stays_at_end else "s[0] = 0")

    @abstractmethod
    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[FlowRow]:
        """Write the lines that bind some columns of the row with a number (an identifier).

        What the caller writes next belongs to the row: it may be skipped because of a condition. Values may be loaded
        only when they are looked up, which the caller does before it opens a block of its own.
        """

    def field(self, name: str) -> Field:
        """The field of a name."""
        return next(field for field in self.fields if field.name == name)

    @property
    def filters(self) -> bool:
        """Whether `row` may skip rows."""
        return False

    def stored(self, names: Sequence[str]) -> ColumnBatch | None:
        """A batch with these columns of all rows; None: only a kernel could fill one."""
        return None


class FlowBatch(ColumnBatch):
    """Batch of an operator's changes."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._projections: list[tuple[ColumnBatch, list[int]]] = []
        super().__init__(fields, _ROWS)

    def grow(self, room: int) -> None:
        """Make room for so many rows at least."""
        super().grow(room)
        for batch, places in self._projections:
            for place, source in enumerate(places):
                batch.put(place, self.array(source))

    def projection(self, names: Sequence[str]) -> ColumnBatch:
        """A batch of some columns, whose arrays are those of this one."""
        fields = [next(field for field in self.fields if field.name == name) for name in names]
        batch = ColumnBatch([Field(f"c{place}", f.type, f.nullable) for place, f in enumerate(fields)])
        places = [0, 1]
        for field in fields:
            places += range(self.place(field.name), self.place(field.name) + 1 + field.nullable)
        self._projections.append((batch, places))
        self.grow(0)
        return batch


class BatchRows(FlowRows):
    """Rows that a kernel has appended to a batch."""

    def __init__(self, batch: FlowBatch, *, is_distinct: bool = False) -> None:
        self.fields = batch.fields
        self.is_distinct = is_distinct
        self.batch = batch
        self.batches = (batch,)

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[FlowRow]:
        weight = k.assign("w", f"{k.cells(self.batch, 1)}[{number}]")
        yield FlowRow(_LoadedValues(k, self.batch, number), weight)

    def stored(self, names: Sequence[str]) -> ColumnBatch | None:
        return self.batch.projection(names)


class _LoadedValues(dict[str, Value]):
    """Columns of a row of a batch by name, each loaded when it is first looked up."""

    def __init__(self, k: KernelSource, batch: ColumnBatch, number: str) -> None:
        super().__init__()
        self._k, self._batch, self._number = k, batch, number

    def __missing__(self, name: str) -> Value:
        field = next((field for field in self._batch.fields if field.name == name), None)
        if field is None:
            raise KeyError(name)
        self[name] = value = self._batch.load_column(self._k, field, self._number)
        return value


class FeedRows(FlowRows):
    """Rows of a map: its keys as columns."""

    def __init__(self, feed: Feed) -> None:
        self.fields = feed.keys
        self._feed = feed
        self.batches = (feed.batch,)

    @property
    def filters(self) -> bool:
        return self._feed.filters

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[FlowRow]:
        weight = k.assign("w", f"{k.cells(self._feed.batch, 1)}[{number}]")
        with self._feed.row(k, weight, number) as bound:
            yield FlowRow({name: bound.keys[name] for name in names}, weight)


class FlowNode(Node):
    """A kernel that reads `FlowRows`; it is not called while there are none."""

    def __init__(
        self, source: KernelSource, views: Collection[str], *inputs: FlowRows, runs_first: bool = False
    ) -> None:
        """``runs_first``: the kernel has to run in the first step even without rows; it then runs in every step.

        Such a kernel finds out whether it has run by its number `BEGUN`, which it sets to 1.
        """
        super().__init__(source, views)
        if not runs_first:
            self.inputs = tuple(batch for rows in inputs for batch in rows.batches)


class FlowContext(msgspec.Struct, frozen=True):
    """What the function that lowers a record gets besides its inputs."""

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

    def identity(self, name: str) -> str:
        """The identity of a structure of this record."""
        return f"view/{self.view.name}/{self.number}/{name}"

    def structure(self, name: str, make: Callable[[], S]) -> S:
        """A structure of this record: inherited or made."""
        return self.builder.structure(self.identity(name), make)

    def batch(self, fields: Sequence[Field]) -> FlowBatch:
        """A batch for this record's changes, which the graph empties after each step."""
        batch = FlowBatch(fields)
        self.builder.transient.append(batch)
        return batch

    def kernel(self, title: str, *, numbers: int = 4) -> KernelSource:
        """A kernel under construction."""
        return KernelSource(title, self.strings, numbers=numbers)

    def add(self, node: Node) -> None:
        """Let a node run in each step, after those that were added before it."""
        self.builder.ends.append(node)


def stop(k: KernelSource, status: int) -> None:
    """Write the lines that end the kernel at the present row of `FlowRows.open`, of which nothing was applied yet."""
    k.put("s[0] = e", f"return -1 if bad else {status}")


def reserve(k: KernelSource, batch: ColumnBatch, count: str = "1", *, saves: Sequence[str] = ()) -> None:
    """Write the lines that stop the kernel at the present row unless a batch has room for so many rows more.

    ``saves``: lines that store further cursors, in ``s[2]`` and behind it, before the kernel stops.
    """
    status = k.need(lambda: batch.grow(2 * batch.room + 2))
    meta = k.cells(batch, 0)
    with k.block(f"if {meta}[{batch.ROWS}] + {count} > {meta}[{batch.ROOM}]:"):
        k.put(*saves)
        stop(k, status)


def append(k: KernelSource, batch: ColumnBatch, values: Sequence[Value], weight: str) -> None:
    """Write the lines that append a row to a batch with room for it; the values are of the types of its fields."""
    meta = k.cells(batch, 0)
    number = k.assign("o", f"{meta}[{batch.ROWS}]")
    for field, value in zip(batch.fields, values, strict=True):
        batch.store(k, field, value, number)
    k.put(f"{k.cells(batch, 1)}[{number}] = {weight}", f"{meta}[{batch.ROWS}] = {number} + 1")
