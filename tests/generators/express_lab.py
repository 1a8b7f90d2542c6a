"""Express lane over a log, step by step, with crashes; DuckDB gives the expected answers at every version."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program, encode_program, extend_program
from runtime.engine.barriers import Barrier
from runtime.engine.express import ExpressState, ExpressViews, Filling, Update
from runtime.engine.ingest import Deltas, Sections
from runtime.engine.plan import Context
from runtime.epochs import Cut, EpochLog, Footer, SnapshotDirectory, with_checksums
from runtime.plan import lane_program, with_record, without_view
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.database import kept
from tests.generators.deltas import delta_table
from tests.generators.programs import normal

Row = tuple[Any, ...]
Change = tuple[str, Row, int]
"""Relation, row and weight."""


class _Context(Context):
    """Collects the output of a call."""

    def __init__(self) -> None:
        self.query_id = self.name = "express"
        self.worker = self.port = 0
        self.successors = 1
        self.emitted: list[object] = []

    def now_s(self) -> float:
        return 0.0

    def emit(self, item: object, successor: int | None = None, size: int = 1) -> None:
        del successor, size
        self.emitted.append(item)

    def repeat(self, inputs: Sequence[object], after_s: float = 0.0) -> None:
        raise AssertionError("the express lane takes what it is given")

    def begin_barrier(self, barrier: Barrier | None = None, payload: object = None) -> Barrier:
        raise AssertionError("the express lane is no cut point")

    def give_turn(self) -> None:
        raise AssertionError("the express lane takes no turns")


class ExpressLab:
    """Pipeline of the express lane, its log and its store, and the expected sums."""

    def __init__(
        self,
        directory: Path,
        relations: Sequence[Relation],
        selects: Sequence[NamedSelect],
        oracles: Mapping[str, str] | None = None,
        *,
        has_streams: bool = False,
    ) -> None:
        """Create a lab.

        ``oracles``: view → SQL that DuckDB answers in place of the view's own. With ``has_streams``, rows of derived
        streams may come after the deltas that close an epoch.
        """
        self._has_streams = has_streams
        self.directory = directory
        self.relations = {relation.name: relation for relation in relations}
        self.program: Program = with_record(compile_program(selects, relations), on_spark=True)
        self.log = EpochLog(directory / "epochs")
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        self.oracles = dict(oracles or {})
        self.epoch = -1
        self.checked = 0
        self.updates: list[Update] = []
        self.failed: dict[str, str] = {}
        self._store = MemoryStore()
        self._committed: list[Change] = []
        """Contents of the relations at the last epoch, as the changes that lead to these contents."""
        self._open: list[Change] = []
        self._shown: dict[str, Counter[Row]] = {}
        """View → sum of its published changes."""
        self._sealed: dict[str, Counter[Row]] = {}
        """View → sum of the sections of the epochs."""
        self._begin()

    def _begin(self) -> None:
        self.space = ObjectSpace(self._store)
        self.state = ExpressState()
        self.space.runs("express", self.state)
        filling = Filling(self.log, self.snapshots)
        cuts = {"feed": Cut("s", len(self._committed), 0)}
        self.views = ExpressViews(
            self.state, filling, self.epoch, cuts, self._publish, is_compared=True, has_streams=self._has_streams
        )
        if self.epoch < 0:
            self.views.begin(lane_program(self.program, "express"))
            first = self.views.close()
            first.batches()  # brings the results up to date
            self._shown = {view.name: self.result(view.name) for view in self.state.program.views}
            self._seal({}, first, encode_program(self.program))

    def change(self, changes: Sequence[Change], cuts: Sequence[int], steps: Sequence[int]) -> None:
        """Apply changes, cut into batches at ``cuts``, in steps of ``steps`` batches."""
        ends = sorted({min(cut, len(changes)) for cut in cuts} | {len(changes)})
        batches = [changes[begin:end] for begin, end in zip([0, *ends], ends, strict=False) if end > begin]
        sizes = list(steps) or [1]
        while batches:
            size = max(1, sizes[0])
            sizes = sizes[1:] or sizes
            given, batches = batches[:size], batches[size:]
            self._execute([self._deltas(batch) for batch in given])

    def _deltas(self, changes: Sequence[Change], closes: int = -1) -> Deltas:
        self._open += changes
        tables = self._batches(changes)
        cut = Cut("s", len(self._committed) + len(self._open), 0)
        return Deltas(tables, len(changes), {"feed": cut}, closes=closes)

    def _batches(self, changes: Sequence[Change]) -> dict[str, pa.RecordBatch]:
        found: dict[str, list[tuple[Row, int]]] = {}
        for name, row, weight in changes:
            found.setdefault(name, []).append((row, weight))
        return {n: delta_table(self.relations[n], rows).combine_chunks().to_batches()[0] for n, rows in found.items()}

    def _execute(self, deltas: Sequence[Deltas]) -> None:
        before = len(self.updates)
        self.views.execute(deltas, _Context())
        self._show(self.updates[before:])

    def _publish(self, update: Update) -> None:
        self.updates.append(update)

    def _show(self, updates: Sequence[Update]) -> None:
        for update in updates:
            self.failed |= update.failed
            if update.program is not None:
                names = {view.name for view in update.program.views}
                self._shown = {name: rows for name, rows in self._shown.items() if name in names}
                self.failed = {name: why for name, why in self.failed.items() if name in names}
            for name, table in update.changes.items():
                add(self._shown.setdefault(name, Counter()), table)
        self.check()

    def held(self) -> dict[str, Counter[Row]]:
        """Return the present relations."""
        found: dict[str, Counter[Row]] = {name: Counter() for name in self.relations}
        for name, row, weight in [*self._committed, *self._open]:
            found[name][row] += weight
        return {name: +rows for name, rows in found.items()}

    def check(self) -> None:
        """Assert that every view that has not failed agrees with DuckDB from scratch."""
        held = self.held()
        for name, relation in self.relations.items():
            rows = delta_table(relation, [(row, 1) for row in held[name].elements()])
            database().register(name, rows.select(range(len(relation.columns))))
        for view in self.state.program.views:
            if view.name not in self.failed:
                found = self._shown.get(view.name, Counter())
                assert all(count > 0 for count in found.values()), f"{view.name}: {found}"
                sql = self.oracles.get(view.name, view.sql)
                expected = Counter(normal(row) for row in database().execute(sql).fetchall())
                assert found == expected, f"{view.name} after {len(self._committed)} + {len(self._open)}"
                self.checked += 1

    def prepare(self, program: Program) -> None:
        """Read the contents of a program's new views in advance."""
        old, new = (lane_program(each, "express") for each in (self.program, program))
        self.views.prepare(Filling(self.log, self.snapshots).read(old, new, self.epoch))

    def barrier(self, program: Program | None = None, streamed: Sequence[Change] = ()) -> None:
        """Close the epoch; with a program, it is the catalogue from this epoch on.

        ``streamed`` are the rows that derived streams add to the epoch, after the deltas that close it.
        """
        record = b"" if program is None else encode_program(program)
        self.program = program or self.program
        begun = len(self.updates)
        self._execute([self._deltas((), closes=self.epoch + 1)])
        if streamed:
            self._execute([self._deltas(streamed)])
        context = _Context()
        before = len(self.updates)
        self.views.start_drain(Barrier(self.epoch + 1, record or None), context)
        self._show(self.updates[before:])
        is_open = [not update.closes for update in self.updates[begun:]]
        assert is_open == ([True] * (1 + bool(streamed)) + [False] if self._has_streams else [False] * len(is_open))
        ends = {update.epoch for update in self.updates[begun:] if update.closes}
        assert ends == {self.epoch + 1}, "the epoch ends with the number that closes it, and once everything is inside"
        (sections,) = context.emitted
        self._seal(self._batches(self._open), cast(Sections, sections), record)

    def drain(self) -> None:
        """Drain at a barrier without input, and assert that there is no output."""
        context = _Context()
        self.views.start_drain(Barrier(self.epoch + 1), context)
        assert not context.emitted

    def _seal(self, relations: Mapping[str, pa.RecordBatch], sections: Sections, record: bytes) -> None:
        said = sections.batches()
        held = {**{name: [batch] for name, batch in relations.items()}, **said}
        footer = Footer(max(0, self.epoch), self.epoch + 1, control=record, attributes=dict(sections.attributes))
        if sections.checksums is not None:
            footer = with_checksums(footer, sections.checksums())
        prepared = self.log.prepare(footer, held)
        self.space.commit()
        self.log.publish(prepared)
        self.epoch += 1
        self._committed, self._open = self._committed + self._open, []
        names = {view.name for view in self.state.program.views}
        self._sealed = {name: rows for name, rows in self._sealed.items() if name in names}
        for name, batches in said.items():
            add(self._sealed.setdefault(name.removeprefix("view/"), Counter()), pa.Table.from_batches(batches))
        for name in names - self.failed.keys():
            assert self._sealed.get(name, Counter()) == self._shown.get(name, Counter()), name
            assert self.result(name) == self._sealed.get(name, Counter()), name

    def add(self, *selects: NamedSelect) -> Program:
        """Return the catalogue with additional views."""
        return extend_program(self.program, selects, tuple(self.relations.values()))

    def drop(self, name: str) -> Program:
        """Return the catalogue without a view."""
        return without_view(self.program, name)

    def result(self, name: str) -> Counter[Row]:
        """Return the saved full result."""
        found: Counter[Row] = Counter()
        add(found, self.state.results.views[name].rows())
        return found

    def crash(self) -> list[Change]:
        """Restart the process from the last epoch; return the later changes, which come again."""
        lost, self._open = self._open, []
        self._begin()
        self.failed = dict(self.state.failed)
        self._shown = {view.name: self.result(view.name) for view in self.state.program.views}
        self.check()
        return lost

    def take_snapshot(self) -> None:
        """Take a snapshot of the relations at the newest epoch."""
        self.snapshots.take(self.log, self.epoch)


