"""Plans from SQL: SELECT over named streams, as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from runtime.compiler.lower import Leaf
from runtime.compiler.operands import Lowered, NotIncremental, alike
from runtime.compiler.parse import Query
from runtime.compiler.script import NamedSelect
from runtime.engine.operators.columns import type_of
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.joins.lookup import Index
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.building import Bounds
from runtime.engine.operators.plans.expressions import column_of, condition, lowered
from runtime.engine.operators.plans.grouping import aggregates_of, grouped
from runtime.engine.operators.plans.sqlsources import Sources
from runtime.engine.operators.plans.steps import Step
from runtime.engine.operators.plans.stream import Stream
from runtime.plan import Col

__all__ = ["plan_sql"]

_CLAUSES = frozenset(
    ("expressions", "from_", "joins", "where", "group", "having", "distinct", "limit", "offset", "with_", "order")
)
"""What a SELECT may have; ORDER BY is refused with a reason of its own."""


def plan_sql(sql: str, tables: Mapping[str, Stream], indexes: Mapping[str, Index] | None = None) -> Stream:
    """The plan of a query over these streams, by their names in it.

    SELECT with expressions, WHERE, GROUP BY, HAVING, DISTINCT, JOIN (inner, LEFT, RIGHT, FULL, SEMI, ANTI) on
    equalities, ASOF JOIN, UNNEST as a lateral join, ROW_NUMBER() OVER (), UNION ALL, LIMIT, WITH and subqueries in
    FROM. A table that is an index is looked up in. Aggregates and joins are of an epoch; LIMIT and ROW_NUMBER count
    over all of them. Raises `SqlError` with the position for what is not SQL, and for what is not supported.
    """
    query = Query(NamedSelect("plan", sql))
    known = {name.lower(): stream.step for name, stream in tables.items()}
    indexes = {name.lower(): index for name, index in (indexes or {}).items()}
    return Stream(_Planner(query, known, indexes).query(query.tree))


class _Planner:
    """Plans the parts of one query."""

    def __init__(self, query: Query, tables: Mapping[str, Step], indexes: Mapping[str, Index]) -> None:
        self._query = query
        self._tables = dict(tables)
        self._indexes = indexes
        self._bounds = Bounds()

    def query(self, node: exp.Expr) -> Step:
        """A query of any kind."""
        before = dict(self._tables)
        with_ = node.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise self._query.error("WITH RECURSIVE is not supported", with_)
        for table in [] if with_ is None else with_.expressions:
            self._tables[table.alias.lower()] = self.query(table.this)
        try:
            if isinstance(node, exp.Subquery):
                step = self.query(node.this)
            elif isinstance(node, exp.Union):
                step = self._union(node)
            elif isinstance(node, exp.Select):
                step = self._select(node)
            else:
                raise self._query.error(f"{node.key.upper()} is not supported: expected SELECT or UNION ALL", node)
            return self._limited(node, step)
        except PlanError as error:
            raise self._query.error(str(error), node) from None
        finally:
            self._tables = before

    def _union(self, node: exp.Union) -> Step:
        if node.args.get("distinct") or node.args.get("by_name"):
            raise self._query.error("UNION without ALL, and BY NAME, are not supported: expected UNION ALL", node)
        arms = [self.query(arm) for arm in (node.left, node.right)]
        if len({len(arm.schema) for arm in arms}) > 1:
            raise self._query.error("expected as many columns in both parts of UNION ALL", node)
        return building.united(self._alike(arms, node), self._bounds)

    def _alike(self, arms: Sequence[Step], node: exp.Expr) -> list[Step]:
        """Both parts with columns of the same types."""
        outputs: tuple[list[tuple[str, Lowered]], ...] = ([], [])
        for name, *names in zip(arms[0].schema.names, *(arm.schema.names for arm in arms), strict=True):
            values = [column_of(arm.schema, own) for arm, own in zip(arms, names, strict=True)]
            for output, value in zip(outputs, self._meeting(values, name, node), strict=True):
                output.append((name, value))
        return [_brought_to(arm, output, self._bounds) for arm, output in zip(arms, outputs, strict=True)]

    def _meeting(self, values: Sequence[Lowered], name: str, node: exp.Expr) -> Sequence[Lowered]:
        if values[0].type.kind == "other":  # lists, which the union compares
            return values
        try:
            target, exprs = alike(values)
        except NotIncremental:
            raise self._query.error(f"expected one type in both parts of UNION ALL for {name}, were {values[0].type} "
                                    f"and {values[1].type}", node) from None  # fmt: skip
        return [Lowered(expr, target) for expr in exprs]

    def _limited(self, node: exp.Expr, step: Step) -> Step:
        if node.args.get("order") is not None:
            raise self._query.error("ORDER BY is not supported: a stream has no end at which to sort it", node)
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return step
        numbers = []
        for clause in (limit, offset):
            value = None if clause is None else clause.expression
            if clause is not None and not (isinstance(value, exp.Literal) and value.is_int):
                raise self._query.error("LIMIT and OFFSET are whole numbers here", clause)
            numbers.append(None if value is None else int(value.name))
        count = 2**62 if numbers[0] is None else numbers[0]
        return building.limited(step, count, numbers[1] or 0, self._bounds)

    def _select(self, node: exp.Select) -> Step:
        for name, clause in node.args.items():
            if clause and name not in _CLAUSES:
                raise self._query.error(f"{name.rstrip('_').upper()} is not supported", node)
        sources = Sources(self._query, self.query, self._tables, self._indexes, self._bounds)
        sources.read(node)
        step = sources.scope.step
        for part in sources.where:
            expr = condition(part, sources.scope.leaf).expr
            step = building.filtered(step, expr, part.sql("duckdb"), self._bounds)
        outputs = self._outputs(node, sources)
        numbers = [name for name, part in outputs if _is_row_number(part)]
        if numbers:
            step, outputs = self._numbered(step, outputs, numbers)
        having = node.args.get("having")
        group = node.args.get("group")
        nodes = [part for _, part in outputs] + ([] if having is None else [having.this])
        if group is not None or having is not None or any(True for _ in aggregates_of(nodes)):
            step = self._grouped(step, sources, outputs, group, None if having is None else having.this)
        else:
            leaf = sources.scope.leaf if not numbers else _with_columns(sources.scope.leaf, step, numbers)
            values = [(name, lowered(part, leaf)) for name, part in outputs]
            text = ", ".join(part.sql("duckdb") for part in node.expressions)
            step = building.projected(step, values, text, self._bounds)
        return self._distinct(node, step)

    def _outputs(self, node: exp.Select, sources: Sources) -> list[tuple[str, exp.Expr]]:
        """Names and expressions, stars expanded."""
        found: list[tuple[str, exp.Expr]] = []
        for part in node.expressions:
            star = part if isinstance(part, exp.Star) else part.this if isinstance(part, exp.Column) else None
            if isinstance(star, exp.Star):
                if star.args.get("except_") or star.args.get("replace"):
                    raise self._query.error("* EXCLUDE and REPLACE are not supported", part)
                found += sources.star(part.table if isinstance(part, exp.Column) else "")
                continue
            name = part.alias_or_name if isinstance(part, (exp.Alias, exp.Column)) else f"column_{len(found) + 1}"
            found.append((name.lower(), part.unalias()))
        taken: list[str] = []
        for place, (name, part) in enumerate(found):
            free, number = name, 1
            while free in taken:
                free, number = f"{name}_{number}", number + 1
            taken.append(free)
            found[place] = (free, part)
        return found

    def _grouped(
        self,
        step: Step,
        sources: Sources,
        outputs: Sequence[tuple[str, exp.Expr]],
        group: exp.Group | None,
        having: exp.Expr | None,
    ) -> Step:
        clauses = [] if group is None else list(group.expressions)
        if group is not None and any(value for name, value in group.args.items() if name != "expressions"):
            raise self._query.error("ROLLUP, CUBE, GROUPING SETS and GROUP BY ALL are not supported", group)
        keys = []
        aliases = dict(outputs)
        for number, clause in enumerate(clauses, 1):
            part = clause
            if isinstance(clause, exp.Literal) and clause.is_int and 1 <= int(clause.name) <= len(outputs):
                part = outputs[int(clause.name) - 1][1]
            elif isinstance(clause, exp.Column) and not clause.table and not sources.scope.find(clause):
                part = aliases.get(clause.name, clause)
            keys.append((part.name or f"key_{number}", part))
        by = ", ".join(part.sql("duckdb") for _, part in keys)
        made = ", ".join(
            f"{part.sql('duckdb')} AS {name}" for name, part in outputs if not isinstance(part, exp.Column)
        )
        label = (f" by {by}" if by else "") + (f": {made}" if made else "")
        return grouped(step, keys, outputs, sources.scope.leaf, self._bounds, having=having, label=label)

    def _numbered(
        self, step: Step, outputs: list[tuple[str, exp.Expr]], numbers: Sequence[str]
    ) -> tuple[Step, list[tuple[str, exp.Expr]]]:
        for name in numbers:
            step = building.numbered(step, name, self._bounds)
        return step, [(name, exp.column(name) if name in numbers else part) for name, part in outputs]

    def _distinct(self, node: exp.Select, step: Step) -> Step:
        distinct = node.args.get("distinct")
        if distinct is None:
            return step
        if distinct.args.get("on") is not None:
            raise self._query.error("DISTINCT ON is not supported", node)
        keys = [(name, exp.column(name)) for name in step.schema.names]

        def leaf(part: exp.Expr) -> Lowered | None:
            return column_of(step.schema, part.name) if isinstance(part, exp.Column) else None

        return grouped(step, keys, keys, leaf, self._bounds, label=" of distinct rows")


def _brought_to(step: Step, outputs: Sequence[tuple[str, Lowered]], bounds: Bounds) -> Step:
    """The step with these columns, itself where it has them."""
    for (_, value), field in zip(outputs, step.schema, strict=True):
        if value.expr != Col(field.name) or value.type.with_null(False) != type_of(field).with_null(False):
            return building.projected(step, outputs, "as the other part of the union", bounds)
    return step


def _is_row_number(node: exp.Expr) -> bool:
    """Whether this is ROW_NUMBER() OVER (), of rows as they come."""
    if not isinstance(node, exp.Window) or not isinstance(node.this, exp.RowNumber):
        return False
    return not (node.args.get("partition_by") or node.args.get("order"))


def _with_columns(leaf: Leaf, step: Step, names: Sequence[str]) -> Leaf:
    """Reads these columns of the rows too."""

    def read(node: exp.Expr) -> Lowered | None:
        if isinstance(node, exp.Column) and not node.table and node.name in names:
            return column_of(step.schema, node.name)
        return leaf(node)

    return read
