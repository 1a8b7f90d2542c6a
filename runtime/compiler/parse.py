"""Parser of one SELECT to a checked syntax tree.

sqlglot parses the query and qualifies its columns. Errors get positions, and queries without a fixed answer are
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.errors import ErrorLevel, OptimizeError, ParseError, SqlglotError, UnsupportedError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.resolver import Resolver
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import ensure_schema

from runtime.compiler.copies import Sizes, check_copies
from runtime.compiler.dbtoaster import plain_functions, plain_words
from runtime.compiler.declarations import Text
from runtime.compiler.describe import is_outside, unstable_functions
from runtime.compiler.dialect import QueryDialect
from runtime.compiler.epochtime import is_now, number_times, put_epoch_time
from runtime.compiler.errors import SqlError, first_line
from runtime.compiler.groupings import expand_groupings
from runtime.compiler.inlining import VIEW_META, Definitions, is_local, read_names
from runtime.compiler.joinnames import correct_joins_by_name, mark_joins_by_name
from runtime.compiler.limits import balance_chains, check_depth, check_tokens, expansion, is_expanding, unread_part
from runtime.compiler.plain import plain_clauses, plain_comparisons, plain_sources
from runtime.compiler.script import NamedSelect
from runtime.compiler.types import Type
from runtime.plan import EPOCH_TIME, Relation

__all__ = ["Query", "check_query", "group_keys", "is_aggregate", "parse_select", "tie_columns"]

_CLOCK_OR_CHANCE = (exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime, exp.Rand, exp.Uuid)
_NAMES_OF_CHANCE = frozenset(
    (
        "rand", "current_localtime", "current_localtimestamp", "localtime", "localtimestamp", "reservoir_quantile",
        "version", "current_version",
    )
)  # fmt: skip
_NAMES_OF_TYPES = frozenset(("typeof", "pg_typeof"))
_ORDER_DEPENDENT = (exp.First, exp.Last, exp.AnyValue, exp.ArrayAgg, exp.GroupConcat)


class Query:
    """Parsed SELECT with the positions of its text."""

    def __init__(
        self,
        select: NamedSelect,
        relations: Iterable[Relation] = (),
        *,
        dialect: DialectType = QueryDialect,
        mode: Literal["sql", "dbtoaster"] = "sql",
    ) -> None:
        """Parse the SELECT.

        ``relations`` are the relations that the SELECT may read; ``dialect`` is `QueryDialect` or derived from it.
        """
        self.select = select
        self._dialect = dialect
        self._relations = tuple(relations)
        self._text = Text(select.sql, select.file or select.name)
        self.tree: exp.Query = self._parse()
        plain_functions(self.tree, self.error, from_zero=mode == "dbtoaster")
        number_times(self.tree)
        self.plain = self.tree.copy()
        """Tree as it was written, before any qualification."""
        self.reads: tuple[str, ...] = ()
        """Relations and views that the query names, in the order of its text."""
        self.opened: exp.Query = self.tree
        """Qualified tree, as `Definitions.opened` returns it: each view that is read is either merged or named."""
        self.sizes: list[int] = []
        """Size of the expression of each column, see `runtime.compiler.copies`."""

    def error(self, reason: str, node: exp.Expr | None = None) -> SqlError:
        """Return the error with this reason at a part of the query; for an inlined part, it also names the view."""
        parts = [] if node is None else [part for part in node.walk() if "start" in part.meta]
        if not parts:
            return self.error_at(reason, 0)
        first = min(parts, key=lambda part: int(part.meta["start"]))
        view = first.meta.get(VIEW_META)
        return self.error_at(reason if view is None else f"in view {view}: {reason}", first.meta["start"])

    def error_at(self, reason: str, offset: int) -> SqlError:
        """Return the error with this reason at an offset of the text."""
        line, column = self._text.position(offset)
        if line == 1:
            column += self.select.column - 1
        return SqlError(reason, file=self._text.name, line=line + self.select.line - 1, column=column)

    def _parse(self) -> exp.Query:
        check_tokens(self._text, self.error_at)
        try:
            tree = sqlglot.parse_one(plain_words(self._text), read=self._dialect)
        except ParseError as error:
            raise self._parse_error(error) from error
        except SqlglotError as error:
            raise self.error(f"expected SQL, was a text that cannot be parsed: {str(error).splitlines()[0]}") from error
        if not isinstance(tree, exp.Query) or isinstance(tree, exp.Values):
            raise self.error("expected a SELECT")
        balance_chains(tree, self._relations)
        check_depth(tree, self.error)
        return tree

    def _parse_error(self, error: ParseError) -> SqlError:
        first = error.errors[0] if error.errors else {}
        description, word = str(first.get("description", error)), str(first.get("highlight") or "the end")
        line, column = int(first.get("line") or 1), int(first.get("col") or 1)
        lines = self.select.sql.split("\n")
        offset = sum(len(text) + 1 for text in lines[: line - 1]) + max(column - len(word), 0)
        if match := re.match(r"Expecting (.+?)\.?$", description):
            reason = f"expected {match[1]!r}, was {word!r}"
        elif match := re.search(r"missing for <class '[\w.]*\.(\w+)'>", description):
            reason = f"expected an expression in {match[1].upper()}, near {word!r}"
        elif match := re.match(r"Expected (.+) but got <Token", description):
            reason = f"expected a {match[1]}, near {word!r}"
        elif "Unexpected token" in description:
            reason = f"expected an operator, a clause or the end of the query, was {word!r}"
        else:
            reason = f"expected SQL, was {word!r}: {description}"
        return self.error_at(reason, min(offset, len(self.select.sql)))


def parse_select(
    select: NamedSelect,
    relations: Iterable[Relation],
    views: Definitions | None = None,
    *,
    mode: Literal["sql", "dbtoaster"] = "sql",
) -> Query:
    """Return the query with qualified columns, expanded stars and inlined views.

    Raise `SqlError` for SQL that is invalid or not supported.
    """
    views = Definitions() if views is None else views
    known = {relation.name: relation for relation in (*views.as_relations(), *relations, EPOCH_TIME)}
    query = Query(select, known.values(), mode=mode)
    _check_relations(query, known, views)
    check_query(query, known, sizes=views.sizes())
    schema: dict[str, object] = {
        name: {column.name: Type.of(column).duckdb for column in relation.columns} for name, relation in known.items()
    }
    has_joins_by_name = mark_joins_by_name(query.tree)
    try:
        query.tree = qualify(query.tree, schema=schema, dialect="duckdb", validate_qualify_columns=False)
    except OptimizeError as error:
        raise _unresolved(query, known, str(error)) from error
    if has_joins_by_name:
        correct_joins_by_name(query.tree, schema, query.error)
    query.reads = tuple(read_names(query.plain))
    _qualify_order(query.tree, schema)
    put_epoch_time(query.tree, query.plain, schema, query.error)
    plain_comparisons(query.tree, query.error)
    query.tree = expand_groupings(query.tree, query.error)
    query.opened = views.opened(query.tree)
    query.tree = views.closed(query.opened.copy())
    return query


def _qualify_order(tree: exp.Query, schema: Mapping[str, object]) -> None:
    """Qualify the columns inside the expressions of ORDER BY with their tables.

    As in DuckDB, a name that is a whole criterion refers to a selected column if there is one. A name within an
    expression refers to a column of a table if there is one.
    """
    if all(isinstance(part.this.unnest(), exp.Column | exp.Literal) for part in tree.find_all(exp.Ordered)):
        return
    tables = ensure_schema(dict(schema), dialect="duckdb")
    for scope in traverse_scope(tree):
        order = scope.expression.args.get("order")
        if order is None or not isinstance(scope.expression, exp.Select):
            continue
        resolver = Resolver(scope, tables)
        for part in order.expressions:
            for column in [] if isinstance(part.this.unnest(), exp.Column) else list(part.find_all(exp.Column)):
                is_own = column.find_ancestor(exp.Select) is scope.expression
                table = resolver.get_table(column) if is_own and not column.table else None
                if table is not None:
                    column.set("table", table)


def check_query(
    query: Query,
    relations: Mapping[str, Relation],
    *,
    sizes: Mapping[str, Sizes] | None = None,
    is_stream: bool = False,
) -> None:
    """Check a query before any other function reads its tree, and replace some constructs by simpler ones.

    Raise `SqlError` for a construct that has no fixed answer, needs unbounded work, or is not supported. ``sizes`` has
    the sizes of the columns of views.

    With ``is_stream`` the query is that of a derived stream. The rows of a stream have an order, so FIRST and LAST have
    an answer. The rows are not computed epoch by epoch, so ``now()`` is refused.
    """
    known = {name: {column.name: 1 for column in relation.columns} for name, relation in relations.items()}
    query.sizes = check_copies(query.tree, known | dict(sizes or {}), query.error)
    plain_sources(query.tree, relations, query.error)
    _check_intervals(query)
    _check_functions(query, is_stream=is_stream)
    _check_expansion(query)
    if (unread := unread_part(query.tree)) is not None:
        raise query.error(f"{unread[0]} is not supported", unread[1])
    _check_written(query)
    plain_clauses(query.tree, query.error)


def _unresolved(query: Query, known: dict[str, Relation], message: str) -> SqlError:
    """Return the error for an unknown column; sqlglot's message has only the name of the column."""
    name = message.rpartition(": ")[2].strip("'\"")
    column = next((each for each in query.plain.find_all(exp.Column) if each.name.lower() == name.lower()), None)
    if column is None:
        return query.error(f"expected names that can be resolved: {message}")
    select = column.find_ancestor(exp.Select)
    scope = []
    for table in select.find_all(exp.Table) if select is not None else ():
        relation = known.get(table.name.lower())
        columns = "…" if relation is None else ", ".join(each.name for each in relation.columns)
        scope.append(f"{table.alias_or_name}({columns})")
    shown = f"{column.table}.{column.name}" if column.table else column.name
    return query.error(f"unknown column {shown!r}; the columns in scope are: {', '.join(scope) or 'none'}", column)


