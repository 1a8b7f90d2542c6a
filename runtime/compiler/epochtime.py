"""``now()`` in a view: the time of the epoch, read from the relation `EPOCH_TIME` by a subquery.

So a view with ``now()`` is a query over relations like any other, and its result follows from the rows of the epoch
alone. In an expression with a timestamp or a date, ``now()`` is a timestamp. Otherwise it is an integer: a time in
nanoseconds, as in integer columns. INTERVALs in the expression then become nanoseconds too.

A comparison is written with the columns on the left, and with ``now()`` and all constants on the right: ``now() - t <
INTERVAL '10' SECOND`` becomes ``t > now() - …``. A view of this form is updated incrementally by moving a bound
(`runtime.plan.flow.BoundNode`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from runtime.compiler.errors import SqlError
from runtime.compiler.intervals import nanoseconds_of
from runtime.plan import EPOCH_TIME

__all__ = ["TURNED", "is_now", "number_times", "put_epoch_time", "rises_with_time"]

_META: Final = "now"
"""Key in a node's metadata: the value is the number of the ``now()`` in the query, also in copies of the node."""
_COMPARISONS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE)
TURNED: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE,
}  # fmt: skip
"""Comparison → equivalent comparison of the exchanged sides."""
_MOMENTS: Final = frozenset({"TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "TIMESTAMPLTZ", "DATETIME", "DATE"})
_SAME_TIME: Final = frozenset({"TIMESTAMP", "TIMESTAMPNTZ", "BIGINT", "INT128"})
"""Types to which a CAST of ``now()`` does not change its value."""
_WHOLE: Final = frozenset({"BIGINT", "INT", "INT128", "SMALLINT", "TINYINT", "DECIMAL"})
_SUMS: Final = (exp.Add, exp.Sub, exp.Neg, exp.Paren)

Terms = list[tuple[int, exp.Expr]]
"""Parts of a sum, each with its sign."""
Refuse = Callable[[str, exp.Expr], SqlError]


def is_now(node: exp.Expr) -> bool:
    """Return True for ``now()`` or ``CURRENT_TIMESTAMP``."""
    return isinstance(node, exp.CurrentTimestamp) or (isinstance(node, exp.Anonymous) and node.name.lower() == "now")


def number_times(tree: exp.Query) -> None:
    """Number every ``now()`` of a query, so that it can be found in copies of the query."""
    for number, node in enumerate(node for node in tree.find_all(exp.Func) if is_now(node)):
        node.meta[_META] = number


def put_epoch_time(tree: exp.Query, plain: exp.Query, schema: Mapping[str, object], refuse: Refuse) -> None:
    """Replace every ``now()`` by a subquery, in a qualified query and in ``plain``, its unqualified form.

    ``refuse`` makes the error for an INTERVAL that has no fixed length.
    """
    if not any(is_now(node) for node in tree.find_all(exp.Func)):
        return
    typed = annotate_types(tree.copy(), schema=dict(schema), dialect="duckdb")
    kinds: dict[int, tuple[bool, bool]] = {}
    for node in _times(typed):
        columns = list(_whole_of(node).find_all(exp.Column))
        names = {column.type.this.name for column in columns if column.type is not None}
        casts = {cast.to.this.name for cast in node.iter_expressions() if isinstance(cast, exp.Cast)}
        parent = node.parent
        casts |= {parent.to.this.name} if isinstance(parent, exp.Cast) else set()
        kinds[node.meta[_META]] = (bool((names | casts) & _MOMENTS), names <= _WHOLE)
    for query in (tree, plain):
        nodes = _times(query)
        wholes = {id(whole): whole for node in nodes if isinstance(whole := _whole_of(node), _COMPARISONS)}
        moments = {node.meta[_META] for node in nodes if kinds[node.meta[_META]][0]}
        for node in nodes:
            if node.meta[_META] not in moments:
                _put_nanoseconds(_whole_of(node), refuse)
        for whole in wholes.values():
            first = next(node for node in _times(whole))
            is_moment, is_exact = kinds[first.meta[_META]]
            if is_moment or is_exact:
                _arrange(whole, is_moment=is_moment)
        for node in _times(query):
            node.replace(_subquery("at" if node.meta[_META] in moments else "t"))


def rises_with_time(bound: exp.Expr) -> bool:
    """Return True if an expression over subqueries is the epoch's time plus constants: such a bound never falls."""
    terms = _terms(bound, 1)
    times = [sign for sign, node in terms if isinstance(node, exp.Subquery) and _is_time(node.this)]
    return times == [1] and len(terms) - 1 == sum(_is_constant(node) for _, node in terms)


def _is_time(select: exp.Expr) -> bool:
    tables = list(select.find_all(exp.Table))
    parts = select.expressions if isinstance(select, exp.Select) else []
    is_whole = not any(select.args.get(name) for name in ("where", "having", "group", "joins", "limit"))
    return (
        len(tables) == len(parts) == 1
        and tables[0].name == EPOCH_TIME.name
        and is_whole
        and isinstance(parts[0].unalias(), exp.Max)
        and isinstance(parts[0].unalias().this, exp.Column)
    )


def _times(node: exp.Expr) -> list[exp.Expr]:
    return [part for part in node.find_all(exp.Func) if is_now(part)]


def _whole_of(node: exp.Expr) -> exp.Expr:
    """Return the comparison with this ``now()``, or the sum around it, as an operand; else the sum or ``now()``."""
    while isinstance(node.parent, (*_SUMS, exp.Cast)):
        node = node.parent
    parent = node.parent
    return parent if isinstance(parent, (*_COMPARISONS, exp.EQ, exp.NEQ, exp.Between)) else node


def _put_nanoseconds(whole: exp.Expr, refuse: Refuse) -> None:
    """Replace the INTERVALs in an expression that contains ``now()`` by numbers of nanoseconds."""
    for interval in list(whole.find_all(exp.Interval)):
        length = nanoseconds_of(interval)
        if length is None or abs(length) >= 2**63:
            raise refuse(
                "expected an interval such as INTERVAL '10' SECOND beside now(), in units from nanosecond to week, was "
                f"{interval.sql('duckdb')}",
                interval,
            )
        number = exp.Literal.number(abs(length))
        interval.replace(exp.Paren(this=exp.Neg(this=number)) if length < 0 else number)


def _arrange(whole: exp.Expr, *, is_moment: bool) -> None:
    """Write a comparison of sums with its columns on the left, and with ``now()`` and constants on the right."""
    terms = [*_terms(whole.this, 1), *_terms(whole.expression, -1)]
    columns = [(sign, node) for sign, node in terms if node.find(exp.Column) is not None]
    rest = [(-sign, node) for sign, node in terms if node.find(exp.Column) is None]
    if not columns or any(node.find(exp.Query) or _times(node) for _, node in columns):
        return
    if any(not _is_constant(node) and not is_now(_uncast(node)) for _, node in rest):
        return
    turned = columns[0][0] < 0
    if turned:
        columns, rest = ([(-sign, node) for sign, node in part] for part in (columns, rest))
    times = [(sign, node) for sign, node in rest if is_now(_uncast(node))]
    if len(times) != 1 or times[0][0] < 0:
        return
    lengths = [(sign, node) for sign, node in rest if not is_now(_uncast(node))]
    if is_moment and (len(columns) != 1 or any(nanoseconds_of(node) is None for _, node in lengths)):
        return
    kind = TURNED[type(whole)] if turned else type(whole)
    whole.replace(kind(this=_sum(columns), expression=_sum([(1, _uncast(times[0][1])), *lengths])))


def _terms(node: exp.Expr, sign: int) -> Terms:
    if isinstance(node, exp.Paren):
        return _terms(node.this, sign)
    if isinstance(node, exp.Neg):
        return _terms(node.this, -sign)
    if isinstance(node, (exp.Add, exp.Sub)):
        return [*_terms(node.left, sign), *_terms(node.right, sign if isinstance(node, exp.Add) else -sign)]
    return [(sign, node)]


def _sum(terms: Iterable[tuple[int, exp.Expr]]) -> exp.Expr:
    (_, total), *others = terms
    total = total.copy()
    for sign, node in others:
        total = (exp.Add if sign > 0 else exp.Sub)(this=total, expression=node.copy())
    return total


def _uncast(node: exp.Expr) -> exp.Expr:
    """Return the ``now()`` in a CAST that does not change its value; otherwise the node itself."""
    is_same = isinstance(node, exp.Cast) and node.to.this.name in _SAME_TIME and not node.to.expressions
    return node.this.unnest() if is_same and is_now(node.this.unnest()) else node


def _is_constant(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Literal, exp.Interval)) and node.find(exp.Query) is None


def _subquery(column: str) -> exp.Subquery:
    table = exp.to_identifier(EPOCH_TIME.name, quoted=True)
    time_column = exp.Column(this=exp.to_identifier(column, quoted=True), table=table.copy())
    latest = exp.Alias(this=exp.Max(this=time_column), alias=exp.to_identifier("now", quoted=True))
    alias = exp.TableAlias(this=table.copy())
    return exp.Subquery(this=exp.select(latest, copy=False).from_(exp.Table(this=table, alias=alias), copy=False))
