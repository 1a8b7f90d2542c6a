"""Planner, which turns a SELECT over streams and tables into steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp

from runtime.compiler.lower import conjuncts
from runtime.compiler.operands import Lowered, NotIncremental, alike
from runtime.compiler.parse import Query
from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import type_of
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.expressions import (
    WindowCall,
    about,
    column_of,
    condition,
    first_free,
    lowered,
    numbered_names,
    span_of,
    window_call,
)
from runtime.engine.operators.plans.grouping import (
    WINDOW_END,
    WINDOW_START,
    Grouping,
    aggregates_of,
    grouped,
    window_bound,
)
from runtime.engine.operators.plans.sqlscope import HIDDEN, column_names
from runtime.engine.operators.plans.sqlsources import Sources
from runtime.engine.operators.plans.steps import Step
from runtime.plan import Col

__all__ = ["plan_query"]

_CLAUSES: Final = frozenset(
    ("expressions", "from_", "joins", "where", "group", "having", "distinct", "limit", "offset", "with_", "order",
     "qualify", "kind")
)  # fmt: skip
"""Clauses that a SELECT may have; ORDER BY is refused with a reason of its own."""
_WINDOWS: Final = "TUMBLE(t, INTERVAL '1' SECOND), HOP(t, slide, size) or SESSION(t, gap)"
_MOST_LIMIT: Final = 2**62
"""Greatest number of rows in LIMIT and OFFSET, and the limit of an OFFSET without LIMIT."""
_MOST_WINDOWS: Final = 10_000
"""Greatest number of hopping windows that may contain a row: each of them is a row for the aggregation."""
_STARTS: Final = frozenset(("window_start", "tumble_start", "hop_start", "session_start"))
_ENDS: Final = frozenset(("window_end", "tumble_end", "hop_end", "session_end"))


def plan_query(query: Query, relations: Mapping[str, Step]) -> Step:
    """Return the plan of a query over these relations, by their names; raise `SqlError` with a position.

    A query may have SELECT with expressions, WHERE, GROUP BY over a window of event time, HAVING, DISTINCT, JOIN
    (inner, LEFT, RIGHT, FULL, SEMI, ANTI) of streams on equal times, ASOF JOIN, JOIN with a table, UNNEST as a lateral
    join, LAG, ROW_NUMBER() = 1 in QUALIFY, ROW_NUMBER() OVER (), UNION ALL, LIMIT, WITH and subqueries in FROM. The
    rows of the result are in order of time.
    """
    return building.in_time_order(_Planner(query, relations).query(query.tree))


class _Planner:
    """Planner of the parts of one query."""

    def __init__(self, query: Query, relations: Mapping[str, Step]) -> None:
        self._query = query
        self._tables = dict(relations)

    def query(self, node: exp.Expr) -> Step:
        """Return the step of a query of any kind."""
        before = dict(self._tables)
        with_ = node.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise self._query.error("WITH RECURSIVE is not supported", with_)
        for table in [] if with_ is None else with_.expressions:
            self._tables[table.alias.lower()] = self._named(self.query(table.this), table)
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

    def _named(self, step: Step, table: exp.Expr) -> Step:
        """Return the step of a query of WITH, with the column names of its alias."""
        names = column_names(self._query, step, table)
        if names == [name.lower() for name in step.schema.names]:
            return step
        outputs = [(name, column_of(step.schema, own)) for name, own in zip(names, step.schema.names, strict=True)]
        return building.projected(step, outputs, ", ".join(names))

    def _union(self, node: exp.Union) -> Step:
        if node.args.get("distinct") or node.args.get("by_name"):
            raise self._query.error("UNION without ALL, and BY NAME, are not supported: write UNION ALL, and SELECT "
                                    "DISTINCT around it", node)  # fmt: skip
        arms = [self.query(arm) for arm in (node.left, node.right)]
        if len({len(arm.schema) for arm in arms}) > 1:
            raise self._query.error("expected as many columns in both parts of UNION ALL", node)
        return building.united(self._alike(arms, node))

    def _alike(self, arms: Sequence[Step], node: exp.Expr) -> list[Step]:
        """Return both arms of a union with columns of the same types."""
        outputs: tuple[list[tuple[str, Lowered]], ...] = ([], [])
        for name, *names in zip(arms[0].schema.names, *(arm.schema.names for arm in arms), strict=True):
            values = [column_of(arm.schema, own) for arm, own in zip(arms, names, strict=True)]
            for output, value in zip(outputs, self._meeting(values, name, node), strict=True):
                output.append((name, value))
        return [_brought_to(arm, output) for arm, output in zip(arms, outputs, strict=True)]

    def _meeting(self, values: Sequence[Lowered], name: str, node: exp.Expr) -> Sequence[Lowered]:
        try:
            target, exprs = alike(values)
        except NotIncremental:
            raise self._query.error(f"expected one type in both parts of UNION ALL for {name}, were {values[0].type} "
                                    f"and {values[1].type}", node) from None  # fmt: skip
        return [Lowered(expr, target) for expr in exprs]

    def _limited(self, node: exp.Expr, step: Step) -> Step:
        if node.args.get("order") is not None:
            raise self._query.error("ORDER BY is not supported: a stream has no end at which to sort it, and its rows "
                                    "are in order of time; leave it out, or sort in a view that reads the stream",
                                    node.args["order"])  # fmt: skip
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return step
        numbers = []
        for clause in (limit, offset):
            value = None if clause is None else clause.expression
            if clause is not None and not (isinstance(value, exp.Literal) and value.is_int):
                raise self._query.error("expected a whole number in LIMIT and OFFSET", clause)
            if value is not None and int(value.name) > _MOST_LIMIT:
                raise self._query.error(f"expected at most {_MOST_LIMIT} rows in LIMIT and OFFSET, was {value.name}",
                                        clause)  # fmt: skip
            numbers.append(None if value is None else int(value.name))
        count = _MOST_LIMIT if numbers[0] is None else numbers[0]
        return building.limited(step, count, numbers[1] or 0)

    def _select(self, node: exp.Select) -> Step:
        for name, clause in node.args.items():
            if clause and name not in _CLAUSES:
                raise self._query.error(f"{name.rstrip('_').upper()} is not supported in a stream",
                                        clause if isinstance(clause, exp.Expr) else node)  # fmt: skip
        for part in node.expressions + [
            node.args[name] for name in ("where", "having", "qualify") if node.args.get(name)
        ]:
            inner = part.find(exp.Query)
            if inner is not None:
                raise self._query.error("expected no subquery here: a row of a stream is joined with rows of its own "
                                        "time; write JOIN, ASOF JOIN or SEMI JOIN in FROM", inner)  # fmt: skip
        sources = Sources(self._query, self.query, self._tables)
        sources.read(node)
        for part in sources.where:
            with about(self._query, part):
                expr = condition(part, sources.scope.leaf).expr
            sources.scope.step = building.filtered(sources.scope.step, expr, part.sql("duckdb"))
        return _Selection(self._query, sources).planned(node)


class _Selection:
    """Planner of one SELECT over its sources."""

    def __init__(self, query: Query, sources: Sources) -> None:
        self._query = query
        self._sources = sources
        self._scope = sources.scope
        self._scope.tables.setdefault(HIDDEN, {})
        self._known_before: dict[tuple[str, tuple[str, ...], str], str] = {}
        """Name of the column with the previous row's value of another column, by time, keys and that other column."""

    def planned(self, node: exp.Select) -> Step:
        """Return the step with the rows that the SELECT yields."""
        node = node.copy()
        self._check_windows(node)
        clause = node.args.get("qualify")
        roots = [] if clause is None else [exp.Paren(this=part) for part in conjuncts(clause.this)]
        self._with_previous(node, roots)  # with roots, because a part that is a LAG is itself replaced
        qualify = [root.this for root in roots]
        firsts = [part for part in qualify if self._deduplicated(part)]
        if len(firsts) > 1:  # the second would apply to the rows that the first keeps
            raise self._query.error("expected one ROW_NUMBER() = 1 in QUALIFY, were more: write a subquery in FROM "
                                    "with one of them", firsts[1])  # fmt: skip
        qualify = [part for part in qualify if part not in firsts]
        for part in qualify:
            with about(self._query, part):
                expr = condition(part, self._scope.leaf).expr
            self._scope.step = building.filtered(self._scope.step, expr, part.sql("duckdb"))
        outputs = self._outputs(node)
        having, group = node.args.get("having"), node.args.get("group")
        nodes = [part for _, part in outputs] + ([] if having is None else [having.this])
        if group is not None or having is not None or _has_aggregate(nodes):
            step = self._grouped(node, outputs)
        else:
            step = self._projected(node, outputs)
        return self._distinct(node, step)

    def _check_windows(self, node: exp.Select) -> None:
        """Refuse window functions and QUALIFY that SQL would apply to other rows than the plan does."""
        qualify = node.args.get("qualify")
        parts = [*node.expressions, *([] if qualify is None else [qualify])]
        windows = [window for part in parts for window in part.find_all(exp.Window)]
        if (node.args.get("group") or node.args.get("having")) and (qualify is not None or windows):
            raise self._query.error("expected no window function and no QUALIFY beside GROUP BY, where SQL applies "
                                    "them to the groups: write a subquery in FROM", qualify or windows[0])  # fmt: skip
        numbers = [part for part in node.expressions if _is_row_number(part.unalias())]
        if qualify is not None and numbers:
            raise self._query.error("expected no ROW_NUMBER() OVER () beside QUALIFY, as SQL numbers all rows before "
                                    "it: write a subquery in FROM", numbers[0])  # fmt: skip

    def _projected(self, node: exp.Select, outputs: list[tuple[str, exp.Expr]]) -> Step:
        for place, (name, part) in enumerate(outputs):
            if _is_row_number(part):
                hidden = self._hidden_name("row number")
                with about(self._query, part):
                    self._scope.step = building.numbered(self._scope.step, hidden)
                outputs[place] = (name, self._hidden(hidden))
        values = []
        for name, part in outputs:
            window = part.find(exp.Window)
            if window is not None:
                raise self._query.error(f"expected LAG(x) OVER (PARTITION BY … ORDER BY time) or ROW_NUMBER() OVER (), "
                                        f"was {window.sql('duckdb')}", window)  # fmt: skip
            with about(self._query, part):
                values.append((name, lowered(part, self._scope.leaf)))
        text = ", ".join(part.sql("duckdb") for part in node.expressions)
        return building.projected(self._scope.step, values, text)

    def _outputs(self, node: exp.Select) -> list[tuple[str, exp.Expr]]:
        """Return the names and expressions of the outputs, with stars expanded."""
        outputs: list[tuple[str, exp.Expr]] = []
        for part in node.expressions:
            star = part if isinstance(part, exp.Star) else part.this if isinstance(part, exp.Column) else None
            if isinstance(star, exp.Star):
                if star.args.get("except_") or star.args.get("replace"):
                    raise self._query.error("* EXCLUDE and REPLACE are not supported: name the columns", part)
                outputs += self._sources.star(part.table if isinstance(part, exp.Column) else "")
                continue
            name = part.alias_or_name if isinstance(part, (exp.Alias, exp.Column)) else f"column_{len(outputs) + 1}"
            outputs.append((name.lower(), part.unalias()))
        taken: list[str] = []
        for name, _ in outputs:
            taken.append(first_free(numbered_names(name), taken))
        return [(name, part) for name, (_, part) in zip(taken, outputs, strict=True)]

    # Rows before, and duplicates

    def _hidden_name(self, what: str) -> str:
        return first_free((f"{what} {number}" for number in itertools.count(1)), self._scope.step.schema.names)

    def _hidden(self, name: str) -> exp.Column:
        """Return a column that SQL text cannot name."""
        self._scope.tables[HIDDEN][name] = name
        return exp.column(name, table=HIDDEN, quoted=True)

    def _column(self, node: exp.Expr) -> str:
        """Return the name of the column with this value, which is added if it is missing."""
        with about(self._query, node):
            return self._scope.with_value(lowered(node, self._scope.leaf))

    def _time_of(self, node: exp.Window) -> str:
        """Return the name of the time column by which OVER orders."""
        order = node.args.get("order")
        parts = [] if order is None else order.expressions
        if len(parts) != 1 or parts[0].args.get("desc") or not isinstance(parts[0].this, exp.Column):
            raise self._query.error("expected OVER (PARTITION BY … ORDER BY time), ascending: rows of a stream are in "
                                    "order of time", node)  # fmt: skip
        name = self._column(parts[0].this)
        if name not in dict(self._scope.step.times):
            raise self._query.error(f"expected ORDER BY an event time, was {parts[0].this.sql('duckdb')}", parts[0])
        return name

    def _with_previous(self, node: exp.Select, qualify: Sequence[exp.Expr]) -> None:
        """Replace LAG in the SELECT and in QUALIFY by columns that the plan computes."""
        for root in (*node.expressions, *qualify):
            for window in list(root.find_all(exp.Window)):
                if not isinstance(window.this, exp.Lag):
                    continue
                lag = window.this
                offset = lag.args.get("offset")
                if lag.args.get("default") is not None or not (offset is None or _is_one(offset)):
                    raise self._query.error("expected LAG(x), the value of the row before, without offset and default",
                                            window)  # fmt: skip
                hidden = self._previous(window, [lag.this])[0]
                window.replace(hidden)

    def _previous(self, window: exp.Window, values: Sequence[exp.Expr]) -> list[exp.Column]:
        time = self._time_of(window)
        keys = [self._column(part) for part in window.args.get("partition_by") or []]
        return self._before(window, time, keys, [self._column(value) for value in values])

    def _before(self, node: exp.Expr, time: str, keys: Sequence[str], columns: Sequence[str]) -> list[exp.Column]:
        """Return columns with the values of the previous row."""
        named: list[tuple[str, str]] = []
        for column in columns:
            if (time, tuple(keys), column) in self._known_before:
                continue
            taken = {*self._scope.step.schema.names, *(new for _, new in named)}
            new = first_free((f"previous {number}" for number in itertools.count()), taken)
            named.append((column, new))
            self._known_before[time, tuple(keys), column] = new
        if named:
            with about(self._query, node):
                self._scope.step = building.with_previous(self._scope.step, time, keys, named)
        return [self._hidden(self._known_before[time, tuple(keys), column]) for column in columns]

    def _deduplicated(self, node: exp.Expr) -> bool:
        """Apply a part of QUALIFY that is ROW_NUMBER() OVER (…) = 1, and return True.

        Return False for a part without a window function; raise `SqlError` for any other part.
        """
        window = node.find(exp.Window)
        if window is None:
            return False
        is_first = isinstance(node, (exp.EQ, exp.LTE)) and node.left is window and _is_one(node.right)
        if not is_first or not isinstance(window.this, exp.RowNumber):
            raise self._query.error("expected ROW_NUMBER() OVER (PARTITION BY … ORDER BY time) = 1, or a condition on "
                                    "LAG, in QUALIFY", node)  # fmt: skip
        time = self._time_of(window)
        lags = dict(self._scope.step.times)
        bound, span = "", 0
        keys = []
        for part in window.args.get("partition_by") or []:
            call = window_call(part, self._query)
            if call is not None:
                bound, span = self._deduplication_window(call, part)
                span += max(0, lags[self._column(call.time)] - lags[time])
                keys.append(bound)
            else:
                keys.append(self._column(part))
        if not bound:
            bound = next((key for key in keys if key in lags), "")
            span = 1 + max(0, lags.get(bound, 0) - lags[time])
        if not bound:
            raise self._query.error("expected a bound by time, so that keys need not be kept for ever: add the time, "
                                    "or TUMBLE(time, INTERVAL '1' HOUR), to PARTITION BY", window)  # fmt: skip
        with about(self._query, node):
            self._scope.step = building.deduplicated(self._scope.step, time, keys, bound, span)
        return True

    def _deduplication_window(self, call: WindowCall, node: exp.Expr) -> tuple[str, int]:
        if call.kind != "tumble":
            raise self._query.error(f"expected TUMBLE in PARTITION BY, was {call.kind.upper()}", node)
        time = self._window_time(call, node)
        size = span_of(call.spans[0], self._scope.step.schema.field(time).type, self._query, node)
        start = self._hidden_name("window")
        self._scope.step = building.in_windows(self._scope.step, time, start, size, size)
        self._hidden(start)
        return start, size

    def _distinct(self, node: exp.Select, step: Step) -> Step:
        distinct = node.args.get("distinct")
        if distinct is None:
            return step
        if distinct.args.get("on") is not None:
            raise self._query.error("DISTINCT ON is not supported: write QUALIFY ROW_NUMBER() OVER (PARTITION BY … "
                                    "ORDER BY time) = 1", node)  # fmt: skip
        if step.time is None:
            raise self._query.error("expected the time among the columns of SELECT DISTINCT, so that rows need not be "
                                    "kept for ever", node)  # fmt: skip
        time = step.time[0]
        return building.deduplicated(step, time, step.schema.names, time, 1)

    # Windows

    def _window_time(self, call: WindowCall, clause: exp.Expr) -> str:
        """Return the name of the time column of a window."""
        time = self._column(call.time)
        if time not in dict(self._scope.step.times):
            raise self._query.error(f"expected an event time in a window, was {call.time.sql('duckdb')}", clause)
        return time

    def _grouped(self, node: exp.Select, outputs: list[tuple[str, exp.Expr]]) -> Step:
        group, having = node.args.get("group"), node.args.get("having")
        condition_ = None if having is None else having.this
        if group is not None and any(value for name, value in group.args.items() if name != "expressions"):
            raise self._query.error("ROLLUP, CUBE, GROUPING SETS and GROUP BY ALL are not supported in a stream: write "
                                    "one stream for each grouping", group)  # fmt: skip
        calls, keys = self._keys([] if group is None else list(group.expressions), outputs)
        if len(calls) != 1:
            raise self._query.error(f"expected one window in GROUP BY, such as {_WINDOWS}, were {len(calls)}: without "
                                    f"one a group of a stream never ends; use a view for a result that keeps changing",
                                    group or node)  # fmt: skip
        ((clause, call),) = calls
        time = self._window_time(call, clause)
        kind = self._scope.step.schema.field(time).type
        spans = [span_of(span, kind, self._query, clause) for span in call.spans]
        names = [self._column(part) for _, part in keys]
        wholes = [part for _, part in outputs] + ([] if condition_ is None else [condition_])
        roots = [exp.Paren(this=part) for part in wholes]
        for root in roots:
            self._time_weighted(root, time, names)
        start = self._hidden_name("window")
        if call.kind == "session":
            with about(self._query, clause):
                self._scope.step = building.in_sessions(self._scope.step, time, start, names, spans[0])
        else:
            slide, size = spans[0], spans[-1]
            if slide > size:
                raise self._query.error("expected a slide of at most the size: HOP(time, slide, size)", clause)
            if -(-size // slide) > _MOST_WINDOWS:
                raise self._query.error(f"expected at most {_MOST_WINDOWS} windows over a row, were "
                                        f"{-(-size // slide)}: write a longer slide", clause)  # fmt: skip
            self._scope.step = building.in_windows(self._scope.step, time, start, slide, size)
        hidden = self._hidden(start)
        self._scope.tables[HIDDEN][WINDOW_START] = start
        for root in roots:
            _with_window_names(root, clause)
        parts = [root.this for root in roots]
        if condition_ is not None:
            condition_ = parts.pop()
        made = tuple((name, part) for (name, _), part in zip(outputs, parts, strict=True))
        by = ", ".join(part.sql("duckdb") for part in ([] if group is None else group.expressions))
        asked = ", ".join(
            f"{part.sql('duckdb')} AS {name}" for name, part in outputs if not isinstance(part, exp.Column)
        )
        grouping = Grouping(
            time=exp.column(time, table=HIDDEN, quoted=True), start=hidden, size=spans[-1],
            slide=0 if call.kind == "session" else spans[0], keys=tuple(keys), outputs=made, having=condition_,
            label=f" by {by}" + (f": {asked}" if asked else ""),
        )  # fmt: skip
        self._scope.tables[HIDDEN][time] = time
        with about(self._query, node):
            return grouped(self._scope.step, grouping, self._scope.leaf)

    def _keys(
        self, clauses: Sequence[exp.Expr], outputs: Sequence[tuple[str, exp.Expr]]
    ) -> tuple[list[tuple[exp.Expr, WindowCall]], list[tuple[str, exp.Expr]]]:
        """Return the windows and the other keys of GROUP BY."""
        calls, keys = [], []
        aliases = dict(outputs)
        for number, clause in enumerate(clauses, 1):
            part = clause
            if isinstance(clause, exp.Literal) and clause.is_int and 1 <= int(clause.name) <= len(outputs):
                part = outputs[int(clause.name) - 1][1]
            elif isinstance(clause, exp.Column) and not clause.table and not self._scope.find(clause):
                part = aliases.get(clause.name.lower(), clause)
            call = window_call(part, self._query)
            if call is not None:
                calls.append((part, call))
            else:
                keys.append((part.name or f"key_{number}", part))
        return calls, keys

    def _time_weighted(self, root: exp.Expr, time: str, keys: Sequence[str]) -> None:
        """Replace TIME_WEIGHTED_AVG(value, t) by sums over the time for which each value was valid.

        A value is valid from its row, or from the start of the window if that is later, until the next row; the last
        value is valid until the end of the window.
        """
        for node in list(root.walk()):
            if not _is_time_weighted(node):
                continue
            arguments = node.expressions
            if len(arguments) != 2 or self._column(arguments[1]) != time:
                raise self._query.error("expected TIME_WEIGHTED_AVG(value, time) with the time of the window", node)
            if not pa.types.is_int64(self._scope.step.schema.field(time).type):
                raise self._query.error("expected an int64 time, in nanoseconds, in TIME_WEIGHTED_AVG", node)
            value = self._column(arguments[0])
            before, since = self._before(node, time, keys, [value, time])
            for name in (value, time):
                self._scope.tables[HIDDEN][name] = name
            at = exp.column(time, table=HIDDEN, quoted=True)
            last = exp.column(value, table=HIDDEN, quoted=True)
            length = f"{at.sql()} - GREATEST({since.sql()}, {window_bound(WINDOW_START).sql()})"
            rest = f"{window_bound(WINDOW_END).sql()} - LAST({at.sql()})"
            text = (
                f"(SUM(CASE WHEN {before.sql()} IS NULL THEN 0 ELSE {before.sql()} * ({length}) END)"
                f" + COALESCE(LAST({last.sql()}) * ({rest}), 0))"
                f" / (SUM(CASE WHEN {before.sql()} IS NULL THEN 0 ELSE {length} END)"
                f" + CASE WHEN LAST({last.sql()}) IS NULL THEN 0 ELSE {rest} END)"
            )
            node.replace(exp.paren(sqlglot.parse_one(text, read="duckdb")))


def _has_aggregate(nodes: Sequence[exp.Expr]) -> bool:
    """Return True if an expression has an aggregate; expressions with window functions are refused elsewhere."""
    if any(_is_time_weighted(part) for node in nodes for part in node.walk()):
        return True
    return next(aggregates_of([node for node in nodes if not node.find(exp.Window)]), None) is not None


def _is_time_weighted(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "time_weighted_avg"


def _with_window_names(root: exp.Expr, clause: exp.Expr) -> None:
    """Replace the window of GROUP BY, and functions of its bounds, by the columns of its start and end."""
    for node in list(root.walk()):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if node == clause or name in _STARTS:
            node.replace(window_bound(WINDOW_START))
        elif name in _ENDS:
            node.replace(window_bound(WINDOW_END))


def _brought_to(step: Step, outputs: Sequence[tuple[str, Lowered]]) -> Step:
    """Return a step with exactly these columns; the step itself if it has them."""
    for (_, value), field in zip(outputs, step.schema, strict=True):
        if value.expr != Col(field.name) or value.type.with_null(False) != type_of(field).with_null(False):
            return building.projected(step, outputs, "as the other part of the union")
    return step


def _is_one(node: exp.Expr) -> bool:
    """Return True for the literal 1."""
    return isinstance(node, exp.Literal) and node.is_int and int(node.name) == 1


def _is_row_number(node: exp.Expr) -> bool:
    """Return True if the node is ROW_NUMBER() OVER (), which numbers rows in their order."""
    if not isinstance(node, exp.Window) or not isinstance(node.this, exp.RowNumber):
        return False
    return not (node.args.get("partition_by") or node.args.get("order"))