def _check_relations(query: Query, known: dict[str, Relation], views: Definitions) -> None:
    for table in query.tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            raise query.error("expected a relation, was a table function", table)
        if table.db or (table.name.lower() not in known and not is_local(table)):
            shown = {name for name in known if name not in views} - {EPOCH_TIME.name}
            relations = ", ".join(sorted(shown)) or "none"
            others = f"; the views are: {', '.join(sorted(views.names()))}" if views.names() else ""
            name = f"{table.db}.{table.name}" if table.db else table.name
            raise query.error(f"unknown relation {name!r}; the relations are: {relations}{others}", table)


def _check_functions(query: Query, *, is_stream: bool) -> None:
    for node in query.tree.find_all(exp.Func):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
        if any(node.arg_types.get(part) and node.args.get(part) is None for part in ("this", "expression")):
            raise query.error(f"expected an expression in {name.upper()}", node)  # the parser does not check MAX()
        is_unstable = name in _NAMES_OF_CHANCE or name in unstable_functions() or is_outside(name)
        if isinstance(node, _CLOCK_OR_CHANCE) or is_unstable or (is_stream and is_now(node)):
            raise query.error(f"expected functions of the rows alone, was {name}(): a query must have the same answer "
                              f"whenever it is computed", node)  # fmt: skip
        if name in _NAMES_OF_TYPES:
            raise query.error(f"expected functions of values, was {name}(): the type in which an integer or a decimal "
                              f"is computed depends on the query around it", node)  # fmt: skip
        if isinstance(node, _ORDER_DEPENDENT) and not is_stream and node.find(exp.Order) is None:
            raise query.error(f"expected {name}(… ORDER BY …), as it depends on the order of rows", node)


