"""Plan of FROM, JOIN and WHERE of one SELECT: the rows that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from sqlglot import exp

from runtime.compiler.lower import conjuncts
from runtime.compiler.operands import NotIncremental, aligned
from runtime.compiler.parse import Query
from runtime.engine.operators.joins.lookup import LOOKUP_KINDS, LookupKind
from runtime.engine.operators.joins.merge import JoinKind
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.expressions import (
    about,
    column_of,
    condition,
    first_free,
    lowered,
    numbered_names,
    span_of,
)
from runtime.engine.operators.plans.sqlscope import HIDDEN, SqlScope
from runtime.engine.operators.plans.steps import Step

__all__ = ["Sources"]

Pair = tuple[exp.Expr, exp.Expr]

_FILTERS_RIGHT: Final = frozenset(("inner", "left", "semi", "anti"))
"""Joins in which a condition on right rows alone may be applied to them first."""
_FILTERS_LEFT: Final = frozenset(("inner", "right", "semi"))
"""Joins in which a condition on left rows alone may be applied to them first."""


class Sources:
    """The sources of one SELECT, joined in the order in which they are written."""

    def __init__(
        self,
        query: Query,
        plan: Callable[[exp.Expr], Step],
        tables: Mapping[str, Step],
    ) -> None:
        self.scope: SqlScope
        """Scope of the rows that are joined so far."""
        self.where: list[exp.Expr] = []
        """Conditions of WHERE that are still to be applied."""
        self._query = query
        self._plan = plan
        self._tables = tables

    def read(self, select: exp.Select) -> None:
        """Read FROM and its joins; `where` then has the conditions of WHERE that no join has used."""
        start = select.args.get("from_")
        if start is None:
            raise self._query.error("expected a SELECT that reads something", select)
        clause = select.args.get("where")
        self.where = [] if clause is None else conjuncts(clause.this)
        self.scope = self._source(start.this)
        for join in select.args.get("joins") or []:
            if isinstance(join.this, (exp.Unnest, exp.Lateral)):
                self._unnest(join, select)
            else:
                self._join(join)

    def star(self, table: str) -> list[tuple[str, exp.Expr]]:
        """Return the names and expressions of all columns, or of one table's."""
        tables = self.scope.tables
        if table and table.lower() not in tables:
            raise self._query.error(f"expected one of {', '.join(tables)} before .*, was {table}")
        chosen = [table.lower()] if table else [alias for alias in tables if alias != HIDDEN]
        columns: dict[tuple[str, str], None] = {}
        for alias in chosen:
            for name in tables[alias]:
                is_repeated = not table and name in self.scope.shared and any(name == other for _, other in columns)
                if not is_repeated:
                    columns[alias, name] = None
        return [(name.replace(".", "_"), exp.column(name, table=alias, quoted=True)) for alias, name in columns]

    def _source(self, node: exp.Expr, *, is_right: bool = False) -> SqlScope:
        if isinstance(node, exp.Subquery):
            return SqlScope.of(self._query, self._plan(node), node)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.db:
            step = self._tables.get(node.name.lower())
            if step is None:
                names = ", ".join(sorted(self._tables))
                raise self._query.error(f"unknown relation {node.name!r}; the relations are: {names}", node)
            if step.kind == "table" and not is_right:
                raise self._query.error(f"expected a stream in FROM, was the table {node.name}: its rows have no time; "
                                        f"write it on the right side of a JOIN", node)  # fmt: skip
            return SqlScope.of(self._query, step, node)
        raise self._query.error("expected a relation or a subquery in FROM", node)

    # Joins

    def _join(self, join: exp.Join) -> None:
        side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
        if method not in ("", "ASOF") or (method and (kind or side not in ("", "LEFT"))):
            words = " ".join(word for word in (method, side, kind) if word)
            raise self._query.error(f"{words} JOIN is not supported", join)
        named = (kind if kind in ("SEMI", "ANTI") else side or "INNER").lower()
        source = join.this
        right = self._source(source, is_right=True)
        if right.tables.keys() & self.scope.tables.keys():
            raise self._query.error(f"expected tables with names that differ, was {source.alias_or_name} twice", join)
        right.rename_taken(self.scope.step.schema.names)
        is_table = right.step.kind == "table"
        if is_table and (method or named not in LOOKUP_KINDS):
            raise self._query.error(f"expected JOIN, LEFT JOIN, SEMI JOIN or ANTI JOIN with the table "
                                    f"{source.name}, was {f'{method} {named.upper()}'.strip()} JOIN", join)  # fmt: skip
        equal, rest = self._conditions(join, right, named, is_asof=bool(method))
        times = self._time(rest, right, join) if method else None
        tolerance = self._tolerance(rest, times, right) if times is not None else None
        self._apply_alone(rest, right, named, join)
        on = [self._columns(left_value, right_value, right, join) for left_value, right_value in equal]
        with about(self._query, join):
            if times is not None:
                when = self._columns(*times, right, join)
                self.scope.step = building.asof_joined(
                    self.scope.step, right.step, when, on, outer=named == "left", tolerance=tolerance
                )
            elif not on:
                raise self._query.error("expected an equality between both sides of the JOIN", join)
            elif is_table:
                if right.step.kind != "table":
                    raise self._query.error(f"expected plain columns of the table {source.name} in ON", join)
                self.scope.step = building.looked_up(self.scope.step, right.step, on, cast(LookupKind, named))
            else:
                self.scope.step = building.joined(self.scope.step, right.step, on, cast(JoinKind, named))
        if named not in ("semi", "anti"):
            self.scope.tables |= right.tables
            self.scope.shared |= {column.name.lower() for column in join.args.get("using") or []}

    def _conditions(
        self, join: exp.Join, right: SqlScope, kind: str, *, is_asof: bool
    ) -> tuple[list[Pair], list[exp.Expr]]:
        """Return the equalities between both sides, as pairs of left and right, and the other conditions."""
        using = [self._using(column.name, right) for column in join.args.get("using") or []]
        if using and kind not in ("inner", "left", "semi", "anti"):
            raise self._query.error(f"USING in a {kind.upper()} JOIN is not supported", join)
        if using and is_asof:
            left_value, right_value = using.pop()
            return using, [exp.GTE(this=left_value, expression=right_value)]
        clause = join.args.get("on")
        equal, rest = using, []
        for node in [] if clause is None else conjuncts(clause):
            pair = self._pair(node, right)
            if pair is not None:
                equal.append(pair)
            else:
                rest.append(node)
        if kind == "inner" and not is_asof:
            for node in list(self.where):
                pair = self._pair(node, right)
                if pair is not None:
                    equal.append(pair)
                    self.where.remove(node)
        return equal, rest

    def _using(self, name: str, right: SqlScope) -> Pair:
        mine = next((table for table, names in self.scope.tables.items() if name.lower() in names), "")
        theirs = next(iter(right.tables))
        return exp.column(name, table=mine or None), exp.column(name, table=theirs)

    def _pair(self, node: exp.Expr, right: SqlScope, kind: type[exp.Expr] = exp.EQ) -> Pair | None:
        if not isinstance(node, exp.Binary) or not isinstance(node, kind):
            return None
        sides = (self._side(node.left, right), self._side(node.right, right))
        if sides == ("left", "right"):
            return node.left, node.right
        return (node.right, node.left) if sides == ("right", "left") else None

    def _side(self, node: exp.Expr, right: SqlScope) -> str:
        """Return "left" or "right" if all columns are of that side, "none" if none is of either side, else "both"."""
        sides = set()
        for column in node.find_all(exp.Column):
            mine, theirs = bool(self.scope.find(column)), bool(right.find(column))
            if mine and theirs:
                raise self._query.error(f"expected one column called {column.sql()}, was one on both sides", column)
            sides.add("left" if mine else "right" if theirs else "none")
        return sides.pop() if len(sides) == 1 else "both" if sides else "none"

    def _time(self, rest: list[exp.Expr], right: SqlScope, join: exp.Join) -> Pair:
        """Remove the one inequality of an as-of join, left ≥ right, from the conditions, and return it."""
        for node in rest:
            later, earlier = self._pair(node, right, exp.GTE), self._pair(node, right, exp.LTE)
            if isinstance(node, exp.GTE) and later == (node.left, node.right):
                rest.remove(node)
                return node.left, node.right
            if isinstance(node, exp.LTE) and earlier == (node.right, node.left):
                rest.remove(node)
                return node.right, node.left
        raise self._query.error("expected left.time >= right.time in ON of an ASOF JOIN", join)

    def _tolerance(self, rest: list[exp.Expr], times: Pair, right: SqlScope) -> int | None:
        """Remove ``left.t - right.t <= length`` from the conditions; return the length, or None if there is none."""
        later, earlier = times
        for node in rest:
            difference, length = (node.left, node.right) if isinstance(node, exp.LTE) else (None, None)
            if isinstance(node, exp.GTE):
                difference, length = node.right, node.left
            if isinstance(difference, exp.Paren):
                difference = difference.this
            if isinstance(difference, exp.Sub) and (difference.left, difference.right) == (later, earlier):
                assert length is not None
                rest.remove(node)
                names = self.scope.find(later) if isinstance(later, exp.Column) else []
                if len(names) != 1:
                    raise self._query.error("expected a column as the time of an ASOF JOIN with a tolerance", node)
                return span_of(length, self.scope.step.schema.field(names[0]).type, self._query, node)
        return None

    def _apply_alone(self, rest: Sequence[exp.Expr], right: SqlScope, kind: str, join: exp.Join) -> None:
        """Apply conditions of one side to that side, and other conditions of an inner join after the join."""
        is_asof = bool(join.args.get("method"))
        for node in rest:
            side = self._side(node, right)
            if side == "right" and kind in _FILTERS_RIGHT and right.step.kind != "table":
                expr = condition(node, right.leaf).expr
                right.step = building.filtered(right.step, expr, node.sql("duckdb"))
            elif side == "left" and kind in _FILTERS_LEFT:
                expr = condition(node, self.scope.leaf).expr
                self.scope.step = building.filtered(self.scope.step, expr, node.sql("duckdb"))
            elif kind == "inner" and not is_asof and not (isinstance(node, exp.Boolean) and node.this):
                self.where.append(node)
            elif not (isinstance(node, exp.Boolean) and node.this):
                raise self._query.error(f"{node.sql('duckdb')} in ON of this join is not supported", node)

    def _columns(self, left_value: exp.Expr, right_value: exp.Expr, right: SqlScope, join: exp.Join) -> tuple[str, str]:
        """Return the column names of two expressions that are compared; compute expressions that are not columns."""
        try:
            mine, theirs = aligned(lowered(left_value, self.scope.leaf), lowered(right_value, right.leaf))
        except NotIncremental:
            values = f"{left_value.sql()} and {right_value.sql()}"
            raise self._query.error(f"expected values that can be compared, were {values}", join) from None
        taken = [*self.scope.step.schema.names, *right.step.schema.names]
        return self.scope.with_value(mine, taken), right.with_value(theirs, [*taken, *self.scope.step.schema.names])

    # Unnesting

    def _unnest(self, join: exp.Join, select: exp.Select) -> None:
        source = join.this
        unnest = source.this if isinstance(source, exp.Lateral) else source
        alias = source.args.get("alias") or unnest.args.get("alias")
        on = join.args.get("on")
        is_outer = str(join.args.get("side") or "").upper() == "LEFT"
        if not isinstance(unnest, exp.Unnest) or str(join.args.get("side") or "").upper() not in ("", "LEFT"):
            raise self._query.error("expected UNNEST(list), joined by CROSS JOIN or LEFT JOIN … ON TRUE", join)
        if on is not None and not (isinstance(on, exp.Boolean) and on.this):
            raise self._query.error("expected ON TRUE after UNNEST", on)
        if alias is None or alias.this is None:
            raise self._query.error("expected a name for UNNEST, as in UNNEST(list) AS u(element)", join)
        names = [column.name for column in alias.args.get("columns") or []]
        offset = unnest.args.get("offset")
        numbered = offset.name if isinstance(offset, exp.Identifier) else names.pop() if offset else ""
        lists = unnest.expressions
        names = names or ["unnest"]
        if len(names) != len(lists):
            raise self._query.error(f"expected a name for each of {len(lists)} lists, was {len(names)}", join)
        called = self._lists(lists, names, select)
        step = self.scope.step
        free = first_free(numbered_names(numbered), step.schema.names) if numbered else ""
        self.scope.step = building.unnested(step, list(called.values()), outer=is_outer, ordinality=free)
        columns = {numbered.lower(): free} if numbered else {}
        for name in names:  # the fields, if the element is a struct
            for column in self.scope.step.schema.names:
                if column == called[name] or column.startswith(f"{called[name]}."):
                    columns[name.lower() + column.removeprefix(called[name])] = column
        self.scope.tables[alias.this.name.lower()] = columns

    def _lists(self, lists: Sequence[exp.Expr], names: Sequence[str], select: exp.Select) -> dict[str, str]:
        """Add copies of the lists for UNNEST to expand, and return their columns; drop lists that nothing else uses."""
        schema = self.scope.step.schema
        has_star = any(True for _ in select.find_all(exp.Star))
        copied: dict[str, str] = {}
        outputs = []
        gone = set()
        for name, node in zip(names, lists, strict=True):
            value = self.scope.leaf(node)
            if value is None:
                raise self._query.error("expected a column of lists in UNNEST", node)
            copied[name] = first_free(numbered_names(name), [*schema.names, *copied.values()])
            outputs.append((copied[name], value))
            reads = sum(column.name.lower() == node.name.lower() for column in select.find_all(exp.Column))
            if reads == 1 and not has_star:
                gone.update(self.scope.find(node))  # type: ignore[arg-type]
        kept = [(column, column_of(schema, column)) for column in schema.names if column not in gone]
        text = ", ".join(column for column, _ in (*kept, *outputs))
        self.scope.step = building.projected(self.scope.step, [*kept, *outputs], text)
        return copied
