"""Joined views in a kernel graph of their own, random ones too, and rows for them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program
from runtime.engine.operators.evaluate import wide_array
from runtime.native import structures
from runtime.native.cache import KernelCache
from runtime.native.structures import RecordStructure
from runtime.plan import Joined, View
from runtime.state import ARROW_TYPES
from runtime.views.feeds import ColumnFeed
from runtime.views.graph import GraphBuilder
from runtime.views.nodes import join, range_sweep
from runtime.views.routing import Part
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of
from tests.generators.factored import FactoredState
from tests.generators.programs import Row

__all__ = ["RELATIONS", "ROW_WORK", "JoinLab", "draw_join", "random_deltas", "row_work", "short_room"]

RELATIONS: Final = (
    Relation(
        "r",
        (Column("a", "int64"), Column("b", "int64"), Column("s", "string"), Column("v", "int64", nullable=True)),
    ),
    Relation("q", (Column("d", "int64"), Column("e", "int64"), Column("s", "string"), Column("w", "int64"))),
    Relation("p", (Column("k", "int64", nullable=True), Column("m", "int64"), Column("t", "date", nullable=True))),
)
_INTEGERS: Final = {"r": ("a", "b", "v"), "q": ("d", "e", "w"), "p": ("k", "m")}
_GROUPS: Final = {"r": ("a", "s", "v"), "q": ("d", "s"), "p": ("k", "t")}
ROW_WORK: Final = (0, 20, 10**9)
"""Never sweep, sweep where it is quicker, always sweep."""
Deltas = Mapping[str, Sequence[tuple[Row, int]]]


@contextmanager
def row_work(work: int) -> Iterator[None]:
    """Let joins made here weigh a row's look-ups so, see `ROW_WORK`."""
    with patch.object(range_sweep, "_ROW_WORK", work):
        yield