def _check_intervals(query: Query) -> None:
    """Refuse ``INTERVAL '1.5' DAY``, which DuckDB reads as one day; sqlglot parses ``'1.5 days'`` to the same tree."""
    for node in query.tree.find_all(exp.Interval):
        value, unit = None if node.this is None else node.this.unnest(), node.text("unit").lower()
        if isinstance(value, exp.Neg):
            value = value.this.unnest()
        if not isinstance(value, exp.Literal) or not unit or unit.startswith(("s", "ms", "milli", "nano", "ns")):
            continue
        if re.fullmatch(r"[+-]?\d*\.\d*[1-9]\d*", value.name.strip()):
            raise query.error(f"expected a whole number in an interval of {unit.upper()}, was {value.name}: write it "
                              f"in a smaller unit", node)  # fmt: skip


def _check_expansion(query: Query) -> None:
    """Raise `SqlError` with the message of `expansion` if the calls of a query may make values that are too large."""
    total = 1
    for node in query.tree.find_all(exp.Func):
        name, arguments = _call(node)
        if is_expanding(name):
            if isinstance(node.parent, exp.Dot):  # a function of another schema would bypass the guard
                raise query.error(f"expected {name}(…) alone, was a call after a dot", node)
            try:
                total = expansion(name, [_constant(part) for part in arguments], total)
            except ValueError as error:
                raise query.error(str(error), node) from None


