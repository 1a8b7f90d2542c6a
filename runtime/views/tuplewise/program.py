"""A view program that takes one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from runtime.compiler.program import Flow, Program, View
from runtime.views.errors import ViewError
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.flow import FlowKernel
from runtime.views.tuplewise.kernel import build_kernel
from runtime.views.tuplewise.selection import Change, Selection
from runtime.views.tuplewise.stores import StoreSet

__all__ = ["TuplewiseProgram"]

Row = tuple[Any, ...]


class TuplewiseProgram:
    """All views but re-evaluated ones, changed by one delta at a time in microseconds each, or by a few at once.

    Values are Python's own: integers of any size, floats, strings, truth values, dates, None for NULL. What views say
    is what `runtime.views.ShardState` says of the same deltas, but that integers are exact without a limit here, where
    it refuses those that do not fit their column. Not thread-safe: one owner at a time.
    """

    def __init__(self, program: Program) -> None:
        self.unsupported: dict[str, str] = {}
        """View → why it is not kept here."""
        views: list[View] = []
        self._flows: dict[str, FlowKernel] = {}
        for view in program.views:
            try:
                if isinstance(view.body, Flow):
                    self._flows[view.name] = FlowKernel(view, view.body, program)
                else:
                    build_kernel(program, [view])
                    views.append(view)
            except UnsupportedError as reason:
                self.unsupported[view.name] = str(reason)
        self._kernel = build_kernel(program, views)
        self._has_kernel = bool(views)
        self._flows_of = {
            relation: [(name, flow) for name, flow in self._flows.items() if relation in flow.relations]
            for relation in self._kernel.apply
        }

    @property
    def source(self) -> str:
        """The Python source that was generated for views that are no flows, for people."""
        return self._kernel.source

    def apply(self, relation: str, row: Row, weight: int = 1) -> list[Change]:
        """Add a row, or with a negative weight take it away: (view, row, ±number), each row of a view once.

        The changes add up to `result`, from the result at the start. Raises `ViewError` for an unknown relation; after
        any error of Python's own that a row of wrong types causes, nothing has changed but in flows.
        """
        return self.step([(relation, row, weight)])

    def step(self, deltas: Sequence[tuple[str, Row, int]]) -> list[Change]:
        """The same for several rows (relation, row, weight) that come and go together: what they do is said once."""
        out: list[Change] = []
        if self._has_kernel:
            self._step_kernel(deltas, out)
            if len(out) > 1:
                out = _consolidated(out)
        if not self._flows:
            return out
        rows: dict[str, list[tuple[Row, int]]] = {}
        if len(deltas) == 1 and deltas[0][2] and deltas[0][0] in self._flows_of:  # most steps: nothing to put in order
            relation, row, weight = deltas[0]
            rows[relation] = [(row, weight)]
            for name, flow in self._flows_of[relation]:
                for changed, number in flow.step(rows):
                    out.append((name, changed, number))
            return out
        for relation, row, weight in deltas:
            if not weight:
                self._function_of(relation)
            elif relation in rows:
                rows[relation].append((row, weight))
            else:
                self._function_of(relation)
                rows[relation] = [(row, weight)]
        flows = self._flows_of[next(iter(rows))] if len(rows) == 1 else list(self._flows.items())
        for name, flow in flows if rows else ():
            for row, number in flow.step(rows):
                out.append((name, row, number))
        return out

    def _step_kernel(self, deltas: Sequence[tuple[str, Row, int]], out: list[Change]) -> None:
        refreshed = self._kernel.refreshed
        if len(deltas) == 1:
            relation, row, weight = deltas[0]
            function = self._function_of(relation)
            if weight:
                function(row, weight, out)
                for selection, factors in refreshed[relation]:
                    selection.refresh(factors, out)
            return
        stale: dict[int, tuple[Selection, set[int]]] = {}
        for relation, row, weight in deltas:
            function = self._function_of(relation)
            if weight:
                function(row, weight, out)
                for selection, factors in refreshed[relation]:
                    stale.setdefault(id(selection), (selection, set()))[1].update(factors)
        for selection, places in stale.values():
            selection.refresh(sorted(places), out)

    def _function_of(self, relation: str) -> Callable[..., None]:
        functions = self._kernel.apply
        try:
            return functions[relation]
        except KeyError:
            raise ViewError(f"expected one of the relations {', '.join(functions)}, was {relation}") from None

    def load(self, rows: Mapping[str, Iterable[Row]]) -> None:
        """Add the rows of relations; selected views and flows are brought up to date once, at the end."""
        kernel = self._kernel
        rows = {relation: list(added) for relation, added in rows.items()}
        for relation, added in rows.items():
            function = kernel.apply[relation]
            out: list[Change] = []
            for row in added:
                function(row, 1, out)
                out.clear()
        for relation in rows:
            for selection, factors in kernel.refreshed[relation]:
                selection.refresh(factors, [])
        if self._flows:
            changes = {relation: [(row, 1) for row in added] for relation, added in rows.items()}
            for flow in self._flows.values():
                flow.step(changes)

    def result(self, view: str) -> dict[Row, int]:
        """The view's rows, each with its number."""
        if view in self._flows:
            return dict(self._flows[view].rows)
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
        return self._kernel.stores.entries() + sum(flow.entries() for flow in self._flows.values())

    def _check(self) -> None:
        """Assert every invariant."""
        stores: StoreSet = self._kernel.stores
        stores._check()
        for flow in self._flows.values():
            flow._check()


def _consolidated(changes: list[Change]) -> list[Change]:
    """Equal rows of a view as one, those that cancel left out."""
    if len(changes) == 2 and changes[0][1] != changes[1][1]:
        return changes
    numbers: dict[tuple[str, Row], int] = {}
    for view, row, number in changes:
        numbers[view, row] = numbers.get((view, row), 0) + number
    return [(view, row, number) for (view, row), number in numbers.items() if number]
