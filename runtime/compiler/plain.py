"""Replacement of SQL by other SQL with the same answer, so that the rest of the compiler reads fewer constructs.

========================================  ==============================================================
``FETCH FIRST n ROWS ONLY``               ``LIMIT n``
``OVER name``                             ``OVER (…)`` of its definition in WINDOW
``PERCENTILE_CONT(p) WITHIN GROUP (…)``   ``QUANTILE_CONT(x, p)``
``VALUES (1, 'a'), (2, 'b')``             ``SELECT 1, 'a' UNION ALL SELECT 2, 'b'``
``x > ANY (SELECT y …)``                  ``x > (SELECT MIN(y) …)``, with tests for NULLs and for no rows
``(a, b) < (c, d)``                       ``a < c OR a IS NOT DISTINCT FROM c AND b < d``, NULL as the greatest value
``GROUP BY ()``                           no GROUP BY
``x // 2.0``                              ``x / 2.0``: in DuckDB ``//`` differs from ``/`` only for integers
``date_part('year', x)``                  ``EXTRACT(year FROM x)``
``FROM bids AS b(x, y)``                  ``FROM (SELECT t AS x, id AS y, … FROM bids) AS b``
========================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from runtime.compiler.inlining import is_local
from runtime.plan import Relation

__all__ = ["plain_clauses", "plain_comparisons", "plain_sources"]

Fail = Callable[[str, exp.Expr], Exception]
"""Maker of the error for a part of the query."""

_MOST_ROWS: Final = 256
"""Greatest number of rows of VALUES; each row becomes a part of the view's plan."""
_UNNAMED: Final = "valueslist"
"""DuckDB's name of a VALUES that has no alias in the query."""
_QUANTIFIERS: Final = {"ANY": exp.Any, "SOME": exp.Any, "ALL": exp.All}
_CLAUSES: Final = ("group", "having", "qualify", "limit", "offset", "with_")
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONDITIONS: Final = (exp.Where, exp.Having, exp.Qualify, exp.Join)
_ORDERED: Final[dict[type[exp.Expr], tuple[type[exp.Func], type[exp.Func]]]] = {
    exp.LT: (exp.Max, exp.Min),
    exp.LTE: (exp.Max, exp.Min),
    exp.GT: (exp.Min, exp.Max),
    exp.GTE: (exp.Min, exp.Max),
}
"""Comparison → the aggregate of the subquery's column that decides ANY, and the aggregate that decides ALL."""


def plain_clauses(tree: exp.Query, fail: Fail) -> None:
    """Replace FETCH, names of windows, percentiles and comparisons of rows by equivalent SQL.

    The tree is not qualified yet.
    """
    _plain_limits(tree, fail)
    _inline_windows(tree, fail)
    _check_frames(tree, fail)
    _plain_percentiles(tree)
    _plain_parts(tree)
    for group in list(tree.find_all(exp.Group)):
        if [part.expressions for part in group.expressions if isinstance(part, exp.Tuple)] == [[]]:
            group.pop()
    for quotient in list(tree.find_all(exp.IntDiv)):
        if _is_decimal(quotient.this.unnest()) or _is_decimal(quotient.expression.unnest()):
            quotient.replace(exp.Div(this=quotient.this, expression=quotient.expression))
    for node in list(tree.find_all(*_COMPARISONS)):
        left, right = node.this.unnest(), node.expression.unnest()
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            node.replace(_compared_rows(node, left.expressions, right.expressions, fail))
        elif isinstance(left, exp.Tuple) and isinstance(right, exp.Query):
            raise fail("expected a row after a row, was a SELECT: write (a, b) IN (SELECT …)", node)


def _is_decimal(node: exp.Expr) -> bool:
    """Return True for a number with a point."""
    literal = node.this.unnest() if isinstance(node, exp.Neg) else node
    return isinstance(literal, exp.Literal) and not literal.is_string and "." in literal.name


