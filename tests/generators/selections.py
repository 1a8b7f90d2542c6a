"""Selected views in a kernel graph of their own, random ones too, and what their SQL says from scratch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program
from runtime.engine.operators.evaluate import wide_array
from runtime.native.cache import KernelCache
from runtime.native.structures import RecordStructure
from runtime.plan import Selected, View
from runtime.state import ARROW_TYPES
from runtime.views.feeds import ColumnFeed
from runtime.views.graph import GraphBuilder
from runtime.views.nodes import threshold
from runtime.views.routing import Part
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of
from tests.generators.factored import FactoredState
from tests.generators.programs import Row

__all__ = ["RELATIONS", "SelectionLab", "draw_selection", "random_deltas"]

RELATIONS: Final = (
    Relation(
        "r",
        (Column("a", "int64"), Column("b", "int64"), Column("s", "string"), Column("v", "int64", nullable=True)),
    ),
    Relation(
        "q",
        (Column("d", "int64"), Column("e", "int64"), Column("s", "string"), Column("w", "int64", nullable=True)),
    ),
)
_INTEGERS: Final = {"r": ("a", "b"), "q": ("d", "e")}
_NULLABLE: Final = {"r": "v", "q": "w"}
Deltas = Mapping[str, Sequence[tuple[Row, int]]]


class SelectionLab:
    """One selected view in a graph, and the rows that its changes add up to."""

    def __init__(
        self,
        sql: str,
        mode: str = "sql",
        relations: Sequence[Relation] = RELATIONS,
        *,
        kernels: KernelCache | None = None,
        from_payloads: bool = False,
    ) -> None:
        """``kernels``: where kernels are compiled, None: they are interpreted; ``from_payloads``: deltas are fed as
        payloads of maps, not as rows of relations."""
        self.program: Program = compile_program([NamedSelect("v", sql)], relations, mode=mode)  # type: ignore[arg-type]
        (self.view,) = self.program.views
        self.result: Counter[Row] = Counter()
        self._kernels, self._from_payloads, self._has_begun = kernels, from_payloads, False
        self._sums = FactoredState(self.program, self.view) if self.is_selected else None
        if self.is_selected:
            self._begin({})

    @property
    def is_selected(self) -> bool:
        """Whether the compiler has made the query a selected view."""
        return isinstance(self.view.body, Selected)

    def _begin(self, records: Mapping[str, np.ndarray], strings: Sequence[str] = ()) -> None:
        self.strings = Strings(strings)
        builder = GraphBuilder(self.program, self.strings, {}, part_of=_part_of, from_payloads=self._from_payloads)
        assert isinstance(self.view.body, Selected)
        with builder.of(self.view):
            threshold.lower(self.view, self.view.body, builder)
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


def random_deltas(rng: random.Random, held: dict[str, list[Row]], scale: int, size: int, spread: int) -> Deltas:
    """Deltas of the rows that are held, and of new ones: ``scale`` times integers of at most ``spread``, some of them
    negative. A removal may come before its row."""
    deltas: dict[str, list[tuple[Row, int]]] = {}
    for relation in RELATIONS:
        rows, changes = held[relation.name], deltas.setdefault(relation.name, [])
        for _ in range(rng.randint(0, size)):
            if rows and rng.random() < 0.45:
                changes.append((rows.pop(rng.randrange(len(rows))), -1))
                continue
            first = scale * rng.randint(0, spread)
            second = scale * rng.randint(-spread if rng.random() < 0.2 else 1, spread)
            fourth = None if rng.random() < 0.3 else rng.randint(-3, 9)
            rows.append((first, second, rng.choice("xyz"), fourth))
            changes.append((rows[-1], 1))
        rng.shuffle(changes)
    return deltas


def draw_selection(data: st.DataObject) -> str:
    """A query with conditions on aggregates; the compiler may make another form of it."""
    drawn = _Drawn(data)
    names = data.draw(st.sampled_from([("r",), ("q",), ("r", "q"), ("r", "r")]), "relations")
    factors = [(f"f{place}", name) for place, name in enumerate(names)]
    conditions = []
    for alias, name in factors:
        key = f"{alias}.{drawn.pick(_INTEGERS[name], 'key')}"
        conditions += [drawn.condition(key) for _ in range(data.draw(st.integers(0, 2), "conditions"))]
        if drawn.toss("filtered"):
            conditions.append(f"{alias}.s <> 'x'")
    conditions.append(drawn.condition(f"{factors[0][0]}.{_INTEGERS[factors[0][1]][0]}"))
    groups = [f"{alias}.s" for alias, _ in factors if drawn.toss("grouped")]
    summed = " * ".join(f"{alias}.{drawn.pick((*_INTEGERS[name], _NULLABLE[name]), 'sum')}" for alias, name in factors)
    outputs = [*groups, f"SUM({summed}) AS x", "COUNT(*) AS c"]
    having = " HAVING COUNT(*) > 1" if drawn.toss("having") else ""
    tables = ", ".join(f"{name} {alias}" for alias, name in factors)
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {', '.join(outputs)} FROM {tables} WHERE {' AND '.join(conditions)}{by}{having}"


class _Drawn:
    """Draws the parts of a query."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[str], label: str) -> str:
        """One of some texts."""
        return self._data.draw(st.sampled_from(options), label)

    def toss(self, label: str) -> bool:
        """A coin."""
        return self._data.draw(st.booleans(), label)

    def condition(self, key: str) -> str:
        """A condition on a key."""
        kind = self.pick(("scalar", "nested", "nested", "both", "two", "between", "free"), "condition")
        compare = self.pick(("<", "<=", ">", ">="), "compare")
        if kind == "scalar":
            return f"{key} * {self._data.draw(st.integers(1, 40), 'factor')} {compare} {self.scalar()}"
        if kind == "nested":
            return f"{self.scalar()} {compare} {self._data.draw(st.integers(1, 4), 'factor')} * {self.nested(key)}"
        if kind == "both":
            return f"{self.nested(key)} {self.pick('+-', 'sign')} {key} {compare} {self.scalar()}"
        if kind == "two":
            return f"{self.nested(key)} {compare} {self.nested(key)}"
        if kind == "between":
            return f"{key} BETWEEN {self.scalar()} AND {self.scalar()}"
        return f"{self.scalar()} {compare} {self.scalar()}"

    def scalar(self) -> str:
        """A total."""
        relation = self.pick(("r", "q"), "relation")
        where = self.pick(("", "", " WHERE s = 'y'"), "where")
        constant = self.pick(("", "", "0.5 * ", "3 + "), "constant")
        return f"{constant}(SELECT {self.sum(relation)} FROM {relation}{where})"

    def nested(self, key: str) -> str:
        """An aggregate over one side of the key."""
        relation = self.pick(("r", "q"), "relation")
        other = self.pick((*_INTEGERS[relation], _NULLABLE[relation]), "ordered")
        shift = self.pick(("", "", " + 1", " - 2"), "shift")
        where = self.pick(("", "", " AND z.s <> 'z'"), "where")
        compare = self.pick(("<", "<=", ">", ">="), "compare")
        return f"(SELECT {self.sum(relation)} FROM {relation} z WHERE z.{other} {compare} {key}{shift}{where})"

    def sum(self, relation: str) -> str:
        """What is added up."""
        columns = (*_INTEGERS[relation], _NULLABLE[relation])
        return self.pick((*(f"SUM({column})" for column in columns), "COUNT(*)"), "aggregate")
