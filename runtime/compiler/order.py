"""Order in which views are compiled: each after those that it reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from runtime.compiler.inlining import read_names
from runtime.compiler.parse import Query
from runtime.compiler.script import NamedSelect

__all__ = ["in_order", "names_read"]


def names_read(select: NamedSelect) -> tuple[str, ...]:
    """Return the relations and views that a SELECT names, in the order of its text; raise `SqlError` if invalid."""
    return tuple(read_names(Query(select).plain))


def in_order(selects: Sequence[NamedSelect]) -> list[NamedSelect]:
    """Return the views, each after those of them that it reads, else in the given order.

    Raise `SqlError` with the place of the name for views that read themselves or each other in a circle.
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
    """Return the views among these that a view names; one whose text has none of their names is not parsed."""
    words = {word.lower() for word in re.findall(r"\w+", select.sql)}
    if not any(words.issuperset(re.findall(r"\w+", name)) for name in by_name):
        return {}
    query = Query(select)
    return {name: (query, table) for name, table in read_names(query.plain).items() if name in by_name}


def _circle(names: Sequence[str]) -> str:
    if len(names) == 2:
        return f"expected a view that does not read itself, was {names[0]!r}"
    return f"expected views that do not read each other in a circle, was {' → '.join(names)}"
