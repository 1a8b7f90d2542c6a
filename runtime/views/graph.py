"""The graph of a view program: its nodes in the order in which they run, and the structures that they share.

```
relations, or payloads of maps ──▶ feeds ──▶ for each map in turn:
    statements of joins that read the map's old state ▶ its indexes and totals ▶ those that read its new state
──▶ thresholds, operators, recomputed queries ──▶ show ──▶ one batch of changes per view
```

Structures have identities: two views that need the same index over the same map share it, and a new program keeps the
structures of the previous program whose identities it needs as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

import msgspec
import numpy as np

from runtime.native.structures import RecordStructure
from runtime.plan import Program, View, map_identity
from runtime.views.arrow_columns import BIND_SOURCE, ColumnBinding
from runtime.views.composed import EVENTS_SOURCE, RUN_SOURCE, EventLoop, KernelOf, NodeSequence
from runtime.views.emission.values import Field
from runtime.views.errors import ViewOverflowError, reason_of
from runtime.views.feeds import ColumnBatch, ColumnFeed, Feed, MapFeed, key_fields
from runtime.views.nodes.node import Node
from runtime.views.nodes.show import Shape, Show, output_fields, settle_node
from runtime.views.nodes.totals import Totals, totals_node
from runtime.views.routing import Part
from runtime.views.rows import changes_as_tuples
from runtime.views.strings import Strings

__all__ = ["Change", "DrivenGraph", "Graph", "GraphBuilder", "Runnable", "ViewOutput"]

S = TypeVar("S", bound=RecordStructure)
Change = tuple[str, tuple[Any, ...], int]
"""View, row, and the number of copies that were added (+) or removed (-)."""
_BEGIN: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
_RANGES: Final = {
    "date": ((date.min - _BEGIN.date()).days, (date.max - _BEGIN.date()).days),
    "timestamp": tuple(
        (moment - _BEGIN) // timedelta(microseconds=1)
        for moment in (datetime.min, datetime.max)  # noqa: DTZ901 - as above
    ),
}
"""First and last value of the years 1 to 9999, as words of cells."""


class Runnable(Protocol):
    """Unit that runs once a step: a node, or a caller of DuckDB."""

    views: frozenset[str]
    """Views that fail if this unit fails."""

    def run(self) -> None:
        """Process the rows of the inputs."""


class ViewOutput(msgspec.Struct):
    """Changes of a view after a step."""

    batches: list[ColumnBatch]
    """Changes of the view, in one or more batches."""
    is_distinct: bool
    """True if no two rows of the batches are ever equal."""


class _Turn(msgspec.Struct):
    """Nodes that run for one map."""

    before: list[Runnable] = msgspec.field(default_factory=list)
    """Statements that read the map's old state."""
    update: list[Runnable] = msgspec.field(default_factory=list)
    """Nodes that add the map's deltas to its indexes and totals."""
    after: list[Runnable] = msgspec.field(default_factory=list)
    """Statements that read the map's new state, and nodes of indexes over auxiliary maps."""


