"""Re-evaluated views: queries are rewritten to read maps that have only the rows and columns that they need.

This module rewrites SELECT, set operations, WITH, and subqueries inside expressions. The module `expressions` rewrites
all other expressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
from sqlglot import exp

from runtime.compiler.aggregates import AGGREGATES
from runtime.compiler.describe import Describer
from runtime.compiler.expressions import EXPRESSIONS, Rewriter, Rules
from runtime.compiler.fixedpoint import Value, as_type, cast, wrap
from runtime.compiler.flow.blocks import free_columns
from runtime.compiler.lower import columns_leaf, conjuncts, lower
from runtime.compiler.maps import MapSet, all_of, column_keys, key_name, unique
from runtime.compiler.operands import NotIncremental, is_encodable
from runtime.compiler.parse import Query, group_keys, is_aggregate, tie_columns
from runtime.compiler.scope import FromTable, Reference, Scope
from runtime.compiler.types import BOOL, Type, common_type, types_of
from runtime.plan import Column, Expr, Input, Map, Reevaluated, Relation

__all__ = ["QueryRewriter", "reevaluated_view", "verify"]

_NEEDS_TOTAL_ORDER = (exp.RowNumber, exp.Ntile, exp.Lead, exp.Lag, exp.FirstValue, exp.LastValue, exp.NthValue)
_JOIN_SIDES = ("", "LEFT", "RIGHT", "FULL")
_RULES: Final[Rules] = {**AGGREGATES, **EXPRESSIONS}
_JOIN_KINDS = ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")


@dataclass(slots=True)
class Output:
    """Rewritten query and its columns."""

    sql: exp.Query
    """Query in which every integer whose type is wide is HUGEINT."""
    names: list[str]
    """Names of the columns; no name occurs twice."""
    types: list[Type]
    """Types of the columns."""


class QueryRewriter:
    """Rewriter of one view's query; it collects the relations and columns that the query reads."""

    def __init__(self, query: Query, relations: dict[str, Relation], describer: Describer, *, zero: bool) -> None:
        self._query = query
        self._relations = relations
        self._tables: dict[str, Output] = {}
        self.references: list[Reference] = []
        self.describer = describer
        self.zero = zero
        """True if SUM of nothing is 0."""
        self.floats: dict[str, None] = {}
        """Operations whose results are floats, in the order of the query, for `explain`."""

    def rewrite(self, node: exp.Expr, parent: Scope | None = None) -> Output:
        """Rewrite a SELECT or a set operation, with or without brackets."""
        if isinstance(node, exp.Subquery):
            if any(node.args.get(name) for name in ("order", "limit", "offset")):
                raise self._query.error("expected ORDER BY and LIMIT inside the brackets", node)
            return self.rewrite(node.this, parent)
        outside = dict(self._tables)
        withs = self._withs(node)
        if isinstance(node, exp.Select):
            output = self._select(node, parent)
        elif isinstance(node, exp.SetOperation):
            output = self._set_operation(node, parent)
        elif isinstance(node, exp.Table):
            raise self._query.error("expected a SELECT in brackets, was a join: write it without them", node)
        else:
            raise self._query.error(f"expected a SELECT, was {node.key.upper()}, which is not supported", node)
        if withs:
            output.sql.set("with_", exp.With(expressions=withs))
        self._tables = outside
        return output

    # --- subqueries of expressions

    def scalar(self, node: exp.Expr, scope: Scope) -> Value:
        """Rewrite a subquery with one column as one value, which is NULL if the subquery returns no row."""
        output = self._one_column(node, scope)
        select = node.unnest()
        whole = isinstance(select, exp.Select) and not any(
            select.args.get(name) for name in ("group", "having", "limit", "offset", "qualify")
        )
        always = whole and any(is_aggregate(part) for part in select.expressions)
        kind = output.types[0].with_null(output.types[0].nullable or not always)
        return Value(exp.Subquery(this=output.sql), kind)

    def member(self, node: exp.In, values: Sequence[Value], scope: Scope) -> Value:
        """Rewrite ``value IN (SELECT …)`` and ``(value, …) IN (SELECT …)``; compared values get one type and scale."""
        query = node.args["query"]
        if len(values) > 1 and (outside := free_columns(query)):
            raise self._query.error("expected a SELECT that does not depend on the query around it after (…, …) IN: "
                                    "write EXISTS (SELECT … WHERE x = a AND y = b)", outside[0])  # fmt: skip
        output = self.rewrite(query, scope)
        if len(output.types) != len(values):
            columns = "one column" if len(values) == 1 else f"{len(values)} columns"
            raise self._query.error(f"expected a SELECT of {columns}, was of {len(output.types)}", query)
        targets = []
        for value, kind in zip(values, output.types, strict=True):
            target = common_type((value.type, kind))
            if target is None:
                raise self._query.error(f"expected a SELECT of {value.type}, was of {kind}", node)
            targets.append(target)
        parts = [as_type(value, target) for value, target in zip(values, targets, strict=True)]
        row = wrap(parts[0]) if len(parts) == 1 else exp.Tuple(expressions=parts)
        sql = exp.In(this=row, query=exp.Subquery(this=_coerced(output, targets)))
        return Value(sql, BOOL.with_null(any(target.nullable for target in targets)))

    def exists(self, node: exp.Exists, scope: Scope) -> Value:
        """Rewrite ``EXISTS (SELECT …)``."""
        return Value(exp.Exists(this=self.rewrite(node.this, scope).sql), BOOL)

    def _expressions(self, scope: Scope) -> Rewriter:
        return Rewriter(self, scope, _RULES)

    def _one_column(self, node: exp.Expr, scope: Scope) -> Output:
        output = self.rewrite(node, scope)
        if len(output.types) != 1:
            raise self._query.error(f"expected a SELECT of one column, was of {len(output.types)}", node)
        return output

    # --- queries

    def _withs(self, node: exp.Expr) -> list[exp.CTE]:
        clause = node.args.get("with_")
        if clause is None:
            return []
        if clause.args.get("recursive"):
            raise self._query.error("WITH RECURSIVE is not supported", clause)
        done = []
        for table in clause.expressions:
            output = self.rewrite(table.this)
            self._tables[table.alias] = output
            alias = exp.TableAlias(this=exp.to_identifier(table.alias, quoted=True))
            done.append(exp.CTE(this=output.sql, alias=alias))
        return done

    def _set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Output:
        if node.args.get("by_name"):
            raise self._query.error("BY NAME is not supported", node)
        left, right = self.rewrite(node.left, parent), self.rewrite(node.right, parent)
        if len(left.types) != len(right.types):
            raise self._query.error(f"expected {len(left.types)} columns, was {len(right.types)}", node.right)
        targets = []
        for name, own, other in zip(left.names, left.types, right.types, strict=True):
            target = common_type((own, other))
            if target is None:
                raise self._query.error(f"expected one type for {name!r}, were {own} and {other}", node.right)
            targets.append(target)
        arms = [exp.Subquery(this=_coerced(arm, targets)) for arm in (left, right)]
        sql = type(node)(this=arms[0], expression=arms[1], distinct=node.args.get("distinct"))
        scope = Scope(self._query, parent, outputs=dict(zip(left.names, targets, strict=True)))
        self._order(node, sql, scope, len(targets))
        return Output(sql, left.names, targets)

    def _select(self, node: exp.Select, parent: Scope | None) -> Output:
        self._refuse_clauses(node)
        scope = Scope(self._query, parent)
        select = exp.Select()
        self._from(node, select, scope)
        group = self._group(node)
        scope.grouped = bool(group)
        where = node.args.get("where")
        if where is not None:
            rest = [self._expressions(scope).condition(part) for part in _push_down(where.this, scope)]
            if rest:
                select.set("where", exp.Where(this=exp.and_(*rest, copy=False)))
        keys = [self._group_key(key, scope) for key in group]
        if keys:
            select.set("group", exp.Group(expressions=keys))
        names, values = self._projections(node, scope)
        having, qualify = node.args.get("having"), node.args.get("qualify")
        if having is not None:
            select.set("having", exp.Having(this=self._expressions(scope).condition(having.this)))
        filters = [] if qualify is None else [self._expressions(scope).condition(qualify.this)]
        ties = keys or [
            exp.column(column.name.lower(), table=column.table, quoted=True) for column in tie_columns(node)
        ]
        _break_ties([*(value.sql for value in values), *filters], ties)
        if filters:
            select.set("qualify", exp.Qualify(this=filters[0]))
        select.set("expressions", [exp.alias_(value.sql, name, quoted=True, copy=False)
                                   for name, value in zip(names, values, strict=True)])  # fmt: skip
        if node.args.get("distinct") is not None:
            select.set("distinct", exp.Distinct())
        types = [value.type for value in values]
        scope.outputs = dict(zip(names, types, strict=True))
        self._order(node, select, scope, len(types))
        return Output(select, names, types)

    def _refuse_clauses(self, node: exp.Select) -> None:
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise self._query.error("DISTINCT ON is not supported: it depends on the order of rows", distinct)
        for name in ("windows", "laterals", "sample", "connect", "pivots", "kind", "into", "match"):
            if node.args.get(name):
                raise self._query.error(f"the clause {name.upper()} is not supported", node)

    def _projections(self, node: exp.Select, scope: Scope) -> tuple[list[str], list[Value]]:
        names: list[str] = []
        values = []
        for part in node.expressions:
            name = unique(part.alias_or_name.lower(), names)
            names.append(name)
            values.append(self._expressions(scope).rewrite(part.unalias()))
        return names, values

    def _group(self, node: exp.Select) -> list[exp.Expr]:
        group = node.args.get("group")
        if group is not None and group.args.get("totals"):
            raise self._query.error("WITH TOTALS is not supported: GROUP BY ROLLUP (…) is", group)
        return group_keys(node)

    def _group_key(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        value = self._expressions(scope).rewrite(node)
        return cast(value.sql, value.type.duckdb) if value.literal else value.sql  # a bare 1 would be a position

    # --- sources

    def _from(self, node: exp.Select, select: exp.Select, scope: Scope) -> None:
        start = node.args.get("from_")
        if start is None:
            return
        select.set("from_", exp.From(this=self._source(start.this, scope)))
        conditions = []
        joins = []
        for join in node.args.get("joins") or []:
            side, kind = (join.side or "").upper(), (join.kind or "").upper()
            if side not in _JOIN_SIDES or kind not in _JOIN_KINDS or join.args.get("method"):
                raise self._query.error(f"{f'{join.method} {side} {kind}'.strip()} JOIN is not supported", join)
            before = list(scope.sources.values())
            rewritten = exp.Join(this=self._source(join.this, scope), side=side or None, kind=kind or None)
            for source in scope.sources.values():
                source.optional |= side in (("RIGHT", "FULL") if source in before else ("LEFT", "FULL"))
            joins.append(rewritten)
            conditions.append((rewritten, join.args.get("on")))
        for rewritten, condition in conditions:
            if condition is not None:
                rewritten.set("on", self._expressions(scope).condition(condition))
        select.set("joins", joins)

    def _source(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        alias = node.alias_or_name
        if alias in scope.sources:
            raise self._query.error(f"expected names of tables once each, was {alias!r} again", node)
        shown = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        if any(node.args.get(name) for name in ("joins", "sample", "pivots", "laterals")):
            raise self._query.error("expected a plain table or subquery", node)
        if not isinstance(node, (exp.Subquery, exp.Table)):
            raise self._query.error(f"expected a relation or a subquery, was {node.key.upper()}", node)
        table = exp.Table(this=exp.to_identifier(node.name, quoted=True), alias=shown)
        if isinstance(node, exp.Subquery) or node.name in self._tables:
            is_inline = isinstance(node, exp.Subquery)
            output = self.rewrite(node.this, scope.parent) if is_inline else self._tables[node.name]
            scope.sources[alias] = FromTable(alias, dict(zip(output.names, output.types, strict=True)))
            return exp.Subquery(this=output.sql, alias=shown) if is_inline else table
        relation = self._relations[node.name.lower()]
        reference = Reference(relation, table)
        self.references.append(reference)
        scope.sources[alias] = FromTable(alias, types_of(relation), reference)
        return table

    # --- order

    def _order(self, node: exp.Query, target: exp.Query, scope: Scope, columns: int) -> None:
        """Rewrite ORDER BY with LIMIT and OFFSET; all columns become criteria, so that the result is determined."""
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return
        for clause in (limit, offset):
            if clause is not None and not (type(clause) in (exp.Limit, exp.Offset)
                                           and isinstance(clause.expression, exp.Literal)):  # fmt: skip
                raise self._query.error("expected a number of rows in LIMIT and OFFSET", clause)
        order = node.args.get("order")
        terms: list[exp.Expr] = []
        for part in order.expressions if order is not None else []:
            if (hidden := _hidden_part(part.this, node)) is not None:
                raise self._query.error("expected SELECT DISTINCT … LIMIT in the order of what is selected, as other "
                                        "values differ between the rows that become one", hidden)  # fmt: skip
            term = part.copy()
            if not isinstance(part.this, exp.Literal):
                term.set("this", self._expressions(scope).rewrite(part.this).sql)
            terms.append(term)
        terms += [exp.Ordered(this=exp.Literal.number(number), nulls_first=False) for number in range(1, columns + 1)]
        target.set("order", exp.Order(expressions=terms))
        target.set("limit", None if limit is None else limit.copy())
        target.set("offset", None if offset is None else offset.copy())


def _hidden_part(criterion: exp.Expr, node: exp.Query) -> exp.Expr | None:
    """Return the first part of a criterion of SELECT DISTINCT that does not follow from the selected columns."""
    if not isinstance(node, exp.Select) or node.args.get("distinct") is None:
        return None
    selected = {part.unalias().sql() for part in node.expressions}
    for part in criterion.walk(prune=lambda part: part.sql() in selected):
        is_value = (isinstance(part, exp.Column) and part.table) or isinstance(part, (exp.AggFunc, exp.Window))
        if is_value and part.sql() not in selected:
            return part
    return None


def _push_down(where: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """Move conditions to the filters of a relation if its map can apply them; return the other conditions."""
    rest = []
    for part in conjuncts(where):
        source = _only_source(part, scope)
        try:
            test = None if source is None else lower(part, columns_leaf(source.columns))
        except NotIncremental:
            test = None
        is_for_map = test is not None and test.type.kind == "bool" and is_encodable(test.expr)
        if source is None or source.reference is None or test is None or not is_for_map:
            rest.append(part)
        else:
            source.reference.filters.append(test.expr)
    return rest


def _only_source(node: exp.Expr, scope: Scope) -> FromTable | None:
    """Return the only source that a condition reads, if a map can apply it; else None."""
    if node.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return None
    owners = [scope.sources.get(column.table) for column in node.find_all(exp.Column)]
    first = owners[0] if owners else None
    if first is None or first.reference is None or first.optional or any(owner is not first for owner in owners):
        return None
    return first


def _coerced(output: Output, targets: list[Type]) -> exp.Query:
    """Return the query with its columns converted to these types."""
    columns = [Value(exp.column(exp.to_identifier(name, quoted=True)), kind)
               for name, kind in zip(output.names, output.types, strict=True)]  # fmt: skip
    parts = [as_type(value, target) for value, target in zip(columns, targets, strict=True)]
    if all(part is value.sql for part, value in zip(parts, columns, strict=True)):
        return output.sql
    select = exp.Select(expressions=[exp.alias_(part, name, quoted=True, copy=False)
                                     for part, name in zip(parts, output.names, strict=True)])  # fmt: skip
    alias = exp.TableAlias(this=exp.to_identifier("arm", quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=output.sql, alias=alias)))
    return select


def _break_ties(parts: list[exp.Expr], columns: list[exp.Expr]) -> None:
    """Add these columns as the last criteria of windows whose answer depends on the order of equal rows."""
    for part in parts:
        for window in part.find_all(exp.Window):
            spec = window.args.get("spec")
            by_rows = spec is not None and spec.args.get("kind") == "ROWS"
            call = window.this.this if isinstance(window.this, (exp.IgnoreNulls, exp.RespectNulls)) else window.this
            if window.find_ancestor(exp.Select) is not None or not (by_rows or isinstance(call, _NEEDS_TOTAL_ORDER)):
                continue
            order = window.args.get("order") or exp.Order(expressions=[])
            order.set("expressions", [*order.expressions, *(exp.Ordered(this=column.copy(), nulls_first=False)
                                                            for column in columns)])  # fmt: skip
            window.set("order", order)


def reevaluated_view(
    output: Output, references: Sequence[Reference], names: Sequence[str], maps: MapSet
) -> Reevaluated:
    """Return the view's body, and add its maps; references to one relation with the same filter read one table."""
    tables: dict[tuple[str, tuple[Expr, ...]], list[Reference]] = {}
    for reference in references:
        tables.setdefault((reference.relation.name, tuple(reference.filters)), []).append(reference)
    inputs: list[Input] = []
    copies: Counter[str] = Counter()
    for (relation, filters), same in tables.items():
        copies[relation] += 1
        name = _free(f"{relation}_{copies[relation]}" if copies[relation] > 1 else relation, inputs, references)
        needed = set().union(*(reference.needed for reference in same))
        keys = column_keys(same[0].relation, needed)
        inputs.append(Input(name, maps.add(relation, all_of(filters), keys)))
        for reference in same:
            _name_table(reference, name, needed)
    return Reevaluated(tuple(inputs), final_query(output, names).sql("duckdb", pretty=True))


def _free(name: str, inputs: Sequence[Input], references: Sequence[Reference]) -> str:
    """Return the name, followed by underscores if a table or another relation has it already."""
    taken = {known.table for known in inputs} | {reference.relation.name for reference in references} - {name}
    while name in taken:
        name += "_"
    return name


def _name_table(reference: Reference, name: str, needed: set[str]) -> None:
    """Write the name of the table into the query; columns whose keys have other names in the map are renamed."""
    reference.table.set("this", exp.to_identifier(name, quoted=True))
    renamed = sorted(column for column in needed if key_name(column) != column)
    if renamed:
        alias = reference.table.args["alias"].copy()
        parts = [
            exp.alias_(exp.column(key_name(column), quoted=True), column, quoted=True) for column in sorted(needed)
        ]
        inner = exp.Select(expressions=parts)
        inner.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(name, quoted=True))))
        reference.table.replace(exp.Subquery(this=inner, alias=alias))


