"""A view program that takes one row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.compiler.program import Program, View
from runtime.views.errors import ViewError
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.kernel import build_kernel
from runtime.views.tuplewise.selection import Change
from runtime.views.tuplewise.stores import StoreSet

__all__ = ["TuplewiseProgram"]

Row = tuple[Any, ...]


class TuplewiseProgram:
    """Linear, joined and selected views, changed by one delta at a time in microseconds each.

    Values are Python's own: integers of any size, floats, strings, truth values, dates, None for NULL. What views say
    is what `runtime.views.ShardState` says of the same deltas, but that integers are exact without a limit here, where
    it refuses those that do not fit their column. Not thread-safe: one owner at a time.
    """

    def __init__(self, program: Program) -> None:
        self.unsupported: dict[str, str] = {}
        """View → why it is not kept here."""
        views: list[View] = []
        for view in program.views:
            try:
                build_kernel(program, [view])
            except UnsupportedError as reason:
                self.unsupported[view.name] = str(reason)
            else:
                views.append(view)
        self._kernel = build_kernel(program, views)
        self._views = [view.name for view in views]

    @property
    def source(self) -> str:
        """The Python source that was generated, for people."""
        return self._kernel.source

    def apply(self, relation: str, row: Row, weight: int = 1) -> list[Change]:
        """Add a row, or with a negative weight take it away: (view, row, ±number), each row of a view once.

        The changes add up to `result`, from the result at the start. Raises `ViewError` for an unknown relation; after
        any error of Python's own that a row of wrong types causes, nothing has changed.
        """
        kernel = self._kernel
        out: list[Change] = []
        try:
            function = kernel.apply[relation]
        except KeyError:
            raise ViewError(f"expected one of the relations {', '.join(kernel.apply)}, was {relation}") from None
        if weight:
            function(row, weight, out)
            for selection, factors in kernel.refreshed[relation]:
                selection.refresh(factors, out)
        return _consolidated(out) if len(out) > 1 else out

    def load(self, rows: Mapping[str, Iterable[Row]]) -> None:
        """Add the rows of relations; selected views are brought up to date once, at the end."""
        kernel = self._kernel
        for relation, added in rows.items():
            function = kernel.apply[relation]
            out: list[Change] = []
            for row in added:
                function(row, 1, out)
                out.clear()
        for relation in rows:
            for selection, factors in kernel.refreshed[relation]:
                selection.refresh(factors, [])

    def result(self, view: str) -> dict[Row, int]:
        """The view's rows, each with its number."""
        kernel = self._kernel
        found: dict[Row, int] = {}
        if view in kernel.selections:
            for row in kernel.selections[view].rows.values():
                found[row] = found.get(row, 0) + 1
            return found
        for entries, function, is_bag, has_empty in kernel.rows[view]:
            for key, entry in entries.items():
                row = function(key, entry)
                if row is not None:
                    found[row] = found.get(row, 0) + (entry[0] if is_bag else 1)
            if has_empty and () not in entries:
                row = function((), None)
                found[row] = found.get(row, 0) + 1
        return found

    def entries(self) -> int:
        """How many entries are held: of the order of the live rows, whatever has come and gone."""
        return self._kernel.stores.entries()

    def _check(self) -> None:
        """Assert every invariant."""
        stores: StoreSet = self._kernel.stores
        stores._check()


def _consolidated(changes: list[Change]) -> list[Change]:
    """Equal rows of a view as one, those that cancel left out."""
    if len(changes) == 2 and changes[0][1] != changes[1][1]:
        return changes
    numbers: dict[tuple[str, Row], int] = {}
    for view, row, number in changes:
        numbers[view, row] = numbers.get((view, row), 0) + number
    return [(view, row, number) for (view, row), number in numbers.items() if number]
