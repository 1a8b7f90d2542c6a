"""Inner, semi and anti joins by equality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.compiler.program import JoinNode, SemiNode
from runtime.views.tuplewise.flow.operator import Changes, Field, Operator, Row, getter_of, place_of

__all__ = ["Join", "Semi", "add_row"]

_Held = dict[Any, dict[Row, int]]


class _Side:
    """The rows of one input by their key; a key with a NULL matches nothing and is not held."""

    def __init__(self, fields: Sequence[Field], on: Sequence[str]) -> None:
        places = [place_of(fields, name) for name in on]
        self.key = getter_of(places)
        self.is_single = len(places) == 1
        self.nullable = any(fields[place].nullable for place in places)
        self.rows: _Held = {}

    def matches_nothing(self, key: Any) -> bool:
        """Whether a key has a NULL."""
        return key is None if self.is_single else None in key


def add_row(held: _Held, key: Any, row: Row, weight: int) -> None:
    """Add to the weight of a row among those of its key."""
    rows = held.get(key)
    if rows is None:
        held[key] = {row: weight}
        return
    total = rows.get(row, 0) + weight
    if total:
        rows[row] = total
    else:
        del rows[row]
        if not rows:
            del held[key]


def _size(held: _Held) -> int:
    return sum(map(len, held.values()))


class Join(Operator):
    """Changes on the left with what was on the right, then what is on the left with changes there."""

    def __init__(self, node: JoinNode, left: Sequence[Field], right: Sequence[Field]) -> None:
        self.fields = (*left, *right)
        self._left = _Side(left, [pair[0] for pair in node.on])
        self._right = _Side(right, [pair[1] for pair in node.on])
        self.step = self._step

    def _step(self, left: Changes | None, right: Changes | None) -> Changes:
        out: Changes = []
        if left:
            side, others = self._left, self._right.rows
            for row, weight in left:
                key = side.key(row)
                if side.nullable and side.matches_nothing(key):
                    continue
                for other, number in others.get(key, _NONE).items():
                    out.append((row + other, weight * number))
                add_row(side.rows, key, row, weight)
        if right:
            side, others = self._right, self._left.rows
            for row, weight in right:
                key = side.key(row)
                if side.nullable and side.matches_nothing(key):
                    continue
                for other, number in others.get(key, _NONE).items():
                    out.append((other + row, weight * number))
                add_row(side.rows, key, row, weight)
        return out

    def entries(self) -> int:
        return _size(self._left.rows) + _size(self._right.rows)

    def _check(self) -> None:
        for side in (self._left, self._right):
            _check_side(side)


class Semi(Operator):
    """Left rows whose key is (or is not) on the right: a key that comes or goes there takes its left rows with it."""

    def __init__(self, node: SemiNode, left: Sequence[Field], right: Sequence[Field]) -> None:
        self.fields = tuple(left)
        self._anti = node.anti
        self._left = _Side(left, [pair[0] for pair in node.on])
        self._right = _Side(right, [pair[1] for pair in node.on])
        self._counts: dict[Any, int] = {}
        self.step = self._step

    def _step(self, left: Changes | None, right: Changes | None) -> Changes:
        out: Changes = []
        if right:
            self._flip(right, out)
        if left:
            side, counts, anti = self._left, self._counts, self._anti
            for change in left:
                row, weight = change
                key = side.key(row)
                if side.nullable and side.matches_nothing(key):
                    if anti:
                        out.append(change)
                    continue
                if (counts.get(key, 0) > 0) is not anti:
                    out.append(change)
                add_row(side.rows, key, row, weight)
        return out

    def _flip(self, right: Changes, out: Changes) -> None:
        side, counts = self._right, self._counts
        before: dict[Any, bool] = {}
        for row, weight in right:
            key = side.key(row)
            if side.nullable and side.matches_nothing(key):
                continue
            old = counts.get(key, 0)
            if key not in before:
                before[key] = old > 0
            if old + weight:
                counts[key] = old + weight
            else:
                del counts[key]
        for key, was in before.items():
            if was is (counts.get(key, 0) > 0):
                continue
            sign = 1 if was is self._anti else -1
            for row, number in self._left.rows.get(key, _NONE).items():
                out.append((row, sign * number))

    def entries(self) -> int:
        return _size(self._left.rows) + len(self._counts)

    def _check(self) -> None:
        _check_side(self._left)
        assert all(self._counts.values())


_NONE: dict[Row, int] = {}


def _check_side(side: _Side) -> None:
    for key, rows in side.rows.items():
        assert rows, "no key is held without rows"
        assert all(rows.values()), "no row is held without a weight"
        assert all(side.key(row) == key for row in rows)