def final_query(output: Output, names: Sequence[str]) -> exp.Select:
    """Return the query with its columns renamed and cast to output types.

    Integers of a wide type are cast to DECIMAL(38,0); the cast fails for values with more digits.
    """
    parts = []
    for inner, name, kind in zip(output.names, names, output.types, strict=True):
        column = exp.column(inner, table="result", quoted=True)
        parts.append(exp.alias_(cast(column, _result_type(kind)), name, quoted=True))
    select = exp.Select(expressions=parts)
    alias = exp.TableAlias(this=exp.to_identifier("result", quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=output.sql, alias=alias)))
    return select


def _result_type(kind: Type) -> str:
    """Return DuckDB's name of an output type; an untyped NULL is an integer."""
    return "DECIMAL(38,0)" if kind.wide else Type.of(kind.column("")).duckdb


def verify(
    body: Reevaluated, types: Sequence[Type], names: Sequence[str], maps: Sequence[Map], describer: Describer
) -> None:
    """Run the query over empty tables; raise `RuntimeError` if its columns differ from the inferred columns."""
    tables = {
        part.table: [(key.name, Type.of(Column(key.name, key.type)).duckdb) for key in maps[part.map].keys]
        for part in body.inputs
    }
    expected = [(name, _result_type(kind)) for name, kind in zip(names, types, strict=True)]
    try:
        actual = describer.columns_over(body.query, tables)
    except duckdb.Error as error:
        raise RuntimeError(f"DuckDB refuses the query over exact integers: {error}\n{body.query}") from error
    if actual != expected:
        raise RuntimeError(f"expected the columns {expected} over exact integers, was {actual}\n{body.query}")