def _compared_rows(node: exp.Binary, left: Sequence[exp.Expr], right: Sequence[exp.Expr], fail: Fail) -> exp.Expr:
    """Compare rows as DuckDB does: column after column, NULL equal to NULL and greater than all else."""
    if len(left) != len(right):
        raise fail(f"expected rows of as many values, were {len(left)} and {len(right)}", node)
    kind, pairs = type(node), list(zip(left, right, strict=True))
    same: list[exp.Expr] = [exp.NullSafeEQ(this=a.copy(), expression=b.copy()) for a, b in pairs]
    if kind in (exp.EQ, exp.NEQ):
        equal = exp.Paren(this=exp.and_(*same, copy=False, wrap=False))
        return equal if kind is exp.EQ else exp.Not(this=equal)
    strict = {exp.LTE: exp.LT, exp.GTE: exp.GT}.get(kind, kind)
    parts: list[exp.Expr] = []
    for place, (a, b) in enumerate(pairs):
        low, high = (a, b) if strict is exp.LT else (b, a)
        last = kind is not strict and place == len(pairs) - 1
        nulls: exp.Expr = exp.Is(this=high.copy(), expression=exp.Null())
        if not last:
            present = exp.Not(this=exp.Paren(this=exp.Is(this=low.copy(), expression=exp.Null())))
            nulls = exp.Paren(this=exp.And(this=present, expression=nulls))
        below = (kind if last else strict)(this=a.copy(), expression=b.copy())
        test = exp.Coalesce(this=below, expressions=[nulls])
        parts.append(exp.Paren(this=exp.and_(*(each.copy() for each in same[:place]), test, copy=False, wrap=False)))
    return exp.Paren(this=exp.or_(*parts, copy=False, wrap=False))


def _plain_limits(tree: exp.Query, fail: Fail) -> None:
    """Write FETCH FIRST n ROWS ONLY as LIMIT n; refuse ORDER BY ALL, whose columns the compiler does not know."""
    for fetch in list(tree.find_all(exp.Fetch)):
        fetch.replace(exp.Limit(expression=fetch.args.get("count") or exp.Literal.number(1)))
    for part in tree.find_all(exp.Ordered):
        if isinstance(part.this, exp.Var):
            raise fail(f"expected the columns of ORDER BY, was ORDER BY {part.this.name.upper()}", part)


def _check_frames(tree: exp.Query, fail: Fail) -> None:
    """Refuse frames with a negative number of rows; DuckDB refuses such a frame only if the query has rows."""
    for spec in tree.find_all(exp.WindowSpec):
        for name in ("start", "end"):
            rows = spec.args.get(name)
            inner = rows.unnest() if isinstance(rows, exp.Expr) else None
            if isinstance(inner, exp.Neg | exp.Null) and inner.find(exp.Column) is None:
                raise fail(f"expected a number from 0 in a frame, was {inner.sql('duckdb')}", spec)


def _plain_parts(tree: exp.Query) -> None:
    """Write date_part as EXTRACT if its part is a constant."""
    for node in list(tree.find_all(exp.Anonymous)):
        if node.name.lower() in ("date_part", "datepart") and len(node.expressions) == 2:
            part, value = node.expressions
            if isinstance(part, exp.Literal) and part.is_string and part.name.isidentifier():
                node.replace(exp.Extract(this=exp.Var(this=part.name.upper()), expression=value))


def _plain_percentiles(tree: exp.Query) -> None:
    """Write ``PERCENTILE_CONT(share) WITHIN GROUP (ORDER BY value)`` as ``QUANTILE_CONT(value, share)``.

    PERCENTILE_DISC and MODE are rewritten in the same way.
    """
    for node in list(tree.find_all(exp.WithinGroup)):
        call, order = node.this, node.expression
        is_ascending = len(order.expressions) == 1 and not order.expressions[0].args.get("desc")
        if isinstance(call, exp.Mode) and call.this is None and is_ascending:
            node.replace(exp.Mode(this=order.expressions[0].this))
        if isinstance(call, (exp.PercentileCont, exp.PercentileDisc)) and call.expression is None and is_ascending:
            node.replace(type(call)(this=order.expressions[0].this, expression=call.this))


def _inline_windows(tree: exp.Query, fail: Fail) -> None:
    """Replace the names of windows by their definitions in WINDOW."""
    for select in tree.find_all(exp.Select):
        known = {window.this.name.lower(): window for window in select.args.get("windows") or []}
        for window in list(select.find_all(exp.Window)):
            name = window.args.get("alias")
            if name is None or window.find_ancestor(exp.Select) is not select:
                continue
            definition = known.get(name.name.lower())
            is_whole = definition is not None and definition.args.get("alias") is None
            if not is_whole or any(window.args.get(part) for part in ("partition_by", "order", "spec")):
                raise fail(f"expected OVER of a name that WINDOW defines, or OVER (…), was {name.name!r}", window)
            assert definition is not None
            for part in ("partition_by", "order", "spec"):
                kept = definition.args.get(part)
                window.set(part, [each.copy() for each in kept] if isinstance(kept, list) else kept and kept.copy())
            window.set("alias", None)
        select.set("windows", None)


