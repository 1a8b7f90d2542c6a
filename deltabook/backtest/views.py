"""The views of a backtest: the express lane's programs, one step for what each request brought about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltabook.backtest.deltas import Delta
from deltabook.backtest.errors import ConfigurationError
from queries import QUERIES_DIR
from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, SqlError, compile_program, read_script
from runtime.compiler.program import Joined, View
from runtime.relations.orderbook import BOOK_SCHEMA, TRADES_SCHEMA
from runtime.views import ShardState, deliveries_of
from runtime.views.tuplewise import TuplewiseProgram

__all__ = ["BacktestViews", "Change", "find_views"]

Row = tuple[Any, ...]
Change = tuple[str, list[Row], list[int]]
"""View, rows, and how many of each came (+) or went (-)."""

_SCHEMAS = {"bids": BOOK_SCHEMA, "asks": BOOK_SCHEMA, "trades": TRADES_SCHEMA}


def find_views(names: Sequence[str], given: Mapping[str, str], folder: Path = QUERIES_DIR) -> list[NamedSelect]:
    """The SELECTs of these views: of ``given`` (name → SQL), else of the file of that name; raises
    `ConfigurationError`."""
    found = []
    for name in sorted(dict.fromkeys(names)):
        if name in given:
            found.append(NamedSelect(name, given[name], lane="express"))
            continue
        path = folder / f"{name}.sql"
        if not path.is_file():
            known = ", ".join(sorted({*given, *(path.stem for path in folder.glob("*.sql"))}))
            raise ConfigurationError(f"expected one of the views {known}, was {name}")
        try:
            selects = [select for select in read_script(path).selects if select.name == name]
        except SqlError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if len(selects) != 1:
            raise ConfigurationError(f"expected one SELECT named {name} in {path}, was {len(selects)}")
        found += selects
    return found


class _Group:
    """Views that were added together: a program of their own."""

    def __init__(self, selects: Sequence[NamedSelect]) -> None:
        program = _compiled(selects)
        tuples = TuplewiseProgram(program)
        self.slow: dict[str, str] = dict(tuples.unsupported)
        self.views: tuple[View, ...] = program.views
        if self.slow:
            program = _compiled([select for select in selects if select.name not in self.slow])
            tuples = TuplewiseProgram(program)
        self._tuples = tuples
        self._batches = _BatchViews(_compiled([s for s in selects if s.name in self.slow])) if self.slow else None
        read = frozenset(relation.name for relation in program.relations)
        self._read = None if len(read) == len(_SCHEMAS) else read

    def result(self, name: str) -> dict[Row, int]:
        """A view's rows."""
        if self._batches is not None and name in self.slow:
            return self._batches.results[name]
        return self._tuples.result(name)

    def step(self, deltas: list[Delta]) -> list[tuple[str, Row, int]]:
        """What deltas that come together change."""
        read = self._read
        if read is None or (len(deltas) == 1 and deltas[0][0] in read):
            changes = self._tuples.step(deltas)
        else:
            changes = self._tuples.step([delta for delta in deltas if delta[0] in read])
        if self._batches is not None:
            changes += self._batches.step(deltas)
        return changes


class BacktestViews:
    """Keeps views tuple by tuple, and those that cannot be kept so batch by batch.

    The order in which views change is that of the live express lane: views without joins first, then the others, each
    in the order of their definition.
    """

    def __init__(self, selects: Sequence[NamedSelect]) -> None:
        """Raises `ConfigurationError` for SQL that cannot be used."""
        self.slow: dict[str, str] = {}
        """View → why it is kept in batches, which takes about a millisecond a step."""
        self.columns: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {}
        """View → names of its columns, and the digits behind the point of those that are scaled integers."""
        self.sql: dict[str, str] = {}
        """View → what it says."""
        self._groups: list[_Group] = []
        self._group_of: dict[str, _Group] = {}
        self._place: dict[str, tuple[bool, int]] = {}
        self.add(selects, [])

    def __contains__(self, name: str) -> bool:
        return name in self._group_of

    def add(self, selects: Sequence[NamedSelect], deltas: list[Delta]) -> None:
        """Keep more views; ``deltas`` are the rows that are there already. Raises `ConfigurationError`."""
        group = _Group(selects)
        if deltas:
            group.step(deltas)
        self._groups.append(group)
        self.slow |= group.slow
        for view in group.views:
            self._group_of[view.name] = group
            self._place[view.name] = (isinstance(view.body, Joined), len(self._place))
            self.sql[view.name] = view.sql
            scales = {column.name: column.scale for column in view.columns if column.scale}
            self.columns[view.name] = tuple(column.name for column in view.columns), scales

    def drop(self, name: str) -> None:
        """Say no more of a view that was added by itself; one that is not there is let be."""
        group = self._group_of.pop(name, None)
        if group is not None and all(other is not group for other in self._group_of.values()):
            self._groups.remove(group)

    def snapshot(self, name: str) -> tuple[list[Row], list[int]]:
        """A view's rows now, and how often each is there."""
        held = self._group_of[name].result(name)
        return list(held), list(held.values())

    def step(self, deltas: list[Delta]) -> list[Change]:
        """What deltas that come together change."""
        groups = self._groups
        changes = groups[0].step(deltas) if len(groups) == 1 else [c for group in groups for c in group.step(deltas)]
        if not changes:
            return []
        first = changes[0][0]
        if changes[-1][0] == first and all(change[0] == first for change in changes):
            return [(first, [change[1] for change in changes], [change[2] for change in changes])]
        found: dict[str, Change] = {}
        for view, row, number in changes:
            change = found.get(view)
            if change is None:
                found[view] = (view, [row], [number])
            else:
                change[1].append(row)
                change[2].append(number)
        place = self._place
        return sorted(found.values(), key=lambda change: place[change[0]])


class _BatchViews:
    """Views of bodies that the tuple-wise kernel has no code for."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._shard = ShardState(program, 0, 1)
        self.results: dict[str, dict[Row, int]] = {view.name: {} for view in program.views}
        self.step([])

    def step(self, deltas: Sequence[Delta]) -> list[tuple[str, Row, int]]:
        """As `TuplewiseProgram.step`; raises `ConfigurationError` when a view fails."""
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for relation, row, weight in deltas:
            rows.setdefault(relation, []).append((*row, weight))
        tables = {
            name: pa.Table.from_arrays(
                [
                    pa.array(column, field.type)
                    for column, field in zip(zip(*found, strict=True), _SCHEMAS[name], strict=True)
                ],
                schema=_SCHEMAS[name],
            )
            for name, found in rows.items()
        }
        found = deliveries_of(self._program, tables, 1, few=True)
        step = self._shard.step([(one.part, one.payload) for one in found])
        for view, reason in step.failed.items():
            raise ConfigurationError(f"expected the view {view} to go on, was {reason}")
        changes = []
        for view, table in step.changes.items():
            columns = [column.to_pylist() for column in table.columns]
            for *cells, number in zip(*columns, strict=True):
                row = tuple(cells)
                changes.append((view, row, number))
                held = self.results[view]
                held[row] = held.get(row, 0) + number
                if not held[row]:
                    del held[row]
        return changes


def _compiled(selects: Sequence[NamedSelect]) -> Program:
    try:
        return compile_program(selects, MARKET_RELATIONS)
    except SqlError as error:
        raise ConfigurationError(str(error)) from error
