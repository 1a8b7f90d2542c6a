"""Operators on rows as wholes: UNION ALL, DISTINCT, EXCEPT, INTERSECT; NULLs are equal here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from runtime.compiler.program import SetNode
from runtime.views.tuplewise.flow.operator import Changes, Field, Operator, Row

__all__ = ["Distinct", "SetOperation", "Union"]


class Union(Operator):
    """The rows of all inputs."""

    def __init__(self, inputs: Sequence[Sequence[Field]]) -> None:
        columns = zip(*inputs, strict=True)
        self.fields = tuple(Field(c[0].name, c[0].type, any(f.nullable for f in c)) for c in columns)
        self.step = self._step

    @staticmethod
    def _step(*changes: Changes | None) -> Changes:
        given = [change for change in changes if change]
        return given[0] if len(given) == 1 else [each for change in given for each in change]

    def entries(self) -> int:
        return 0


class Distinct(Operator):
    """Every row once, as long as its weight is positive."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._rows: dict[Row, int] = {}
        self.step = self._step

    def _step(self, changes: Changes) -> Changes:
        rows = self._rows
        before: dict[Row, int] = {}
        for row, weight in changes:
            old = rows.get(row, 0)
            before.setdefault(row, old)
            if old + weight:
                rows[row] = old + weight
            else:
                del rows[row]
        out: Changes = []
        for row, old in before.items():
            number = (rows.get(row, 0) > 0) - (old > 0)
            if number:
                out.append((row, number))
        return out

    def entries(self) -> int:
        return len(self._rows)

    def _check(self) -> None:
        assert all(self._rows.values())


_MULTIPLICITY: Final[dict[str, Callable[[int, int], int]]] = {
    "except": lambda left, right: int(left > 0 >= right),
    "except_all": lambda left, right: max(max(left, 0) - max(right, 0), 0),
    "intersect": lambda left, right: int(left > 0 < right),
    "intersect_all": lambda left, right: max(min(left, right), 0),
}


class SetOperation(Operator):
    """How often a row stands is a function of its weights on both sides."""

    def __init__(self, node: SetNode, left: Sequence[Field], right: Sequence[Field]) -> None:
        columns = zip(left, right, strict=True)
        self.fields = tuple(Field(f.name, f.type, f.nullable or g.nullable) for f, g in columns)
        self._multiplicity = _MULTIPLICITY[node.kind]
        self._rows: dict[Row, tuple[int, int]] = {}
        self.step = self._step

    def _step(self, left: Changes | None, right: Changes | None) -> Changes:
        rows, multiplicity = self._rows, self._multiplicity
        before: dict[Row, tuple[int, int]] = {}
        for side, changes in enumerate((left, right)):
            for row, weight in changes or ():
                old = rows.get(row, (0, 0))
                before.setdefault(row, old)
                new = (old[0], old[1] + weight) if side else (old[0] + weight, old[1])
                if new == (0, 0):
                    del rows[row]
                else:
                    rows[row] = new
        out: Changes = []
        for row, old in before.items():
            number = multiplicity(*rows.get(row, (0, 0))) - multiplicity(*old)
            if number:
                out.append((row, number))
        return out

    def entries(self) -> int:
        return len(self._rows)

    def _check(self) -> None:
        assert (0, 0) not in self._rows.values()