@contextmanager
def short_room() -> Iterator[None]:
    """Give structures so little room that a kernel stops wherever it may."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(structures, "_SMALL", 1))
        stack.enter_context(patch.object(join, "_ROWS", 0))
        yield


class JoinLab:
    """One joined view in a graph, and the rows that its changes add up to."""

    def __init__(
        self,
        sql: str,
        mode: str = "sql",
        relations: Sequence[Relation] = RELATIONS,
        *,
        program: Program | None = None,
        kernels: KernelCache | None = None,
        from_payloads: bool = False,
    ) -> None:
        """``kernels``: where kernels are compiled, None: they are interpreted; ``from_payloads``: deltas are fed as
        payloads of maps, not as rows of relations; ``program``: with one view, instead of what the query becomes."""
        made = compile_program([NamedSelect("v", sql)], relations, mode=mode) if program is None else program  # type: ignore[arg-type]
        self.program: Program = made
        (self.view,) = self.program.views
        self.result: Counter[Row] = Counter()
        self._kernels, self._from_payloads, self._has_begun = kernels, from_payloads, False
        self._sums = FactoredState(self.program, self.view) if self.is_joined else None
        if self.is_joined:
            self._begin({})

    @property
    def is_joined(self) -> bool:
        """Whether the compiler has made the query a joined view."""
        return isinstance(self.view.body, Joined)

    def _begin(self, records: Mapping[str, np.ndarray], strings: Sequence[str] = ()) -> None:
        self.strings = Strings(strings)
        builder = GraphBuilder(self.program, self.strings, {}, part_of=_part_of, from_payloads=self._from_payloads)
        assert isinstance(self.view.body, Joined)
        with builder.of(self.view):
            join.lower(self.view, self.view.body, builder)
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
        """All state by identity."""
        return self.graph.structures

    def records(self) -> dict[str, int]:
        """How many records each structure holds."""
        return {identity: len(held.dump()) for identity, held in self.structures.items()}

    def restart(self) -> None:
        """Begin again with the records of every structure, in another order."""
        records = {identity: held.dump()[::-1].copy() for identity, held in self.structures.items()}
        self._begin(records, self.strings.texts())

    def step(self, deltas: Deltas) -> dict[str, Exception]:
        """Feed rows with their weights, and add the change to the result; view → why it cannot go on."""
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

    def check(self) -> None:
        """Assert every invariant of the state."""
        for held in self.structures.values():
            held._check()  # type: ignore[attr-defined]


def _part_of(view: View, number: int) -> Part:
    return Part(number, True)


def _table(relation: Relation, rows: Sequence[tuple[Row, int]]) -> pa.Table:
    arrays = [
        pa.array([row[place] for row, _ in rows], ARROW_TYPES[column.type])
        for place, column in enumerate(relation.columns)
    ]
    names = [*(column.name for column in relation.columns), "weight"]
    return pa.Table.from_arrays([*arrays, pa.array([weight for _, weight in rows], pa.int64())], names=names)


def random_deltas(rng: random.Random, held: dict[str, list[Row]], size: int, spread: int, scale: int = 1) -> Deltas:
    """Deltas of the rows that are held, and of new ones: integers are ``scale`` times ones of at most ``spread``.

    A removal may come before its row.
    """
    deltas: dict[str, list[tuple[Row, int]]] = {}
    for relation in RELATIONS:
        rows, changes = held[relation.name], deltas.setdefault(relation.name, [])
        for _ in range(rng.randint(0, size)):
            if rows and rng.random() < 0.45:
                changes.append((rows.pop(rng.randrange(len(rows))), -1))
                continue
            rows.append(tuple(_value(rng, column, spread, scale) for column in relation.columns))
            changes.append((rows[-1], 1))
        rng.shuffle(changes)
    return deltas


def _value(rng: random.Random, column: Column, spread: int, scale: int) -> Any:
    if column.nullable and rng.random() < 0.2:
        return None
    if column.type == "string":
        return rng.choice("xyz")
    if column.type == "date":
        return date(2024, 1, rng.randint(1, 4))
    return scale * rng.randint(-spread if rng.random() < 0.2 else 0, spread)


def draw_join(data: st.DataObject) -> str:
    """A query of sums over two to four relations; the compiler may make another form of it."""
    count = data.draw(st.sampled_from([2, 2, 2, 3, 4]), "relations")
    names = data.draw(st.lists(st.sampled_from(["r", "q", "p"]), min_size=count, max_size=count), "names")
    drawn = _Drawn(data, [(f"f{place}", name) for place, name in enumerate(names)])
    conditions = [condition for place in range(1, len(names)) for condition in drawn.conditions(place)]
    groups = list(dict.fromkeys(drawn.column(_GROUPS) for _ in range(data.draw(st.integers(0, 2), "groups"))))
    if drawn.equal and drawn.toss("grouped by what is equal"):
        groups = drawn.equal
    sums = [drawn.sum() for _ in range(data.draw(st.integers(1, 2), "sums"))]
    outputs = [*groups, *(f"{text} AS x{place}" for place, text in enumerate(sums)), "COUNT(*) AS c"]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    having = " HAVING COUNT(*) > 1" if drawn.toss("having") else ""
    tables = ", ".join(f"{name} f{place}" for place, name in enumerate(names))
    return f"SELECT {', '.join(outputs)} FROM {tables}{where}{by}{having}"


class _Drawn:
    """Draws the parts of a query."""

    def __init__(self, data: st.DataObject, tables: Sequence[tuple[str, str]]) -> None:
        self._data, self._tables = data, tables
        self.equal: list[str] = []
        """Columns that are equal to others."""

    def toss(self, label: str) -> bool:
        """A coin."""
        return self._data.draw(st.booleans(), label)

    def _of(self, place: int, columns: Mapping[str, Sequence[str]]) -> str:
        alias, name = self._tables[place]
        return f"{alias}.{self._data.draw(st.sampled_from(columns[name]), 'column')}"

    def column(self, columns: Mapping[str, Sequence[str]]) -> str:
        """A column of any of the relations."""
        return self._of(self._data.draw(st.integers(0, len(self._tables) - 1), "table"), columns)

    def conditions(self, place: int) -> Iterator[str]:
        """What connects a relation with one before it."""
        other = self._data.draw(st.integers(0, place - 1), "other")
        kind = self._data.draw(st.sampled_from(["equal", "equal", "range", "both", "both", "none"]), "kind")
        one, two = self._of(place, _INTEGERS), self._of(other, _INTEGERS)
        if kind in ("equal", "both"):
            has_strings = all(self._tables[at][1] != "p" for at in (place, other))
            if has_strings and self.toss("strings"):
                left, right = f"{self._tables[place][0]}.s", f"{self._tables[other][0]}.s"
            else:
                left, right = self._of(place, _INTEGERS), self._of(other, _INTEGERS)
            self.equal.append(left)
            yield f"{left} = {right}"
        if kind in ("range", "both"):
            yield self._data.draw(
                st.sampled_from(
                    [
                        f"{one} < {two}",
                        f"{one} >= {two}",
                        f"{one} <> {two}",
                        f"{one} BETWEEN {two} - 1 AND {two} + 2",
                        f"({one} > {two} + 3 OR {two} > {one} + 3)",
                        f"2 * {one} > 3 * {two}",
                        f"{one} + {two} > 4",
                        f"{one} > {two} AND {one} < 2 * {two}",
                    ]
                ),
                "range",
            )
        if self.toss("filtered"):
            yield f"{one} <> 1"

    def sum(self) -> str:
        """An aggregate."""
        first, second = self.column(_INTEGERS), self.column(_INTEGERS)
        return self._data.draw(
            st.sampled_from(
                [
                    f"SUM({first} * {second})",
                    f"SUM({first} - {second})",
                    f"SUM({first} * 3 - 2 * {second} + 1)",
                    f"SUM({first})",
                    f"COUNT({first})",
                    f"AVG({first})",
                ]
            ),
            "sum",
        )
