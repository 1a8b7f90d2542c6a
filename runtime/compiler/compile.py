"""Compilation of SELECTs to a view program: each view gets the first class of views that supports its query.

When views are added to a program, the compiled bodies of the existing views stay as they are, so that no later version
of the compiler changes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import duckdb
import msgspec
from sqlglot import exp

from runtime.compiler.describe import Describer
from runtime.compiler.errors import SqlError, first_line
from runtime.compiler.factored import joined_view, selected_view
from runtime.compiler.flow import flow_view
from runtime.compiler.inlining import Definitions, read_names
from runtime.compiler.limits import deep_recursion
from runtime.compiler.linear import linear_view
from runtime.compiler.maps import MapSet, unique
from runtime.compiler.operands import Candidate, NotIncremental, is_encodable
from runtime.compiler.parse import Query, parse_select
from runtime.compiler.reevaluated import QueryRewriter, reevaluated_view, verify
from runtime.compiler.script import NamedSelect
from runtime.compiler.types import Type
from runtime.plan import EPOCH_TIME, Column, Program, Relation, View, assembled, map_identity

__all__ = ["compile_program", "extend_program", "in_order", "names_read"]


def compile_program(
    selects: Sequence[NamedSelect],
    relations: Iterable[Relation],
    *,
    mode: Literal["sql", "dbtoaster"] = "sql",
    standing: Sequence[View] = (),
) -> Program:
    """Return the program of these views over these relations; raise `SqlError` for the first view that is refused.

    The views may be in any order. They may read each other and the ``standing`` views; these do not become part of the
    program.
    """
    with deep_recursion():
        return _compiled(selects, relations, mode, standing)


def _compiled(
    selects: Sequence[NamedSelect],
    relations: Iterable[Relation],
    mode: Literal["sql", "dbtoaster"],
    standing: Sequence[View],
) -> Program:
    known: dict[str, Relation] = {}
    for relation in (*relations, EPOCH_TIME):
        if relation.name in known:
            raise SqlError(f"expected names of relations once each, was {relation.name!r} again")
        known[relation.name] = relation
    places: dict[str, int] = {}
    for place, select in enumerate(selects):
        if select.name in places or select.name in known:
            raise _taken(select)
        places[select.name] = place
    compiler = _Compiler(known, mode)
    try:
        compiler.define(standing)
        views: dict[str, View] = {}
        for select in in_order(selects):
            views[select.name] = msgspec.structs.replace(compiler.view(select), home=places[select.name])
    finally:
        compiler.describer.close()
    read = {part.relation for part in compiler.maps.maps}
    used = tuple(relation for relation in known.values() if relation.name in read)
    return Program(used, tuple(compiler.maps.maps), tuple(views[select.name] for select in selects), mode)


def _taken(select: NamedSelect) -> SqlError:
    """Return the error for a view that has the name of another view or of a relation."""
    reason = f"expected a new name for the view, was {select.name!r}, which is taken"
    return SqlError(reason, file=select.file, line=select.line, column=select.column)


class _Compiler:
    """Compiler that adds views, one after the other, to one set of maps."""

    def __init__(self, relations: dict[str, Relation], mode: Literal["sql", "dbtoaster"]) -> None:
        self.relations = relations
        self.mode = mode
        self.maps = MapSet()
        self.describer = Describer(relations.values())
        self.views = Definitions()
        self.refused: dict[str, str] = {}
        """Name of an existing view that no new view can read → reason."""

    def define(self, standing: Sequence[View]) -> None:
        """Add existing views that others may read.

        An existing view keeps its compiled form. This version may refuse SQL that an older version accepted; then new
        views that read such an existing view are refused.
        """
        by_name = {view.name: view for view in standing}
        selects = [NamedSelect(view.name, view.sql, file=f"view {view.name}") for view in standing]
        for select in in_order(selects):
            columns = by_name[select.name].columns
            try:
                self._check_reads(select)
                query = parse_select(select, self.relations.values(), self.views, mode=self.mode)
            except SqlError as error:
                self.refused[select.name] = str(error)
                continue
            if (count := len(query.tree.selects)) != len(columns):
                self.refused[select.name] = f"expected {len(columns)} columns, as when it was added, was {count}"
                continue
            self._define(query, columns)

    def _check_reads(self, select: NamedSelect) -> None:
        if not self.refused:
            return
        query = Query(select)
        for name, table in read_names(query.plain).items():
            if name in self.refused:
                raise query.error(f"expected a view whose SQL can be read, was {name!r}: {self.refused[name]}", table)

    def _define(self, query: Query, columns: Sequence[Column]) -> None:
        name = query.select.name
        self.views.add(name, columns, query.opened, query.reads, query.sizes)
        self.describer.add(Relation(name, tuple(columns)))

    def view(self, select: NamedSelect) -> View:
        """Compile a view. Its query is first rewritten for re-evaluation, which finds errors and types of columns."""
        self._check_reads(select)
        query = parse_select(select, self.relations.values(), self.views, mode=self.mode)
        zero = self.mode == "dbtoaster"
        rewriter = QueryRewriter(query, self.relations, self.describer, zero=zero)
        output = rewriter.rewrite(query.tree)
        names = self._names(query, len(output.names))
        candidate = self._incremental(query, output.types, zero=zero)
        if isinstance(candidate, str):
            self._check_types(query, names, output.types)
            body = reevaluated_view(output, rewriter.references, names, self.maps)
            try:
                verify(body, output.types, names, self.maps.maps, self.describer)
            except RuntimeError as error:  # a defect of the rewriting, which the user can only avoid by other SQL
                raise query.error(str(error)) from error
            if rewriter.floats:
                candidate += f"; not exact integers: {', '.join(rewriter.floats)}"
            candidate = Candidate(body, tuple(output.types), "reevaluated", candidate)
        columns = tuple(kind.column(name) for name, kind in zip(names, candidate.types, strict=True))
        is_ordered = query.plain.args.get("order") is not None
        self._define(query, columns)
        return View(select.name, columns, candidate.body, candidate.view_class, candidate.reason, select.sql,
                    is_ordered, lane=select.lane, reads=query.reads)  # fmt: skip

    def _incremental(self, query: Query, types: Sequence[Type], *, zero: bool) -> Candidate | str:
        """Return the query in the first class that supports it, or the reason of the last class if none does."""
        reason = ""
        for compile_view in (linear_view, joined_view, selected_view, flow_view):
            mark = self.maps.mark()
            try:
                candidate = compile_view(query.tree, self.relations, self.maps, zero=zero)
                if not is_encodable((candidate.body, self.maps.maps[mark:])):
                    raise NotIncremental("a constant of more than 64 bits")
                return candidate if compile_view is linear_view else _with_types(candidate, types)
            except NotIncremental as finding:
                self.maps.undo(mark)
                reason = str(finding)
        return reason

    def _names(self, query: Query, count: int) -> list[str]:
        """Return DuckDB's names of the query's columns; DuckDB also finds errors that the compiler does not."""
        try:
            described = self.describer.names(query.plain.sql("duckdb"))
        except duckdb.Error as error:
            raise self._position(query, first_line(error)) from error
        names: list[str] = []
        for name in described:
            names.append(unique(name.lower(), names))
        assert len(names) == count, f"expected {count} columns, was {names}"
        return names

    def _position(self, query: Query, message: str) -> SqlError:
        """Return DuckDB's message as an error at the first name that the message quotes."""
        for name in re.findall(r'"(\w+)"', message):
            for column in query.plain.find_all(exp.Column):
                if column.name.lower() == name.lower():
                    return query.error(message, column)
        return query.error(message)

    def _check_types(self, query: Query, names: Sequence[str], types: Sequence[Type]) -> None:
        for name, kind in zip(names, types, strict=True):
            if kind.kind == "other":
                raise query.error(f"expected a number, string, boolean, date or timestamp as the column {name!r}, "
                                  f"was {kind}; CAST it")  # fmt: skip


