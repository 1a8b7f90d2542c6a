"""Joined views, each in a kernel graph of its own; random queries for such views, and rows for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from typing import Any, Final, Unpack
from unittest.mock import patch

from hypothesis import strategies as st

from runtime.compiler import Column, Relation
from runtime.native import structures
from runtime.plan import Joined
from runtime.views.graph import GraphBuilder
from runtime.views.nodes import join, range_sweep
from tests.generators.programs import Row
from tests.generators.view_lab import Deltas, LabOptions, ViewLab

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
"""Weights of a row's look-ups: never sweep, sweep where it is faster, always sweep."""


@contextmanager
def row_work(work: int) -> Iterator[None]:
    """Use this weight of a row's look-ups, see `ROW_WORK`, for the joins that are made in the `with` block."""
    with patch.object(range_sweep, "_ROW_WORK", work):
        yield


@contextmanager
def short_room() -> Iterator[None]:
    """Make structures so small that a kernel stops wherever it can."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(structures, "_SMALL", 1))
        stack.enter_context(patch.object(join, "_ROWS", 0))
        yield


class JoinLab(ViewLab):
    """One joined view in a graph, and the sum of its changes."""

    body = Joined

    def __init__(
        self, sql: str, mode: str = "sql", relations: Sequence[Relation] = RELATIONS, **options: Unpack[LabOptions]
    ) -> None:
        """Create a lab; see `ViewLab`."""
        super().__init__(sql, mode, relations, **options)

    def lower(self, builder: GraphBuilder) -> None:
        """See `ViewLab.lower`."""
        assert isinstance(self.view.body, Joined)
        join.lower(self.view, self.view.body, builder)


def random_deltas(rng: random.Random, held: dict[str, list[Row]], size: int, spread: int, scale: int = 1) -> Deltas:
    """Return deltas of existing rows, and of new ones: integers are ``scale`` times numbers up to ``spread``.

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
    """Draw a query of sums over two to four relations; the compiler may transform it."""
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
        """Draw a boolean."""
        return self._data.draw(st.booleans(), label)

    def _of(self, place: int, columns: Mapping[str, Sequence[str]]) -> str:
        alias, name = self._tables[place]
        return f"{alias}.{self._data.draw(st.sampled_from(columns[name]), 'column')}"

    def column(self, columns: Mapping[str, Sequence[str]]) -> str:
        """Draw a column of any of the relations."""
        return self._of(self._data.draw(st.integers(0, len(self._tables) - 1), "table"), columns)

    def conditions(self, place: int) -> Iterator[str]:
        """Draw the conditions between a relation and one before it."""
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
        """Draw an aggregate."""
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