def _call(node: exp.Func) -> tuple[str, list[exp.Expr | None]]:
    """Return the name and arguments of a call as in DuckDB; an empty name for a function that expands no value."""
    if isinstance(node, exp.Pad):
        return "lpad", [node.this, node.expression]
    if isinstance(node, exp.GenerateSeries):
        step = node.args.get("step")
        return "range", [node.args.get("start"), node.args.get("end"), *([] if step is None else [step])]
    if isinstance(node, exp.Repeat):
        return "repeat", [node.this, node.args.get("times")]
    if isinstance(node, exp.Space):
        return "repeat", [None, node.this]
    if isinstance(node, exp.Format):
        return "format", [node.this]
    return (node.name.lower(), list(node.expressions)) if isinstance(node, exp.Anonymous) else ("", [])


def _constant(node: exp.Expr | None) -> int | str | None:
    """Return the value of a literal; None for anything else."""
    if isinstance(node, exp.Neg):
        value = _constant(node.this)
        return -value if isinstance(value, int) else None
    if isinstance(node, exp.Literal):
        return node.name if node.is_string else int(node.name) if node.name.isdigit() else None
    return None


def _check_written(query: Query) -> None:
    """Refuse parts of a query that sqlglot parses but cannot write as SQL for DuckDB."""
    try:
        query.tree.sql("duckdb", unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise query.error(f"expected SQL that can be passed on to DuckDB, was: {first_line(error)}") from None


def is_aggregate(node: exp.Expr) -> bool:
    """Return True if an expression contains an aggregate that is neither under OVER nor in a subquery."""
    for aggregate in node.find_all(exp.AggFunc):
        window = aggregate.find_ancestor(exp.Window, exp.Select)
        windowed = isinstance(window, exp.Window) and (window.this is aggregate or window.this is aggregate.parent)
        if not windowed and aggregate.find_ancestor(exp.Subquery) is node.find_ancestor(exp.Subquery):
            return True
    return False


def group_keys(select: exp.Select) -> list[exp.Expr]:
    """Return the keys of GROUP BY; for GROUP BY ALL the columns that are not aggregates."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [part.unalias() for part in select.expressions if not is_aggregate(part)]
    return list(group.expressions)


def tie_columns(select: exp.Select) -> list[exp.Column]:
    """Return the columns that SELECT and QUALIFY name, each once, in the order of the text.

    These columns break the ties of a window's ORDER BY: rows that are equal in all of them cannot be distinguished in
    the result.
    """
    qualify = select.args.get("qualify")
    columns: dict[tuple[str, str], exp.Column] = {}
    for node in [*select.expressions, *([] if qualify is None else [qualify])]:
        for column in node.find_all(exp.Column, bfs=False):
            if column.find_ancestor(exp.Select) is select:
                columns.setdefault((column.table, column.name.lower()), column)
    return list(columns.values())