class GraphBuilder:
    """Collects the nodes and structures of a program's views; a node kind's `lower` function calls it."""

    def __init__(
        self,
        program: Program,
        strings: Strings,
        structures: Mapping[str, RecordStructure],
        *,
        part_of: Callable[[View, int], Part],
        from_payloads: bool,
    ) -> None:
        """Collect nodes for a program.

        ``structures`` are the structures of the previous program, by identity; those that are needed again are used.
        """
        self.program = program
        self.strings = strings
        self.structures: dict[str, RecordStructure] = {}
        """Structures by identity."""
        self.relations: dict[str, ColumnBatch] = {}
        """Relation → batch of pending rows."""
        self.outputs: dict[str, ViewOutput] = {}
        """View → its changes."""
        self.part_of = part_of
        """Function from a view and the number of a map to the part of the map that the view reads."""
        self._inherited = structures
        self._from_payloads = from_payloads
        self.feeds: dict[Part, Feed] = {}
        """Part → its feed."""
        self._turns: dict[Part, _Turn] = {}
        self._updates: dict[str, tuple[Node, set[str]]] = {}
        self.ends: list[Runnable] = []
        """Units that run after the nodes of all maps."""
        self.shows: list[tuple[str, Totals, Callable[[bool], Node]]] = []
        """Tuples of a view, the totals that the view shows, and the function that makes the node; the function's
        argument is ``settles`` of `Show`.
        """
        self.transient: list[ColumnBatch] = []
        """Batches that are empty again after a step."""
        self._known = {relation.name: relation for relation in program.relations}
        self.users: dict[str, set[str]] = {}
        """Identity of a structure → the views that use it."""
        self._view = ""

    @contextmanager
    def of(self, view: View) -> Iterator[None]:
        """Assign to this view the nodes and structures that are added within the context."""
        self._view = view.name
        yield

    def identity(self, part: Part) -> str:
        """Return the identity of a part, which is the same in all programs."""
        digest = map_identity(self.program.maps[part.map])
        return f"{digest.hex()}/{int(part.whole)}/{part.column}"

    def feed(self, part: Part) -> Feed:
        """Return the feed of a part, which has its deltas."""
        if part not in self.feeds:
            map_ = self.program.maps[part.map]
            relation = self._known[map_.relation]
            if self._from_payloads:
                keys = key_fields(map_, relation, self.strings)
                self.feeds[part] = ColumnFeed(keys, [total.name for total in map_.sums])
            else:
                if relation.name not in self.relations:
                    fields = [Field(c.name, c.type, c.nullable) for c in relation.columns]
                    self.relations[relation.name] = ColumnBatch(fields)
                self.feeds[part] = MapFeed(map_, relation, self.relations[relation.name], self.strings)
        return self.feeds[part]

    def turn(self, part: Part) -> _Turn:
        """Return the nodes of a part: readers of its old state, updates of its structures, readers of its new state."""
        return self._turns.setdefault(part, _Turn())

    def structure(self, identity: str, make: Callable[[], S]) -> S:
        """Return the structure of this identity: a shared one, that of the previous program, or a new one."""
        self.users.setdefault(identity, set()).add(self._view)
        if identity not in self.structures:
            inherited = self._inherited.get(identity)
            self.structures[identity] = make() if inherited is None else inherited
        return self.structures[identity]  # type: ignore[return-value]

    def indexed(
        self, view: View, number: int, spec: str, make: Callable[[Feed], S], node: Callable[[Feed, S], Node]
    ) -> S:
        """Return a structure that the rows of a map keep up to date; all views with the same ``spec`` share it."""
        part = self.part_of(view, number)
        identity = f"{self.identity(part)}/{spec}"
        feed = self.feed(part)
        structure = self.structure(identity, lambda: make(feed))
        if identity not in self._updates:
            update = node(feed, structure)
            self._updates[identity] = update, set()
            self.turn(part).update.append(update)
        update, views = self._updates[identity]
        views.add(view.name)
        update.views = frozenset(views)
        return structure

    def totals(self, view: View, number: int, on: Sequence[str], *, is_result: bool = False) -> Totals:
        """Return the totals of a map by some of its keys.

        Rows in which one of these keys is NULL count only if ``on`` has all keys of the map.
        """
        every = len(on) == len(self.program.maps[number].keys)

        def make(feed: Feed) -> Totals:
            keys = {key.name: key for key in feed.keys}
            kept = [keys[name] if every else msgspec.structs.replace(keys[name], nullable=False) for name in on]
            return Totals(kept, feed.sums, is_result=is_result)

        spec = f"totals {','.join(on)}{' result' if is_result else ''}"
        return self.indexed(
            view, number, spec, make, lambda feed, table: totals_node(feed, table, on, self.strings, [view.name])
        )

    def show(self, view: View, table: Totals, shape: Shape) -> None:
        """Show the groups of a table that was made with ``is_result`` as the rows of a view."""
        out = self.out(view, is_distinct=shape.shows_keys(table.keys))
        self.shows.append(
            (
                view.name,
                table,
                lambda settles: Show(table, shape, out, self.strings, [view.name], settles=settles),
            )
        )

    def out(self, view: View, *, is_distinct: bool) -> ColumnBatch:
        """Return a new batch for changes of a view."""
        batch = ColumnBatch(output_fields(view.columns))
        self.transient.append(batch)
        output = self.outputs.setdefault(view.name, ViewOutput([], is_distinct))
        output.batches.append(batch)
        output.is_distinct = is_distinct and len(output.batches) == 1
        return batch

    def build(self, errors: dict[str, str]) -> Graph:
        """Return the graph of all views that were lowered; a view that cannot be shown is added to ``errors``."""
        order: list[Runnable] = []
        for _, turn in sorted(self._turns.items()):
            order += [*turn.before, *turn.update, *turn.after]
        order += self.ends
        readers: dict[int, int] = {}
        for _, table, _ in self.shows:
            readers[id(table)] = readers.get(id(table), 0) + 1
        shared: dict[int, tuple[Totals, set[str]]] = {}
        for view, table, make in self.shows:
            is_only = readers[id(table)] == 1
            try:
                order.append(make(is_only))
            except Exception as error:  # noqa: BLE001 (see reason_of)
                errors[view] = reason_of(error)
            if not is_only:
                shared.setdefault(id(table), (table, set()))[1].add(view)
        order += [settle_node(table, self.strings, views) for table, views in shared.values()]
        return Graph(self, order)


