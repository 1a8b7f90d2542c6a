"""Names of a SELECT's columns: the tables that have them, and their names in the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from runtime.compiler.operands import Lowered
from runtime.compiler.parse import Query
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.expressions import column_of, first_free, numbered_names
from runtime.engine.operators.plans.steps import Step

__all__ = ["HIDDEN", "SqlScope", "column_names"]

HIDDEN: Final = " "
"""Name of the table of hidden columns, which no SQL table can have."""


class SqlScope:
    """Rows of some tables, and the names of their columns by table.

    Columns that the query does not name, such as the result of LAG, belong to the table `HIDDEN`.
    """

    def __init__(self, query: Query, step: Step) -> None:
        self.step = step
        """Step with the rows."""
        self.tables: dict[str, dict[str, str]] = {}
        """Names in the rows by table and column, both in lower case."""
        self.shared: set[str] = set()
        """Names of columns of USING; such a name without a table refers to the column of the first table."""
        self._query = query

    @classmethod
    def of(cls, query: Query, step: Step, source: exp.Expr) -> SqlScope:
        """Return the scope of one table or subquery of FROM."""
        scope = cls(query, step)
        if not source.alias_or_name:
            raise query.error("expected a name for every subquery in FROM")
        names = zip(column_names(query, step, source), step.schema.names, strict=True)
        scope.tables[source.alias_or_name.lower()] = dict(names)
        return scope

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """Return a column as an expression; raise `SqlError` for an unknown or ambiguous name."""
        path = _struct_path(node)
        if path is not None:
            return self.leaf(path)
        if not isinstance(node, exp.Column):
            return None
        columns = self.find(node)
        if not columns:
            shown = ", ".join(f"{alias}({', '.join(names)})" for alias, names in self.tables.items() if alias != HIDDEN)
            name = node.name if node.table == HIDDEN else node.sql()
            raise self._query.error(f"unknown column {name!r}; the columns in scope are: {shown}", node)
        if len(columns) > 1:
            raise self._query.error(f"expected one column called {node.sql()}, was one of {len(columns)} tables", node)
        return column_of(self.step.schema, columns[0])

    def find(self, node: exp.Column) -> list[str]:
        """Return the names that a column may have in the rows; ``a.b.c`` may be a field of a struct."""
        parts = [part.name.lower() for part in node.parts]
        names = self._of_tables([table for table in self.tables if table != HIDDEN], ".".join(parts))
        if len(parts) == 1 and not names:
            names = self._of_tables([HIDDEN], parts[0])
        if len(parts) == 1 and parts[0] in self.shared:
            return names[:1]
        if len(parts) > 1:
            names += self._of_tables([parts[0]], ".".join(parts[1:]))
        return names

    def _of_tables(self, tables: Sequence[str], name: str) -> list[str]:
        return [self.tables[table][name] for table in tables if name in self.tables.get(table, {})]

    def rename_taken(self, taken: Sequence[str]) -> None:
        """Rename the columns whose names are among ``taken``."""
        called: dict[str, str] = {}
        for name in self.step.schema.names:
            called[name] = first_free(numbered_names(name), {*taken, *called.values()})
        if all(old == new for old, new in called.items()):
            return
        if self.step.kind == "table":
            self.step = replace(self.step, schema=pa.schema([f.with_name(called[f.name]) for f in self.step.schema]))
        else:
            self._rename(called)
        for names in self.tables.values():
            for column, old in names.items():
                names[column] = called[old]

    def _rename(self, called: Mapping[str, str]) -> None:
        outputs = [(new, column_of(self.step.schema, old)) for old, new in called.items()]
        text = ", ".join(new if old == new else f"{old} AS {new}" for old, new in called.items())
        self.step = building.projected(self.step, outputs, text)

    def with_value(self, value: Lowered, taken: Sequence[str] = ()) -> str:
        """Return the name of a column with this value; add a computed column if there is none."""
        names: list[str] = self.step.schema.names
        for name in names:
            if column_of(self.step.schema, name).expr == value.expr:
                return name
        free = first_free(numbered_names("key"), {*taken, *names})
        outputs = [(name, column_of(self.step.schema, name)) for name in names]
        self.step = building.projected(self.step, [*outputs, (free, value)], f"*, {free}")
        return free


def column_names(query: Query, step: Step, source: exp.Expr) -> list[str]:
    """Return the names of a source's columns in lower case; the names in its alias replace the first of them.

    Raises `SqlError` for more names than columns, and for equal names.
    """
    given = [name.lower() for name in source.alias_column_names]
    own = [name.lower() for name in step.schema.names]
    names = given + own[len(given) :]
    if given and any("." in name for name in own):
        raise query.error("expected no names for columns of a relation with structs: select their fields", source)
    if given and (len(given) > len(own) or len(set(names)) < len(names)):
        raise query.error(f"expected {len(own)} names at most for the columns of {source.alias_or_name}, all of them "
                          f"different, were {', '.join(names)}", source)  # fmt: skip
    return names


def _struct_path(node: exp.Expr) -> exp.Column | None:
    """Return the column of ``s['field']``, ``s['field'].field`` and ``struct_extract(s, 'field')``."""
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        inner, field = node.this, node.expressions[0]
    elif isinstance(node, exp.StructExtract):
        inner, field = node.this, node.expression
    elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        inner, field = node.this, exp.Literal.string(node.expression.name)
    else:
        return None
    inner = _struct_path(inner) or inner
    if not isinstance(inner, exp.Column) or not (isinstance(field, exp.Literal) and field.is_string):
        return None
    return exp.Column(this=exp.to_identifier(".".join([*(part.name for part in inner.parts), field.name]), quoted=True))
