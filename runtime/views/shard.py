"""A shard of a view program: its graph, its strings, and one step per version.

The same class serves every host. Spark's state workers pass payloads to it, which are deltas added up by key for the
shard; the express lane, a script's run and a backtest pass the deltas of relations. A shard is deterministic: the same
rows within a version give the same changes, in any order, and with interpreted or compiled kernels.

A checkpoint of a shard is a *run*: either a *base*, which has the whole state, or the rows that were processed since
the previous run. A restored shard loads a base and then processes the rows of the later runs again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.epochs.consolidating import consolidate
from runtime.native.structures import RecordStructure
from runtime.native.tiers import Kernels, await_kernels
from runtime.plan import Flow, Joined, Linear, Program, Reevaluated, Selected, View, only_view
from runtime.state import CorruptStateError, Run
from runtime.views.composed import Events
from runtime.views.errors import ViewError, reason_of
from runtime.views.feeds import ColumnFeed
from runtime.views.graph import Change, DrivenGraph, Graph, GraphBuilder
from runtime.views.nodes import flow_body, join, recompute, threshold
from runtime.views.nodes.recompute import Recompute
from runtime.views.nodes.show import BEGUN, Shape
from runtime.views.routing import Part, part_of, views_of_shard
from runtime.views.rows import change_schema, changes_of
from runtime.views.shardruns import Base, ShardRun, TakenIn, decode_shard_run, decode_table, decode_words
from runtime.views.strings import Strings

__all__ = ["LOWERING", "Inputs", "Kernels", "ShardState", "Step"]

Inputs = Literal["payloads", "relations"]
"""Input of a shard: payloads of maps, or deltas of relations."""
Words = npt.NDArray[np.int64]
_Delivered = Iterable[tuple[Part, pa.Table | str]]

_SPARE_STRINGS: Final = 4096
"""A base renumbers the strings if their number exceeds this number plus twice the number of strings in use."""
_WORD_BYTES: Final = 8
"""Assumed size of a value in bytes, for `ShardState.taken_bytes`."""


def _lower_linear(view: View, body: Linear, builder: GraphBuilder) -> None:
    """Add a linear view to the graph: totals for each branch, which `show` turns into rows."""
    for branch in body.branches:
        keys = [key.name for key in builder.program.maps[branch.map].keys]
        table = builder.totals(view, branch.map, keys, is_result=True)
        builder.show(view, table, Shape(view.columns, branch.outputs, branch.having, branch.empty, branch.bag))


LOWERING: Final[dict[type, Any]] = {
    Flow: flow_body.lower,
    Joined: join.lower,
    Linear: _lower_linear,
    Reevaluated: recompute.lower,
    Selected: threshold.lower,
}
"""Type of a view's body → function ``lower(view, body, builder)`` that adds the view to a graph."""


class Step(msgspec.Struct, frozen=True):
    """Changes of one version."""

    changes: dict[str, pa.Table]
    """View → rows removed (-) and added (+); views that did not change are left out."""
    failed: dict[str, str]
    """View → reason for its failure; a failed view emits nothing from now on."""