# --- VALUES


def plain_sources(tree: exp.Query, relations: Mapping[str, Relation], fail: Fail) -> None:
    """Write VALUES as a union of SELECTs, and a relation whose alias names columns as a SELECT with these names.

    The tree is not qualified yet.
    """
    _plain_values(tree, fail)
    for table in list(tree.find_all(exp.Table)):
        alias = table.args.get("alias")
        if alias is None or not alias.args.get("columns"):
            continue
        if is_local(table):
            expected = f"the names of columns in WITH, as in WITH {table.name}(a, b) AS …"
            raise fail(f"expected {expected}, was an alias with names", table)
        relation = relations.get(table.name.lower())
        if relation is None:
            continue
        names = [column.name for column in alias.args["columns"]]
        if len(names) > len(relation.columns):
            expected = f"at most {len(relation.columns)} names for the columns of {relation.name}"
            raise fail(f"expected {expected}, were {len(names)}", table)
        names += [column.name for column in relation.columns[len(names) :]]
        columns = [exp.alias_(exp.column(column.name, quoted=True), name, quoted=True)
                   for column, name in zip(relation.columns, names, strict=True)]  # fmt: skip
        inner = exp.Select(expressions=columns, from_=exp.From(this=exp.Table(this=table.this.copy())))
        table.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=alias.this)))


def _plain_values(tree: exp.Query, fail: Fail) -> None:
    for node in list(tree.find_all(exp.Values)):
        alias = node.args.get("alias")
        if len(node.expressions) > _MOST_ROWS:
            reason = "read more from a CREATE TABLE, or write IN (1, 2, …)"
            raise fail(f"expected at most {_MOST_ROWS} rows in VALUES, were {len(node.expressions)}: {reason}", node)
        names = [] if alias is None else [column.name for column in alias.args.get("columns") or []]
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        width = max(len(names), len(rows[0]))
        for row, values in zip(node.expressions, rows, strict=True):
            if len(values) != width:
                raise fail(f"expected rows of {width} values in VALUES, was a row of {len(values)}", row)
        names += [f"col{number}" for number in range(len(names), width)]
        union = _union([_constants(values, names) for values in rows])
        around = node.parent
        if isinstance(around, exp.In):
            around.set("expressions", None)
            around.set("query", exp.Subquery(this=union))
        elif isinstance(around, exp.Anonymous) and around.name.upper() in _QUANTIFIERS:
            around.replace(_QUANTIFIERS[around.name.upper()](this=exp.Subquery(this=union)))
        elif isinstance(around, (exp.Any, exp.All, exp.Subquery, exp.CTE, exp.Exists)):
            node.replace(union)
        else:
            name = exp.to_identifier(_UNNAMED) if alias is None else alias.this
            node.replace(exp.Subquery(this=union, alias=exp.TableAlias(this=name)))


def _constants(values: Sequence[exp.Expr], names: Sequence[str]) -> exp.Query:
    parts = [exp.alias_(value, name, quoted=True) for value, name in zip(values, names, strict=True)]
    return exp.Select(expressions=parts)


def _union(selects: Sequence[exp.Query]) -> exp.Query:
    """Return UNION ALL of the queries, as a tree whose depth is the logarithm of their number."""
    if len(selects) == 1:
        return selects[0]
    half = len(selects) // 2
    arms = [_union(part) for part in (selects[:half], selects[half:])]
    return exp.Union(this=arms[0], expression=arms[1], distinct=False)


# --- ANY and ALL


def plain_comparisons(tree: exp.Query, fail: Fail) -> None:
    """Write comparisons with ANY and ALL of a subquery as comparisons with its least or greatest value.

    The tree is qualified. If y is the subquery's column, ``x > ANY`` is true if x is above the least y, and ``x > ALL``
    is true if x is above the greatest y. Without rows ANY is false and ALL is true. If no row decides, the result is
    NULL if x or any y is NULL. In a condition such as WHERE, where NULL counts as false, ANY needs only the comparison
    with the least or greatest value.
    """
    for call in tree.find_all(exp.Anonymous):
        if call.name.upper() in _QUANTIFIERS:
            raise fail(f"expected a SELECT in {call.name.upper()} (…), or IN (…) for a list of values", call)
    count = 0
    for node in reversed(list(tree.find_all(exp.Any, exp.All))):  # inner nodes first, because outer nodes are copied
        around = node.parent
        query = node.this.unnest()
        if not isinstance(around, exp.Binary) or around.expression is not node or not isinstance(query, exp.Query):
            continue  # ANY of a list, which `expressions` refuses
        if isinstance(around.this, exp.Tuple):
            raise fail("expected one value before ANY or ALL, was a row: write (a, b) IN (SELECT …)", around)
        if len(query.selects) != 1:
            raise fail(f"expected a SELECT of one column in {node.key.upper()}, was of {len(query.selects)}", node)
        count += 1
        around.replace(_compared(around, node, query, f"quantified_{count}"))