def _with_types(candidate: Candidate, types: Sequence[Type]) -> Candidate:
    """Return the candidate with the types of the re-evaluated query; raise `NotIncremental` if it has other types."""
    for number, (kind, expected) in enumerate(zip(candidate.types, types, strict=True), 1):
        if (kind.kind, kind.scale, kind.wide) != (expected.kind, expected.scale, expected.wide):
            raise NotIncremental(f"column {number} would be {_named(kind)}, where recomputing it gives "
                                 f"{_named(expected)}")  # fmt: skip
    return replace(candidate, types=tuple(types))


def _named(kind: Type) -> str:
    return f"{kind} of 128 bits" if kind.wide else str(kind)


def names_read(select: NamedSelect) -> tuple[str, ...]:
    """Return the relations and views that a SELECT names, in the order of its text; raise `SqlError` if invalid."""
    with deep_recursion():
        return tuple(read_names(Query(select).plain))


def in_order(selects: Sequence[NamedSelect]) -> list[NamedSelect]:
    """Return the views in the given order, except that each view follows the views that it reads.

    Raise `SqlError` for a view that reads itself, directly or through other views; the error has the name's position.
    """
    by_name = {select.name: select for select in selects}
    done: dict[str, NamedSelect] = {}
    path: list[str] = []

    def visit(select: NamedSelect) -> None:
        path.append(select.name)
        for name, (query, table) in _read(select, by_name).items():
            if name in path:
                raise query.error(_circle([*path[path.index(name) :], name]), table)
            if name not in done:
                visit(by_name[name])
        path.pop()
        done[select.name] = select

    for select in selects:
        if select.name not in done:
            visit(select)
    return list(done.values())