class ShardState:
    """One shard's share of a program. Not thread-safe: one owner at a time."""

    def __init__(
        self,
        program: Program,
        shard: int = 0,
        shards: int = 1,
        *,
        inputs: Inputs = "payloads",
        kernels: Kernels | None = None,
        strings: Strings | None = None,
    ) -> None:
        """Begin with no rows.

        ``inputs`` is the kind of input: payloads of maps, or deltas of relations (then this is the only shard). Without
        ``kernels`` every kernel is interpreted.
        """
        assert inputs == "payloads" or shards == 1
        self._shard, self._shards, self._inputs, self._kernels = shard, shards, inputs, kernels
        self._strings = Strings() if strings is None else strings
        self._failed: dict[str, str] = {}
        self._begun: set[str] = set()
        """Views that have had a version."""
        self._taken: list[tuple[str, pa.Table | pa.RecordBatch]] = []
        """Input since the last save: relation or code of a part, with its rows."""
        self.taken_bytes = 0
        """Approximate size of the input since the last save, in bytes; see `keeps_taken`."""
        self._results: dict[str, list[pa.Table]] = {}
        self.keeps_taken = True
        """True if input is remembered for `save`; an owner that never saves sets it to False."""
        self._assemble(program, {}, {})

    # --- parts

    def _assemble(self, program: Program, kept: Mapping[str, RecordStructure], results: Mapping[str, pa.Table]) -> None:
        """Make the graph of a program, with the structures in `kept` and new ones for the rest."""
        self.program = program
        self._views = views_of_shard(program, self._shard, self._shards)
        builder = GraphBuilder(
            program, self._strings, kept, part_of=self._part_of, from_payloads=self._inputs == "payloads"
        )
        errors: dict[str, str] = {}
        for view in self._views:
            try:
                with builder.of(view):
                    LOWERING[type(view.body)](view, view.body, builder)
            except Exception as error:  # noqa: BLE001 (see reason_of)
                errors[view.name] = reason_of(error)
        self._graph: Graph = builder.build(errors)
        self._names = names = {view.name for view in self._views}
        # Failures that no step has reported yet.
        self._unpublished = {name: why for name, why in errors.items() if name not in self._failed}
        self._failed = {name: why for name, why in self._failed.items() if name in names} | self._unpublished
        self._schemas = {view.name: change_schema(view.columns) for view in self._views}
        self._recomputed = {
            name: node for node in self._graph.order if isinstance(node, Recompute) for name in node.views
        }
        for name in results.keys() & self._recomputed.keys():
            self._recomputed[name].add(results[name])
        sound = self._sound
        for node in self._graph.nodes:
            if node.views & sound and len(node.numbers) > BEGUN:
                node.numbers[BEGUN] = 1
        for name in self._recomputed.keys() & sound:
            self._recomputed[name].begun = True
        self._is_complete = self._kernels is None
        if self._kernels is not None:
            self._look_for_kernels()
            if not self._is_complete:
                self._kernels.request(self._graph.sources())

    @property
    def _sound(self) -> set[str]:
        """Views that have had a version and have not failed."""
        return self._begun - self._failed.keys()

    def _part_of(self, view: View, number: int) -> Part:
        return Part(number, True) if self._inputs == "relations" else part_of(self.program, view, number)

    def _look_for_kernels(self) -> None:
        if self._kernels is not None:
            self._is_complete = self._graph.use(self._kernels.get)

    def _await_kernels(self) -> None:
        """Use the kernels that are compiled by now; with many rows, wait for the others."""
        self._look_for_kernels()
        if not self._is_complete and self._kernels is not None:
            missing = [node.text for node in self._graph.nodes if not node.is_compiled]
            rows = sum(feed.batch.rows for feed in self._graph.feeds.values())
            if await_kernels(self._kernels, missing, rows):
                self._look_for_kernels()

    @property
    def has_failed(self) -> bool:
        """True if a view has failed."""
        return bool(self._failed)

    @property
    def failed(self) -> dict[str, str]:
        """View → reason for its failure."""
        return dict(self._failed)

    @property
    def is_compiled(self) -> bool:
        """True if every kernel runs compiled."""
        return all(node.is_compiled for node in self._graph.nodes)

    def sources(self) -> list[str]:
        """Return the kernel sources of all nodes, without duplicates."""
        return self._graph.sources()

    def records(self) -> dict[str, int]:
        """Return the number of live records of every structure, by its identity."""
        return {name: len(structure.dump()) for name, structure in self._graph.structures.items()}

    def nbytes(self) -> int:
        """Return the size of all structures in bytes."""
        return sum(structure.nbytes() for structure in self._graph.structures.values())

    # --- steps

    def step(self, delivered: _Delivered, backfill: Mapping[str, _Delivered] | None = None) -> Step:
        """Process the deliveries of one version: for each part its payload, or the reason why there is none.

        An owner that saves must save after each version. In the first version after `migrate`, ``backfill`` has for
        each new view the deliveries of everything that its maps contained before the version.
        """
        earlier, failed = self._fill(backfill or {})
        by_part: dict[Part, list[pa.Table]] = {}
        for part, payload in delivered:
            if isinstance(payload, str):
                failed |= self._fail_part(part, payload)
            else:
                by_part.setdefault(part, []).append(payload)
        if self.keeps_taken:
            for part, tables in by_part.items():
                self._keep_taken(str(part.code), tables)
        errors = self._put_payloads(by_part)
        return self._stepped(earlier, failed | errors)

    def step_tables(self, tables: Mapping[str, pa.Table | Sequence[pa.RecordBatch]]) -> Step:
        """Process deltas of relations (their columns, then ``weight``) as one version.

        Raises `ViewError` for values that their columns cannot hold; then no row is processed.
        """
        taken, taken_bytes = len(self._taken), self.taken_bytes
        try:
            self._put_tables(tables)
        except ViewError:
            self._graph.finish()
            del self._taken[taken:]
            self.taken_bytes = taken_bytes
            raise
        return self._stepped({}, {})

    def step_rows(self, rows: Sequence[tuple[str, tuple[Any, ...], int]]) -> list[Change]:
        """Process a few rows (relation, row, weight) as one version; return the changes as tuples of Python values.

        Integers are `int`, dates and times are those of `datetime`, NULL is None. Rows are not remembered for `save`.
        Raises `ViewError` for a value that its column cannot hold.
        """
        graph, strings = self._graph, self._strings
        relations = graph.relations
        try:
            for relation, row, weight in rows:
                batch = relations.get(relation)
                if batch is not None:
                    batch.append(row, weight, strings)
        except ViewError:
            graph.finish()
            raise
        if not self._is_complete:
            self._look_for_kernels()
        strings.refresh()
        errors = graph.run(self._failed, is_brief=True)
        if errors:
            self._note(errors)
        changes = graph.changes(self._failed)
        graph.finish()
        self._begun = self._names
        return changes

    def events(
        self, tables: Mapping[str, pa.Table], order: Words | None = None, *, watched: Collection[str] = ()
    ) -> Events:
        """Return an iterator that processes rows of relations one by one, each as a version of its own.

        ``tables`` have the columns of the relations, then ``weight``. ``order`` has for each event the number of the
        table whose next row is the event; by default all rows of the first table come first, then those of the next.
        ``watched`` are the views whose changes are returned. Rows are not remembered for `save`.
        """
        if not self._is_complete:
            self._look_for_kernels()
        graph, names = self._graph, frozenset(watched)
        graph.events.begin(tables, order, names, self._strings)
        return Events(graph.events, lambda: self._next_changes(graph, names))

    def _next_changes(self, graph: Graph, watched: Collection[str]) -> list[Change] | None:
        """Return the changes of the next event that changes a watched view; None if there is no such event."""
        assert graph is self._graph, "expected no migration between events"
        while True:
            self._strings.refresh()
            errors: dict[str, Exception] = {}
            graph.skip(self._failed)
            is_paused = graph.events.run(errors)
            if is_paused:
                graph.run_others(self._failed, errors)
                graph.check_moments(errors)
            if errors:
                self._note(errors)
            self._begun = self._names
            if not is_paused:
                return None
            changes = [change for change in graph.changes(self._failed) if change[0] in watched]
            graph.finish()
            if changes:
                return changes

    def driven(self) -> DrivenGraph | None:
        """Return the graph for a kernel that appends rows and runs the graph; None if a view needs DuckDB."""
        if self._graph.calls_duckdb:
            return None
        return DrivenGraph(self._graph, self._strings, self._look_for_kernels, self._finish_driven)

    def _finish_driven(self, errors: Mapping[str, Exception]) -> list[Change]:
        """Return the changes of a step that another kernel has run, and empty all batches."""
        errors = dict(errors)
        self._graph.check_moments(errors)
        if errors:
            self._note(errors)
        changes = self._graph.changes(self._failed)
        self._graph.finish()
        self._begun = self._names
        return changes

    def _note(self, errors: Mapping[str, Exception]) -> None:
        """Record which views have failed; the next step that returns tables reports them."""
        for name, error in errors.items():
            if name not in self._failed:
                self._failed[name] = self._unpublished[name] = reason_of(error)

    def _put_payloads(self, by_part: Mapping[Part, Sequence[pa.Table]]) -> dict[str, str]:
        errors: dict[str, str] = {}
        for part, tables in by_part.items():
            feed = self._graph.feeds.get(part)
            if isinstance(feed, ColumnFeed):
                try:
                    feed.fill(tables, self._strings)
                except Exception as error:  # noqa: BLE001 (see reason_of)
                    errors |= self._fail_part(part, reason_of(error))
        return errors

    def _fail_part(self, part: Part, reason: str) -> dict[str, str]:
        reasons = {}
        for view in self._views:
            if view.name not in self._failed and part in {self._part_of(view, n) for n in view.body.maps()}:
                self._failed[view.name] = reasons[view.name] = reason
        return reasons

    def _put_tables(self, tables: Mapping[str, pa.Table | Sequence[pa.RecordBatch]]) -> None:
        for name, given in tables.items():
            batch = self._graph.relations.get(name)
            if batch is None:
                continue
            if isinstance(given, pa.Table):
                rows = given
            else:
                rows = given[0] if len(given) == 1 else pa.Table.from_batches(given)
            if rows.num_rows:
                batch.fill_arrow(rows, self._strings)
                if self.keeps_taken:
                    self._keep_taken(name, [rows])

    def _keep_taken(self, name: str, tables: Sequence[pa.Table | pa.RecordBatch]) -> None:
        for table in tables:
            self._taken.append((name, table))
            self.taken_bytes += table.num_rows * table.num_columns * _WORD_BYTES  # asking Arrow takes longer

    def _stepped(self, earlier: Mapping[str, pa.Table], failed: dict[str, str]) -> Step:
        if not self._is_complete:
            self._await_kernels()
        self._strings.refresh()
        failed = {**self._unpublished, **failed}
        self._unpublished = {}
        for name, error in self._graph.run(self._failed).items():
            if name not in self._failed:
                self._failed[name] = failed[name] = reason_of(error)
        changes: dict[str, pa.Table] = {}
        for name, output in self._graph.outputs.items():
            if name in self._failed:
                continue
            table = changes_of(output.batches, self._schemas[name], self._strings, is_distinct=output.is_distinct)
            before = earlier.get(name)
            if before is not None:
                both = [before] if table is None else [before, table]
                table = consolidate(pa.concat_tables(both), self._schemas[name])
            if table is not None and table.num_rows:
                changes[name] = table
                if name in self._recomputed and self.keeps_taken:
                    self._results.setdefault(name, []).append(table)
        self._graph.finish()
        self._begun = self._names
        return Step(changes, failed)

    # --- added and dropped views

    def migrate(self, program: Program) -> None:
        """Switch to another program, before its first version; a base must be saved after that version.

        Views that are the same in both programs keep their state. A structure is kept only if a view that has not
        failed uses it, because a failure may have left a structure without some of its rows.
        """
        stays = {
            view.name
            for view in views_of_shard(program, self._shard, self._shards)
            if view.name in self._names and self._is_same(program, view.name)
        }
        users = {name: users & stays - self._failed.keys() for name, users in self._graph.users.items()}
        sound = {name: structure for name, structure in self._graph.structures.items() if users[name]}
        results = {name: node.rows for name, node in self._recomputed.items() if name in stays - self._failed.keys()}
        self._begun = self._begun & stays
        self._failed = {name: why for name, why in self._failed.items() if name in stays}
        self._assemble(program, sound, results)

    def _is_same(self, program: Program, name: str) -> bool:
        """Return True if a view of this name has the same maps and body in another program as here."""
        before, after = (only_view(each, name)[0] for each in (self.program, program))
        return (before.maps, before.views[0].body) == (after.maps, after.views[0].body)

    def fill(self, tables: Mapping[str, Mapping[str, pa.Table]]) -> Step:
        """After `migrate`, fill new views; return their rows.

        ``tables`` maps each new view to the present rows of its relations.
        """
        return self._filled({name: (lambda s, given=given: s._put_tables(given)) for name, given in tables.items()})

    def _fill(self, backfill: Mapping[str, _Delivered]) -> tuple[dict[str, pa.Table], dict[str, str]]:
        """Bring new views to their state before the version; return their rows, and the failed views with reasons."""
        fillers = {}
        for name, delivered in backfill.items():
            given = list(delivered)
            broken = next((payload for _, payload in given if isinstance(payload, str)), None)
            fillers[name] = broken if broken is not None else _PayloadFill(self.program, name, given)
        step = self._filled(fillers)
        return step.changes, step.failed

    def _filled(self, fillers: Mapping[str, Any]) -> Step:
        """Fill each new view in a state of its own, and take over the structures of that state.

        ``fillers`` maps a view to a function that puts the view's rows into that state, or to the reason why the view
        fails.
        """
        if not fillers:
            return Step({}, {})
        changes: dict[str, pa.Table] = {}
        failed: dict[str, str] = {}
        structures = dict(self._graph.structures)
        fresh = {name for name in structures if not self._graph.users[name] & self._sound}
        results = {name: node.rows for name, node in self._recomputed.items()}
        for name, put in fillers.items():
            if isinstance(put, str):
                self._failed[name] = failed[name] = put
                continue
            alone, _ = only_view(self.program, name)
            shard, shards = (self._shard, self._shards) if self._inputs == "payloads" else (0, 1)
            state = ShardState(alone, shard, shards, inputs=self._inputs, kernels=self._kernels, strings=self._strings)
            state.keeps_taken = False
            put(state)
            step = state._stepped({}, {})
            if name in step.failed:
                self._failed[name] = failed[name] = step.failed[name]
                continue
            changes |= step.changes
            for identity, structure in state._graph.structures.items():
                if identity in fresh:
                    structures[identity] = structure
                    fresh.discard(identity)
            results |= {n: node.rows for n, node in state._recomputed.items()}
            self._begun = self._begun | {name}
        self._assemble(self.program, structures, results)
        return Step(changes, failed)

    # --- checkpoints

    def save(self) -> bytes:
        """Return the encoded run of `capture`."""
        return self.capture().encode()

    def save_all(self) -> bytes:
        """Return the encoded run of `capture_all`."""
        return self.capture_all().encode()

    def forget_taken(self) -> None:
        """Stop remembering input; the next run must be one of `capture_all`."""
        self._taken, self._results, self.keeps_taken = [], {}, False

    def capture(self) -> Run:
        """Return the rows that were processed since the last capture, as a run."""
        taken, results, nbytes = self._taken, self._results, self.taken_bytes
        self._taken, self._results, self.taken_bytes = [], {}, 0
        relations = self._graph.relations
        columns: dict[str, frozenset[str]] | None = None
        if self._inputs == "relations":
            columns = {name: frozenset(relations[name].read if name in relations else ()) for name, _ in taken}
        run = TakenIn(dict(self._failed), set(self._begun), taken, columns, results)
        return Run(nbytes + sum(table.nbytes for tables in results.values() for table in tables), run.encode)

    def capture_all(self) -> Run:
        """Return the whole state as a run that needs no other; equal content has equal bytes, whatever its history."""
        users = self._graph.users
        words = {name: dumped for name, dumped in self._dump().items() if users[name] - self._failed.keys()}
        strings, numbers = self._in_order(self._strings_of(words))
        structures = {name: self._graph.structures[name] for name in words}
        results = {name: node.rows for name, node in self._recomputed.items() if name not in self._failed}
        self._taken, self._results, self.taken_bytes = [], {}, 0
        failed, begun = dict(self._failed), set(self._begun)

        def encode() -> bytes:
            records = {name: structures[name].renumbered(dumped, numbers) for name, dumped in words.items()}
            return Base(failed, begun, strings, records, results).encode()

        return Run(sum(dumped.nbytes for dumped in words.values()), encode)

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardState:
        """Return a state that shares nothing with this one.

        Structures contain addresses and cannot be copied part by part.
        """
        taken, taken_bytes, results = self._taken, self.taken_bytes, self._results
        copied = ShardState(self.program, self._shard, self._shards, inputs=self._inputs, kernels=self._kernels)
        copied.apply_run(self.save_all())
        self._taken, self.taken_bytes, self._results = taken, taken_bytes, results
        copied.taken_bytes = taken_bytes
        copied._taken, copied._results = list(taken), {name: list(tables) for name, tables in results.items()}
        copied.keeps_taken = self.keeps_taken
        return copied

    def _strings_of(self, words: Mapping[str, Words]) -> Words:
        """Return the numbers of all strings in dumped records of structures, in ascending order."""
        is_used = np.zeros(len(self._strings), np.bool_)
        for name, records in words.items():
            self._graph.structures[name].mark_strings(records, is_used)
        return np.flatnonzero(is_used)

    def _in_order(self, chosen: Words) -> tuple[list[str], Words]:
        """Return the strings with these numbers in ascending order, and an array from number to place."""
        texts = [self._strings.text(number) for number in chosen.tolist()]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        numbers = np.zeros(max(1, len(self._strings)), np.int64)
        numbers[chosen[order]] = np.arange(len(order))
        return [texts[place] for place in order], numbers

    def _dump(self) -> dict[str, Words]:
        """Return the words of the structures; first renumber the strings if most of them are in no row any more."""
        structures = self._graph.structures
        words = {name: structure.dump() for name, structure in structures.items()}
        used = self._strings_of(words)
        if len(self._strings) <= 2 * len(used) + _SPARE_STRINGS:
            return words
        numbers = self._strings.keep(used)
        for name, structure in structures.items():  # all of them: a record may contain places in another structure
            words[name] = structure.renumbered(words[name], numbers)
            structure.load(words[name])
        self._graph.renumber()
        return words

    def apply_run(self, data: bytes) -> None:
        """Apply a run of `save` or `save_all`; raise `CorruptStateError` if it is damaged."""
        run = decode_shard_run(data)
        if run.is_base:
            self._restore(run)
            return
        if self._inputs == "payloads":
            by_part: dict[Part, list[pa.Table]] = {}
            for code, table in run.taken:
                by_part.setdefault(Part.of_code(int(code)), []).append(decode_table(table))
            self._put_payloads(by_part)
        else:
            self._put_read({name: decode_table(table) for name, table in run.taken})
        self._replay(run.failed)
        for name, changes in run.results.items():
            if name in self._recomputed:
                self._recomputed[name].add(decode_table(changes))
        self._taken, self.taken_bytes = [], 0
        # A view that this release cannot lower may have been sound when the run was saved.
        self._unpublished = {name: why for name, why in self._unpublished.items() if name not in run.failed}
        self._failed, self._begun = run.failed | self._unpublished, set(run.begun)
        for name in self._recomputed.keys() & self._begun:
            self._recomputed[name].begun = True

    def _restore(self, run: ShardRun) -> None:
        self._strings.replace(run.strings)
        self._failed, self._begun = run.failed, set(run.begun)
        results = {name: decode_table(rows) for name, rows in run.results.items()}
        self._assemble(self.program, {}, results)
        for name, records in run.structures.items():
            if name in self._graph.structures:
                words = decode_words(records.words, records.count * records.width)
                self._graph.structures[name].load(words.reshape(records.count, records.width))
        self._graph.renumber()

    def _put_read(self, tables: Mapping[str, pa.Table]) -> None:
        for name, table in tables.items():
            batch = self._graph.relations.get(name)
            if batch is not None:  # None if this release cannot lower a view that read the relation
                batch.fill_arrow(table, self._strings)

    def _replay(self, failed: Collection[str]) -> None:
        """Process the rows of a run again; raise `CorruptStateError` if a view that is not in ``failed`` fails."""
        if not self._is_complete:
            self._await_kernels()
        self._strings.refresh()
        errors = self._graph.run_nodes({*self._failed, *failed})
        self._graph.finish()
        for name, error in errors.items():
            if name not in failed:
                raise CorruptStateError(
                    f"expected view {name} to process the rows of its checkpoint again, was: {reason_of(error)}"
                ) from error


class _PayloadFill:
    """Fills a new view's own state from payloads."""

    def __init__(self, program: Program, name: str, delivered: Sequence[tuple[Part, pa.Table | str]]) -> None:
        _, self._numbers = only_view(program, name)
        self._delivered = delivered

    def __call__(self, state: ShardState) -> None:
        numbers = {number: place for place, number in enumerate(self._numbers)}
        by_part: dict[Part, list[pa.Table]] = {}
        for part, payload in self._delivered:
            assert not isinstance(payload, str)
            by_part.setdefault(msgspec.structs.replace(part, map=numbers[part.map]), []).append(payload)
        state._put_payloads(by_part)