def _compared(node: exp.Binary, side: exp.Any | exp.All, query: exp.Query, name: str) -> exp.Expr:
    kind, is_any, value = type(node), isinstance(side, exp.Any), node.this
    if kind is (exp.EQ if is_any else exp.NEQ):
        member = exp.In(this=value, query=exp.Subquery(this=query))
        return member if is_any else exp.Not(this=exp.Paren(this=member))
    if _is_one_row(query):
        return kind(this=value, expression=exp.Subquery(this=query))
    rows = _Rows(query, name)
    if kind in _ORDERED:
        extreme = _ORDERED[kind][not is_any]
        decided: exp.Expr = kind(this=value.copy(), expression=rows.aggregate(extreme))
    else:  # <> ANY: x differs from the least or the greatest value; = ALL: x equals both
        ends = [kind(this=value.copy(), expression=rows.aggregate(end)) for end in (exp.Min, exp.Max)]
        decided = exp.Paren(this=(exp.Or if is_any else exp.And)(this=ends[0], expression=ends[1]))
    if is_any and _is_condition(node):
        return decided
    # `unknown` compares the greatest of the values 1 for a NULL and 0 for others: it is NULL without rows. A count of
    # the NULLs would change more often.
    unknown = exp.EQ(this=rows.aggregate(exp.Max, of_nulls=True), expression=exp.Literal.number(int(is_any)))
    empty = exp.Is(this=rows.aggregate(exp.Max, of_nulls=True), expression=exp.Null())
    nothing = exp.Null()
    if is_any:
        open_ = exp.Paren(this=exp.And(this=unknown, expression=nothing))
        either = exp.Paren(this=exp.Or(this=decided, expression=open_))
        return exp.Paren(this=exp.And(this=exp.Not(this=exp.Paren(this=empty)), expression=either))
    certain = exp.Paren(this=exp.Or(this=unknown, expression=nothing))
    both = exp.Paren(this=exp.And(this=decided, expression=certain))
    return exp.Paren(this=exp.Or(this=empty, expression=both))


class _Rows:
    """Rows of a subquery with one column, for aggregates of that column."""

    def __init__(self, query: exp.Query, name: str) -> None:
        self._query = query
        self._name = name
        self._is_plain = (
            isinstance(query, exp.Select)
            and not any(query.args.get(clause) for clause in _CLAUSES)
            and query.args.get("from_") is not None
            and query.selects[0].find(exp.AggFunc, exp.Window, exp.Query) is None
        )

    def aggregate(self, kind: type[exp.Func], *, of_nulls: bool = False) -> exp.Subquery:
        """Return the subquery with this aggregate of the column.

        With ``of_nulls``, the column is first replaced by 1 for a NULL and by 0 for other values.
        """
        query = self._query.copy()
        query.set("order", None)
        if self._is_plain:
            query.set("distinct", None)
            column = query.selects[0].unalias()
        else:
            column = exp.column(query.named_selects[0], table=self._name, quoted=True)
            alias = exp.TableAlias(this=exp.to_identifier(self._name, quoted=True))
            source = exp.Subquery(this=self._query.copy(), alias=alias)
            query = exp.Select(from_=exp.From(this=source))
        if of_nulls:
            test = exp.Is(this=column, expression=exp.Null())
            column = exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        query.set("expressions", [exp.alias_(kind(this=column), "extreme", quoted=True)])
        return exp.Subquery(this=query)


def _is_one_row(query: exp.Query) -> bool:
    """Return True for a query that has exactly one row: an aggregate without GROUP BY, or a SELECT without FROM."""
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in _CLAUSES):
        return False
    column = query.selects[0]
    if query.args.get("from_") is None:
        return query.args.get("where") is None
    return any(part.find_ancestor(exp.Window, exp.Query) is query for part in column.find_all(exp.AggFunc))


def _is_condition(node: exp.Expr) -> bool:
    """Return True if the node is a condition, or a conjunct of a condition, so that NULL is equivalent to false."""
    while isinstance(node.parent, (exp.And, exp.Paren)):
        node = node.parent
    return isinstance(node.parent, _CONDITIONS)