class Graph:
    """The nodes of a program's views. Not thread-safe: one owner at a time."""

    def __init__(self, builder: GraphBuilder, order: Sequence[Runnable]) -> None:
        self.structures = builder.structures
        """Structures by identity: the whole state."""
        self.relations = builder.relations
        """Relation → batch for its rows before a step."""
        self.feeds = builder.feeds
        """Part → its feed."""
        self.outputs = builder.outputs
        """View → its changes after a step."""
        self.order = list(order)
        """Nodes, and units that call DuckDB, in the order in which they run."""
        self.users = builder.users
        """Identity of a structure → the views that use it."""
        self._strings = builder.strings
        self._sequence = NodeSequence(self.nodes)
        self._others = [other for other in self.order if not isinstance(other, Node)]
        """Units that call DuckDB; no node reads their results."""
        self._filled = builder.transient
        taken = {id(feed.batch): feed.batch for feed in self.feeds.values()}
        taken |= {id(batch): batch for batch in self.relations.values()}
        self._metas = [batch.views[0] for batch in (*self._filled, *taken.values())]
        self._results = [
            (name, output, [batch.views[0] for batch in output.batches]) for name, output in self.outputs.items()
        ]
        self._moments = [
            (name, batch, batch.place(field.name), _RANGES[field.type])
            for name, output in self.outputs.items()
            for batch in output.batches
            for field in batch.fields
            if field.type in _RANGES
        ]
        self._events: EventLoop | None = None
        self._kernel_of: KernelOf | None = None

    @property
    def nodes(self) -> list[Node]:
        """Nodes that have kernels, in the order in which they run."""
        return [node for node in self.order if isinstance(node, Node)]

    def sources(self) -> list[str]:
        """Return the kernel sources of all nodes and of the loops that run them, without duplicates."""
        return list(dict.fromkeys([*(node.text for node in self.nodes), RUN_SOURCE, EVENTS_SOURCE, BIND_SOURCE]))

    def use(self, kernel_of: KernelOf) -> bool:
        """Use the kernels that are compiled; return True if all are."""
        complete = True
        for node in self.nodes:
            if not node.is_compiled:
                kernel = kernel_of(node.text)
                if kernel is None:
                    complete = False
                else:
                    node.use(kernel)
        if not complete:
            return False
        run, bind = self._sequence.use(kernel_of), kernel_of(BIND_SOURCE)
        if bind is None or not run:
            return False
        for batch in self.relations.values():
            batch.binding = ColumnBinding(batch, batch.read_fields(), bind)
        self._kernel_of = kernel_of
        return True

    @property
    def calls_duckdb(self) -> bool:
        """True if some of the views are computed by DuckDB, so that no kernel runs the whole graph."""
        return bool(self._others)

    @property
    def is_compiled(self) -> bool:
        """True if one compiled kernel runs all nodes."""
        return self._sequence.is_compiled

    def attend(self, errors: dict[str, Exception]) -> None:
        """Make the room that a stopped node needs, or record its failure; see `NodeSequence.attend`."""
        self._sequence.attend(errors)

    @property
    def events(self) -> EventLoop:
        """Loop that processes rows of relations one by one."""
        if self._events is None:
            outputs = {name: output.batches for name, output in self.outputs.items()}
            self._events = EventLoop(self._sequence, self.relations, self._filled, outputs, pauses=bool(self._others))
        if self._kernel_of is not None:
            self._events.use(self._kernel_of)
        return self._events

    def run(self, failed: Collection[str] = (), *, is_brief: bool = False) -> dict[str, Exception]:
        """Run one step over the pending rows; return view → reason for its failure. Changes are in the views' batches.

        With ``is_brief`` the rows are few, and the interpreter lock is kept.
        """
        self._sequence.skip(failed)
        errors = self._sequence.run(is_brief=is_brief)
        if self._others:
            self.run_others(failed, errors)
        self.check_moments(errors)
        return errors

    def check_moments(self, errors: dict[str, Exception]) -> None:
        """Add to ``errors`` the views that show a date or timestamp that Python and most formats cannot represent."""
        for name, batch, place, (first, last) in self._moments:
            if count := batch.views[0][0]:
                values = np.asarray(batch.views[place])[:count]  # a NULL is stored as 0
                if values.min() < first or values.max() > last:
                    errors.setdefault(
                        name, ViewOverflowError("expected dates and timestamps of the years 1 to 9999, was another one")
                    )

    def skip(self, failed: Collection[str]) -> None:
        """Stop running the nodes that only these views need."""
        self._sequence.skip(failed)

    def run_others(self, failed: Collection[str], errors: dict[str, Exception]) -> None:
        """Run the units that call DuckDB, after the nodes; add their errors to ``errors``, which has the nodes'."""
        for other in self._others:
            if other.views <= {*failed, *errors}:
                continue
            try:
                other.run()
            except Exception as error:  # noqa: BLE001 (the shard names the views, see `errors.reason_of`)
                for view in other.views:
                    errors.setdefault(view, error)

    def changes(self, failed: Collection[str]) -> list[Change]:
        """Return the changes of a step; for few rows."""
        changes: list[Change] = []
        for name, output, metas in self._results:
            for meta in metas:
                if meta[0]:
                    if name not in failed:
                        is_distinct = output.is_distinct
                        changes += changes_as_tuples(name, output.batches, self._strings, is_distinct=is_distinct)
                    break
        return changes

    def run_nodes(self, failed: Collection[str]) -> dict[str, Exception]:
        """Run the nodes as `run` does, without calling DuckDB, for a shard that is being restored."""
        self._sequence.skip(failed)
        return self._sequence.run(is_brief=False)

    def finish(self) -> None:
        """Drop the rows that were processed and the changes that were read."""
        for meta in self._metas:
            meta[0] = 0

    def renumber(self) -> None:
        """Update constants and order words after strings were renumbered."""
        for node in self.nodes:
            node.resolve()


