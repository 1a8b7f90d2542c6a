"""View in a kernel graph of its own: the common part of the labs of joins, of selections and of flows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from runtime.compiler import NamedSelect, Program, Relation, compile_program
from runtime.engine.operators.evaluate import wide_array
from runtime.native.cache import KernelCache
from runtime.native.structures import RecordStructure
from runtime.plan import View
from runtime.state import ARROW_TYPES
from runtime.views.feeds import ColumnFeed
from runtime.views.graph import GraphBuilder
from runtime.views.routing import Part
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of
from tests.generators.factored import FactoredState
from tests.generators.programs import Row

__all__ = ["Deltas", "LabOptions", "ViewGraph", "ViewLab", "part_of"]

Deltas = Mapping[str, Sequence[tuple[Row, int]]]


class LabOptions(TypedDict, total=False):
    """Options of a lab."""

    program: Program
    """Program with one view, in place of the compiled query."""
    kernels: KernelCache | None
    """Cache of compiled kernels; by default they are interpreted."""
    from_payloads: bool
    """True if deltas are fed as payloads of maps, not as rows of relations."""


class ViewGraph(ABC):
    """Graph of the nodes of one view, which is built anew from records at a restart."""

    def __init__(self, program: Program, kernels: KernelCache | None, *, from_payloads: bool) -> None:
        """Prepare the graph of the program's only view; `_begin` builds it."""
        self.program = program
        (self.view,) = program.views
        self.result: Counter[Row] = Counter()
        self._kernels, self._from_payloads, self._has_begun = kernels, from_payloads, False

    @abstractmethod
    def lower(self, builder: GraphBuilder) -> None:
        """Make the nodes of the view's body."""

    def _begin(self, records: Mapping[str, np.ndarray], strings: Sequence[str] = ()) -> None:
        self.strings = Strings(strings)
        builder = GraphBuilder(self.program, self.strings, {}, part_of=part_of, from_payloads=self._from_payloads)
        with builder.of(self.view):
            self.lower(builder)
        for identity, rows in records.items():
            builder.structures[identity].load(rows)
        self.graph = builder.build({})
        if self._has_begun:
            for node in self.graph.nodes:
                node.numbers[1] = 1
        if self._kernels is not None:
            self._kernels.compile_now(self.graph.sources())
            assert self.graph.use(self._kernels.get), self._kernels.failures

    @property
    def structures(self) -> dict[str, RecordStructure]:
        """All structures of the state, by identity."""
        return self.graph.structures

    def records(self) -> dict[str, int]:
        """Return the number of records in each structure."""
        return {identity: len(structure.dump()) for identity, structure in self.structures.items()}

    def check(self) -> None:
        """Assert every invariant of the state; some structures have none."""
        for structure in self.structures.values():
            check = getattr(structure, "_check", None)
            if check is not None:
                check()


class ViewLab(ViewGraph):
    """One factored view in a graph, and the sum of its changes."""

    body: ClassVar[type]
    """Kind of body that the view must have for the graph to be built."""

    def __init__(
        self,
        sql: str,
        mode: str = "sql",
        relations: Sequence[Relation] = (),
        **options: Unpack[LabOptions],
    ) -> None:
        """Compile the query, unless ``options`` contain a program."""
        program, kernels = options.get("program"), options.get("kernels")
        from_payloads = options.get("from_payloads", False)
        made = compile_program([NamedSelect("v", sql)], relations, mode=mode) if program is None else program  # type: ignore[arg-type]
        super().__init__(made, kernels, from_payloads=from_payloads)
        self._sums = FactoredState(self.program, self.view) if self.has_body else None
        if self.has_body:
            self._begin({})

    @property
    def has_body(self) -> bool:
        """True if the compiler has made a body of this lab's kind from the query."""
        return isinstance(self.view.body, self.body)

    def restart(self) -> None:
        """Restart with the records of every structure, in another order."""
        records = {identity: held.dump()[::-1].copy() for identity, held in self.structures.items()}
        self._begin(records, self.strings.texts())

    def step(self, deltas: Deltas) -> dict[str, Exception]:
        """Feed rows with their weights, and add the change to the result; return the failed views with their errors."""
        for relation in self.program.relations:
            rows = deltas.get(relation.name, ())
            if not rows:
                continue
            if self._from_payloads:
                self._put_payloads(relation.name, rows)
            elif relation.name in self.graph.relations:
                self.graph.relations[relation.name].fill_arrow(_table(relation, rows), self.strings)
        self.strings.refresh()
        errors = self.graph.run()
        self._has_begun = True
        output = self.graph.outputs["v"]
        changes = [] if errors else tuples_of(output.batches, self.strings, is_distinct=output.is_distinct)
        assert len({row for row, _ in changes}) == len(changes), "a row stands twice in one change"
        for row, weight in changes:
            self.result[row] += weight
            if not self.result[row]:
                del self.result[row]
        self.graph.finish()
        return errors

    def _put_payloads(self, relation: str, rows: Sequence[tuple[Row, int]]) -> None:
        assert self._sums is not None
        for part in self.program.maps:
            feed = self.graph.feeds.get(Part(part.id, True))
            if part.relation != relation or not isinstance(feed, ColumnFeed):
                continue
            added = self._sums._preaggregated(part, rows)
            keys = [
                pa.array([key[place] for key in added], ARROW_TYPES[field.type])
                for place, field in enumerate(part.keys)
            ]
            sums = [wide_array([sums[place] for sums in added.values()]) for place in range(1, 1 + len(part.sums))]
            weight = pa.array([sums[0] for sums in added.values()], pa.int64())
            names = [*(key.name for key in part.keys), *(total.name for total in part.sums), "weight"]
            feed.fill([pa.Table.from_arrays([*keys, *sums, weight], names=names)], self.strings)


def part_of(view: View, number: int) -> Part:
    """Return the part of a map: each view has its own."""
    return Part(number, True)


def _table(relation: Relation, rows: Sequence[tuple[Row, int]]) -> pa.Table:
    arrays = [
        pa.array([row[place] for row, _ in rows], ARROW_TYPES[column.type])
        for place, column in enumerate(relation.columns)
    ]
    names = [*(column.name for column in relation.columns), "weight"]
    return pa.Table.from_arrays([*arrays, pa.array([weight for _, weight in rows], pa.int64())], names=names)
