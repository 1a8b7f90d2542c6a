"""ORDER BY … LIMIT … OFFSET: a window of the sorted rows, while rows come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sortedcontainers import SortedDict

from runtime.compiler.program import TopNode
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.flow.operator import Changes, Field, Operator, Row, place_of

__all__ = ["Top"]


class _Descending:
    """A value of which a greater one comes first."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


class Top(Operator):
    """Rows by their place in the order; what comes after the window costs O(log rows)."""

    def __init__(self, node: TopNode, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        if any(field.type == "float64" for field in fields):
            raise UnsupportedError("an order of float64")
        order = [(place_of(fields, name), descending, first) for name, descending, first in node.order]
        named = {place for place, _, _ in order}
        order += [(place, False, False) for place in range(len(fields)) if place not in named]
        self._key = _key_of(order, fields)
        self._limit, self._offset = node.limit, node.offset
        self._needed = node.offset + (node.limit or 0)
        self._rows: SortedDict[Any, tuple[Row, int]] = SortedDict()
        self._window: dict[Row, int] = {}
        self._bound: Any = None  # key of the window's last row; None while the window is not full
        self.step = self._step

    def _step(self, changes: Changes) -> Changes:
        rows, bound = self._rows, self._bound
        is_near = False
        befores: dict[Any, tuple[Row, int]] = {}
        for row, weight in changes:
            key = self._key(row)
            old = rows[key][1] if key in rows else 0
            befores.setdefault(key, (row, old))
            if old + weight:
                rows[key] = (row, old + weight)
            else:
                del rows[key]
            is_near = is_near or bound is None or not bound < key
        out: Changes = []
        if is_near:
            before, self._window = self._window, self._read()
            out = [(row, -number) for row, number in before.items()]
            out += self._window.items()
        if self._limit is None:  # the window is what is passed over: the change of all rows, less its change
            out = [(row, -number) for row, number in out]
            for key, (row, old) in befores.items():
                out.append((row, max(rows[key][1] if key in rows else 0, 0) - max(old, 0)))
        return [each for each in out if each[1]]

    def _read(self) -> dict[Row, int]:
        """The rows of the window and how often each stands in it; without a limit, those that are passed over."""
        begin = 0 if self._limit is None else self._offset
        found: dict[Row, int] = {}
        passed = 0
        self._bound = None
        if not self._needed:
            return found
        for key, (row, weight) in self._rows.items():
            if weight <= 0:
                continue
            number = min(passed + weight, self._needed) - max(passed, begin)
            if number > 0:
                found[row] = number
            passed += weight
            if passed >= self._needed:
                self._bound = key
                break
        return found

    def entries(self) -> int:
        return len(self._rows)

    def _check(self) -> None:
        assert all(weight for _, weight in self._rows.values())
        window = self._window
        assert self._read() == window


def _key_of(order: Sequence[tuple[int, bool, bool]], fields: Sequence[Field]) -> Callable[[Row], tuple[Any, ...]]:
    """Sorts as SQL does: by each column in turn, NULLs first or last."""

    def key(row: Row) -> tuple[Any, ...]:
        parts: list[Any] = []
        for place, descending, nulls_first in order:
            value = row[place]
            if fields[place].nullable:
                parts.append((value is None) is not nulls_first)
                if value is None:
                    continue
            if descending:
                value = -value if type(value) is int else _Descending(value)
            parts.append(value)
        return tuple(parts)

    return key
