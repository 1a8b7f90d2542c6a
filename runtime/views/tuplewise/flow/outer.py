"""Left and full outer joins in one operator: for each key that changed, what it says now less what it said before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from runtime.views.tuplewise.flow.joins import add_row
from runtime.views.tuplewise.flow.operator import Changes, Field, Operator, Row, getter_of, place_of

__all__ = ["Outer", "OuterOperator"]


_NONE: dict[Row, int] = {}


class Outer(NamedTuple):
    """An outer join by equality."""

    left: int
    """Number of an earlier node."""
    right: int
    """Number of an earlier node."""
    on: tuple[tuple[str, str], ...]
    """(left column, right column)."""
    is_full: bool
    """Whether right rows without a match stay too."""


class OuterOperator(Operator):
    """Joins of few rows a key: a key's rows are joined anew when one of them changes."""

    def __init__(self, node: Outer, left: Sequence[Field], right: Sequence[Field]) -> None:
        padded = left if not node.is_full else [field._replace(nullable=True) for field in left]
        self.fields = (*padded, *(field._replace(nullable=True) for field in right))
        self._is_full = node.is_full
        self._nothing = ((None,) * len(left), (None,) * len(right))
        places = [place_of(left, a) for a, _ in node.on], [place_of(right, b) for _, b in node.on]
        self._keys = getter_of(places[0]), getter_of(places[1])
        fields = left, right
        self._nullable = tuple(any(f[p].nullable for p in held) for f, held in zip(fields, places, strict=True))
        self._is_single = len(node.on) == 1
        self._sides: tuple[dict[Any, dict[Row, int]], dict[Any, dict[Row, int]]] = ({}, {})
        self._said: dict[Any, dict[Row, int]] = {}
        self.step = self._step

    def _step(self, left: Changes | None, right: Changes | None) -> Changes:
        out: Changes = []
        touched: dict[Any, None] = {}
        if left:
            self._take(0, left, touched, out)
        if right:
            self._take(1, right, touched, out)
        for key in touched:
            self._say(key, out)
        return out

    def _take(self, side: int, changes: Changes, touched: dict[Any, None], out: Changes) -> None:
        held, key_of = self._sides[side], self._keys[side]
        nullable = self._nullable[side]
        for row, weight in changes:
            key = key_of(row)
            if nullable and (key is None if self._is_single else None in key):
                if side == 0:
                    out.append((row + self._nothing[1], weight))
                elif self._is_full:
                    out.append((self._nothing[0] + row, weight))
                continue
            touched[key] = None
            add_row(held, key, row, weight)

    def _say(self, key: Any, out: Changes) -> None:
        lefts, rights = self._sides[0].get(key), self._sides[1].get(key)
        new: dict[Row, int] = {}
        if lefts and rights:
            for row, weight in lefts.items():
                for other, number in rights.items():
                    new[row + other] = weight * number
        if lefts and (not rights or sum(rights.values()) <= 0):
            for row, weight in lefts.items():
                new[row + self._nothing[1]] = weight
        if self._is_full and rights and (not lefts or sum(lefts.values()) <= 0):
            for row, weight in rights.items():
                new[self._nothing[0] + row] = weight
        old = self._said.pop(key, _NONE)
        if new:
            self._said[key] = new
        for row, weight in old.items():
            if new.get(row) != weight:
                out.append((row, -weight))
        for row, weight in new.items():
            if old.get(row) != weight:
                out.append((row, weight))

    def entries(self) -> int:
        return sum(len(rows) for held in (*self._sides, self._said) for rows in held.values())

    def _check(self) -> None:
        for held in self._sides:
            assert all(rows and all(rows.values()) for rows in held.values())
        assert self._said.keys() <= self._sides[0].keys() | self._sides[1].keys()
