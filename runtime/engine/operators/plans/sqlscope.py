"""Names of a SELECT's columns: which table has them, and what they are called in the rows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from runtime.compiler.operands import Lowered
from runtime.compiler.parse import Query
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.building import Bounds
from runtime.engine.operators.plans.expressions import column_of
from runtime.engine.operators.plans.steps import Step

__all__ = ["SqlScope"]


class SqlScope:
    """Rows of some tables, and the names of their columns by table."""

    def __init__(self, query: Query, step: Step) -> None:
        self.step = step
        """The rows."""
        self.tables: dict[str, dict[str, str]] = {}
        """Table → column → what it is called in the rows; all in lower case but the last."""
        self._query = query

    @classmethod
    def of(cls, query: Query, step: Step, alias: str) -> SqlScope:
        """The rows of one table."""
        scope = cls(query, step)
        if not alias:
            raise query.error("expected a name for every subquery in FROM")
        scope.tables[alias.lower()] = {name.lower(): name for name in step.schema.names}
        return scope

    def leaf(self, node: exp.Expr) -> Lowered | None:
        """A column; raises `SqlError` for an unknown one, or one of several tables."""
        if not isinstance(node, exp.Column):
            return None
        found = self.find(node)
        if not found:
            shown = ", ".join(f"{alias}({', '.join(names)})" for alias, names in self.tables.items())
            raise self._query.error(f"unknown column {node.sql()!r}; the columns in scope are: {shown}", node)
        if len(found) > 1:
            raise self._query.error(f"expected one column called {node.sql()}, was one of {len(found)} tables", node)
        return column_of(self.step.schema, found[0])

    def find(self, node: exp.Column) -> list[str]:
        """What the column may be called in the rows."""
        name = node.name.lower()
        tables = [node.table.lower()] if node.table else list(self.tables)
        return [self.tables[table][name] for table in tables if name in self.tables.get(table, {})]

    def apart(self, taken: Sequence[str], bounds: Bounds) -> None:
        """Give the columns other names than these."""
        called: dict[str, str] = {}
        for name in self.step.schema.names:
            free, number = name, 1
            while free in taken or free in called.values():
                free, number = f"{name}_{number}", number + 1
            called[name] = free
        if all(old == new for old, new in called.items()):
            return
        outputs = [(new, column_of(self.step.schema, old)) for old, new in called.items()]
        text = ", ".join(new if old == new else f"{old} AS {new}" for old, new in called.items())
        self.step = building.projected(self.step, outputs, text, bounds)
        for names in self.tables.values():
            for column, old in names.items():
                names[column] = called[old]

    def with_value(self, value: Lowered, bounds: Bounds, taken: Sequence[str] = ()) -> str:
        """The name of a column with this value, which is computed beside the others where it is none of them."""
        names: list[str] = self.step.schema.names
        for name in names:
            if column_of(self.step.schema, name).expr == value.expr:
                return name
        free, number = "key", 1
        while free in taken or free in names:
            free, number = f"key_{number}", number + 1
        outputs = [(name, column_of(self.step.schema, name)) for name in names]
        self.step = building.projected(self.step, [*outputs, (free, value)], f"*, {free}", bounds)
        return free