def add(result: Counter[Row], table: pa.Table) -> None:
    """Add changes to a result, and remove rows whose count is 0."""
    for *values, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row = normal(values)
        result[row] += weight
        if not result[row]:
            del result[row]


@kept
def database() -> duckdb.DuckDBPyConnection:
    """Return one connection for all labs."""
    return duckdb.connect(config={"threads": 1})


def random_changes(chance: random.Random, lab: ExpressLab, most: int) -> list[Change]:
    """Return deltas of all relations; the more rows a relation has, the more of its deltas are removals."""
    held = lab.held()
    live = {name: list(rows.elements()) for name, rows in held.items()}
    changes: list[Change] = []
    for _ in range(chance.randint(0, most)):
        name = chance.choice(sorted(lab.relations))
        rows = live[name]
        if rows and chance.random() < len(rows) / 20:
            changes.append((name, rows.pop(chance.randrange(len(rows))), -1))
        else:
            row = tuple(_value(chance, column) for column in lab.relations[name].columns)
            rows.append(row)
            changes.append((name, row, 1))
    return changes


def _value(chance: random.Random, column: Column) -> Any:
    if column.nullable and chance.random() < 0.2:
        return None
    kinds: dict[str, Any] = {
        "int64": lambda: chance.randint(-4, 9),
        "string": lambda: chance.choice(["x", "y", "xyz", ""]),
        "float64": lambda: chance.choice([-1.5, 0.0, 0.25, 1.5, 2.0]),
    }
    special = {"price": (95, 105), "volume": (1, 90), "id": (1, 10**6), "broker_id": (1, 3), "t": (1, 50)}
    return chance.randint(*special[column.name]) if column.name in special else kinds[column.type]()