def _read(select: NamedSelect, by_name: dict[str, NamedSelect]) -> dict[str, tuple[Query, exp.Table]]:
    """Return the views of ``by_name`` that a SELECT names; a SELECT whose text has no such name is not parsed."""
    words = {word.lower() for word in re.findall(r"\w+", select.sql)}
    if not any(words.issuperset(re.findall(r"\w+", name)) for name in by_name):
        return {}
    query = Query(select)
    return {name: (query, table) for name, table in read_names(query.plain).items() if name in by_name}


def _circle(names: Sequence[str]) -> str:
    if len(names) == 2:
        return f"expected a view that does not read itself, was {names[0]!r}"
    return f"expected views that do not read each other in a circle, was {' → '.join(names)}"


_replace = msgspec.structs.replace


def extend_program(program: Program, selects: Sequence[NamedSelect], relations: Iterable[Relation]) -> Program:
    """Return the program with these views added; raise `SqlError` for the first view that cannot be added.

    The old maps keep their numbers, and each new view gets a new home. A new view may read existing views; its query
    then contains their SQL, not their compiled bodies.
    """
    taken = {view.name for view in program.views}
    for select in selects:
        if select.name in taken:
            raise _taken(select)
    known = tuple(relations)
    added = compile_program(selects, known, mode=program.mode, standing=program.views)
    maps = list(program.maps)
    numbers = {map_identity(map_): map_.id for map_ in maps}
    for map_ in added.maps:
        number = numbers.setdefault(map_identity(map_), len(maps))
        if number == len(maps):
            maps.append(_replace(map_, id=number))
    home = max((view.home for view in program.views), default=-1) + 1
    views = [
        _replace(view, body=view.body.renumbered(lambda n: numbers[map_identity(added.maps[n])]), home=home + place)
        for place, view in enumerate(added.views)
    ]
    return assembled(program, _together(program, (*known, EPOCH_TIME)), maps, [*program.views, *views])


def _together(program: Program, relations: Iterable[Relation]) -> list[Relation]:
    known = {relation.name: relation for relation in program.relations}
    for relation in relations:
        if known.setdefault(relation.name, relation) != relation:
            raise SqlError(
                f"expected the relation {relation.name!r} with the columns that existing views read, was another"
            )
    return list(known.values())
