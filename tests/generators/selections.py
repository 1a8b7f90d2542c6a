"""Selected views in a kernel graph of their own, also random ones, and the rows of their SQL from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Unpack

from hypothesis import strategies as st

from runtime.compiler import Column, Relation
from runtime.plan import Selected
from runtime.views.graph import GraphBuilder
from runtime.views.nodes import threshold
from tests.generators.programs import Row
from tests.generators.view_lab import Deltas, LabOptions, ViewLab

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


class SelectionLab(ViewLab):
    """One selected view in a graph, and the sum of its changes."""

    body = Selected

    def __init__(
        self, sql: str, mode: str = "sql", relations: Sequence[Relation] = RELATIONS, **options: Unpack[LabOptions]
    ) -> None:
        """Create a lab; see `ViewLab`."""
        super().__init__(sql, mode, relations, **options)

    def lower(self, builder: GraphBuilder) -> None:
        """See `ViewLab.lower`."""
        assert isinstance(self.view.body, Selected)
        threshold.lower(self.view, self.view.body, builder)


def random_deltas(rng: random.Random, held: dict[str, list[Row]], scale: int, size: int, spread: int) -> Deltas:
    """Return deltas of existing rows, and of new ones: ``scale`` times integers of at most ``spread``, some negative.

    A removal may come before its row.
    """
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
    """Draw a query with conditions on aggregates; the compiler may transform it."""
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
        """Draw one of several texts."""
        return self._data.draw(st.sampled_from(options), label)

    def toss(self, label: str) -> bool:
        """Draw a boolean."""
        return self._data.draw(st.booleans(), label)

    def condition(self, key: str) -> str:
        """Draw a condition on a key."""
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
        """Draw a total."""
        relation = self.pick(("r", "q"), "relation")
        where = self.pick(("", "", " WHERE s = 'y'"), "where")
        constant = self.pick(("", "", "0.5 * ", "3 + "), "constant")
        return f"{constant}(SELECT {self.sum(relation)} FROM {relation}{where})"

    def nested(self, key: str) -> str:
        """Draw an aggregate over one side of the key."""
        relation = self.pick(("r", "q"), "relation")
        other = self.pick((*_INTEGERS[relation], _NULLABLE[relation]), "ordered")
        shift = self.pick(("", "", " + 1", " - 2"), "shift")
        where = self.pick(("", "", " AND z.s <> 'z'"), "where")
        compare = self.pick(("<", "<=", ">", ">="), "compare")
        return f"(SELECT {self.sum(relation)} FROM {relation} z WHERE z.{other} {compare} {key}{shift}{where})"

    def sum(self, relation: str) -> str:
        """Draw the expression to sum."""
        columns = (*_INTEGERS[relation], _NULLABLE[relation])
        return self.pick((*(f"SUM({column})" for column in columns), "COUNT(*)"), "aggregate")