class DrivenGraph:
    """Access to a shard's graph for a backtest's kernel, which runs it; valid until the shard's program changes."""

    def __init__(
        self,
        graph: Graph,
        strings: Strings,
        look_for_kernels: Callable[[], None],
        finish: Callable[[Mapping[str, Exception]], list[Change]],
    ) -> None:
        self.loop: EventLoop = graph.events
        """Loop over events, whose table `library.steps.results` and `library.steps.run_nodes` read."""
        self.relations: Mapping[str, ColumnBatch] = graph.relations
        """Relation → batch to which its rows are appended, for the relations that views read."""
        self.number = strings.number
        """Function that returns the number of a string."""
        self.refresh = strings.refresh
        """Function that adds new strings to the arrays of kernels; must be called before the first step that may
        read them.
        """
        self.finish = finish
        """Function that returns the changes of a step, given its errors by view, and empties all batches."""
        self._graph, self._look_for_kernels = graph, look_for_kernels

    def sources(self) -> list[str]:
        """Return the kernel sources of the graph."""
        return self._graph.sources()

    def complete(self) -> bool:
        """Use the kernels that are compiled by now; return True if all are."""
        self._look_for_kernels()
        return self._graph.is_compiled

    @property
    def is_compiled(self) -> bool:
        """True if the whole graph runs compiled."""
        return self._graph.is_compiled

    def attend(self, errors: dict[str, Exception]) -> None:
        """Make the room that a stopped node needs; if the node has failed, add its views to ``errors``."""
        self._graph.attend(errors)
