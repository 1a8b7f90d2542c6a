"""Views over views: names of views are replaced by the views' queries, so that each query reads only relations.

The name of a view in FROM is replaced by the query of the view. There are three cases:

* Each row of the view is made from one row of a relation: the two SELECTs become one.
* The view has groups, and the query only filters and projects them: the conditions of the query become a HAVING.
* Otherwise the view becomes a subquery. A view that is named more than once becomes a table of WITH, which each form
  builds once.

In the first two cases the linear and factored forms still support the result. For errors, inlined nodes have the
position of the name that they replace, and the name of the view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runtime.compiler.maps import unique
from runtime.plan import Column, Relation

__all__ = ["VIEW_META", "Definition", "Definitions", "is_local", "own_tables", "read_names"]

VIEW_META = "view"
"""Key in a node's metadata: the value is the name of the view whose query contained the node."""
_ROWWISE = frozenset(("expressions", "from_", "where", "order"))
"""Clauses allowed in a view that returns one row for each selected row of a relation; ORDER BY has no effect."""
_GROUPED = frozenset(("expressions", "from_", "joins", "where", "group", "having", "order"))
"""Clauses allowed in a view with GROUP BY into which a SELECT that filters the view's rows can be merged."""
_OUTER = frozenset(("expressions", "from_", "where", "order", "limit", "offset"))
"""Clauses allowed in a SELECT that filters the rows of such a view, so that its conditions can become a HAVING."""


@dataclass(frozen=True, slots=True)
class Definition:
    """View as the queries of other views read it."""

    name: str
    """Name in lower case."""
    columns: tuple[Column, ...]
    """Columns of its rows."""
    query: exp.Query
    """Qualified query; views in it are named by `_table_name`."""
    reads: tuple[str, ...]
    """Relations and views that it names, in the order of its text."""
    sizes: tuple[int, ...]
    """Size of the expression of each column, see `runtime.compiler.copies`."""


class Definitions:
    """Views that a query may read, each with its query."""

    def __init__(self) -> None:
        self._known: dict[str, Definition] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def names(self) -> list[str]:
        """Return all names, in the order of addition."""
        return list(self._known)

    def as_relations(self) -> list[Relation]:
        """Return the views as relations, for a query that reads them."""
        return [Relation(known.name, known.columns) for known in self._known.values()]

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return the sizes of the columns of each view."""
        return {
            known.name: {column.name: size for column, size in zip(known.columns, known.sizes, strict=False)}
            for known in self._known.values()
        }

    def add(
        self,
        name: str,
        columns: Sequence[Column],
        query: exp.Query,
        reads: Sequence[str],
        sizes: Sequence[int],
    ) -> None:
        """Add a compiled view; ``query`` is the result of `opened`, ``sizes`` has the sizes of the view's columns."""
        self._known[name] = Definition(name, tuple(columns), query, tuple(reads), tuple(sizes))

    def opened(self, tree: exp.Query) -> exp.Query:
        """Change a qualified query: merge its views, or name them by `_table_name`; return the query."""
        local = {cte.alias for cte in tree.find_all(exp.CTE)}
        for table in [table for table in tree.find_all(exp.Table) if self._is_view(table)]:
            known = self._known[table.name.lower()]
            inner = _placed(known, table)
            if local.isdisjoint(self._relations_of(known)) and _merge(inner, table, known.columns):
                continue
            name, start = exp.to_identifier(_table_name(known.name), quoted=True), _offset(table)
            name.meta["start"] = start
            table.set("this", name)
        return tree

    def closed(self, tree: exp.Query) -> exp.Query:
        """Change a query: replace the views that it still names by their queries; return the query."""
        needed = self._needed(tree)
        if not needed:
            return tree
        local = {cte.alias for part in (tree, *needed.values()) for cte in part.find_all(exp.CTE)}
        uses = Counter(table.name for part in (tree, *needed.values()) for table in part.find_all(exp.Table))
        tables: list[exp.CTE] = []
        for name, query in needed.items():
            if uses[_table_name(name)] == 1 and local.isdisjoint(self._relations_of(self._known[name])):
                _put_in(query, _table_name(name), (tree, *needed.values()))
            else:
                alias = exp.TableAlias(this=exp.to_identifier(_table_name(name), quoted=True))
                tables.append(exp.CTE(this=query, alias=alias))
        if tables:
            top = tree if tree.args.get("with_") is not None else tree.unnest()
            clause = top.args.get("with_")
            own = [] if clause is None else clause.expressions
            top.set("with_", exp.With(expressions=[*tables, *own]))
        return tree

    def _is_view(self, table: exp.Table) -> bool:
        return table.name.lower() in self._known and not table.db and not is_local(table)

    def _needed(self, tree: exp.Query) -> dict[str, exp.Query]:
        """Return copies of the queries of all views that ``tree`` needs; each view follows the views that it names."""
        queries: dict[str, exp.Query] = {}
        names = {_table_name(name): name for name in self._known}

        def visit(part: exp.Query) -> None:
            for table in list(part.find_all(exp.Table)):
                name = names.get(table.name)
                if name is not None and name not in queries:
                    query = _placed(self._known[name], table)
                    visit(query)
                    queries[name] = query

        visit(tree)
        return queries

    def _relations_of(self, known: Definition) -> set[str]:
        """Return the relations that a view reads, directly and through other views."""
        names, pending = set(known.reads), list(known.reads)
        while pending:
            below = self._known.get(pending.pop())
            if below is not None:
                more = set(below.reads) - names
                names |= more
                pending += more
        return names - self._known.keys()


def read_names(tree: exp.Expr) -> dict[str, exp.Table]:
    """Return the relations and views that a query names, in the order of its text, each with its first occurrence."""
    tables: dict[str, exp.Table] = {}
    for table in sorted(tree.find_all(exp.Table), key=_offset):
        if isinstance(table.this, exp.Identifier) and not table.db and not is_local(table):
            tables.setdefault(table.name.lower(), table)
    return tables


def _offset(table: exp.Table) -> int:
    return min((part.meta["start"] for part in table.walk() if "start" in part.meta), default=0)


def _table_name(view: str) -> str:
    """Return the name of a view's table in WITH; a blank and a colon distinguish it from all tables of a query."""
    return f"view: {view}"


def is_local(table: exp.Table) -> bool:
    """Return True if a table in FROM is one that a WITH around it defines."""
    name = table.name.lower()
    inside: exp.Expr | None = None
    node: exp.Expr | None = table.parent
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        clause = node.args.get("with_")
        is_recursive = clause is not None and clause.args.get("recursive")
        for cte in () if clause is None else clause.expressions:
            if cte is inside and not is_recursive:
                break  # a table of WITH can read neither itself nor later tables
            if cte.alias.lower() == name:
                return True
        node = node.parent
    return False


def _placed(known: Definition, table: exp.Table) -> exp.Query:
    """Return a copy of the view's query with the view's column names; each node has the position of ``table``."""
    query = known.query.copy()
    start = _offset(table)
    for node in query.walk():
        if "start" in node.meta:
            node.meta["start"] = start
            node.meta.setdefault(VIEW_META, known.name)
    return _renamed(query, [column.name for column in known.columns])


def _renamed(query: exp.Query, names: Sequence[str]) -> exp.Query:
    """Return the query with these column names, which unnamed expressions may not have yet."""
    inner: list[str] = []
    for part in query.selects:
        inner.append(unique(part.alias_or_name.lower(), inner))
    if inner == list(names):
        return query
    if isinstance(query, exp.Select) and not any(query.args.get(name) for name in ("order", "distinct")):
        parts = [exp.alias_(part.unalias(), name, quoted=True) for part, name in zip(query.selects, names, strict=True)]
        query.set("expressions", parts)
        return query
    parts = [
        exp.alias_(exp.column(old, table="view", quoted=True), name, quoted=True)
        for old, name in zip(inner, names, strict=True)
    ]
    alias = exp.TableAlias(this=exp.to_identifier("view", quoted=True))
    outer = exp.Select(expressions=parts)
    outer.set("from_", exp.From(this=exp.Subquery(this=query, alias=alias)))
    return outer


def _put_in(query: exp.Query, name: str, parts: Sequence[exp.Query]) -> None:
    """Replace the only table of this name in ``parts`` by the query."""
    (table,) = [table for part in parts for table in part.find_all(exp.Table) if table.name == name]
    table.replace(exp.Subquery(this=query, alias=table.args["alias"].copy()))


# --- two SELECTs as one


def _merge(inner: exp.Query, table: exp.Table, columns: Sequence[Column]) -> bool:
    """Merge a view's query and the SELECT that reads it, if the merged SELECT returns the same rows."""
    outer = table.find_ancestor(exp.Select)
    if not isinstance(inner, exp.Select) or outer is None or table.parent is None:
        return False
    outputs = {column.name: part.unalias() for column, part in zip(columns, inner.selects, strict=True)}
    if not _is_resolved(outer, table.alias_or_name, outputs):
        return False
    if _is_rowwise(inner) and _has_plain_joins(outer, table):
        _merge_rows(inner, outer, table, outputs)
        return True
    if _is_grouped(inner) and _is_filter(outer, table):
        _merge_groups(inner, outer, table, outputs)
        return True
    return False


def _is_resolved(outer: exp.Select, alias: str, outputs: dict[str, exp.Expr]) -> bool:
    """Return True if each column names its table, and the view has all columns that name the view.

    Otherwise a column could match a column of the view's relation after the merge.
    """
    shown = {part.alias_or_name for part in outer.selects}
    for column in outer.find_all(exp.Column):
        if not column.table and not (column.name in shown and column.find_ancestor(exp.Order)):
            return False
    return all(column.name.lower() in outputs for column in _columns_of(outer, alias))


def _clauses(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _is_rowwise(inner: exp.Select) -> bool:
    start = inner.args.get("from_")
    if not _clauses(inner) <= _ROWWISE or start is None or not isinstance(start.this, exp.Table):
        return False
    if start.this.name.startswith(_table_name("")) or not _clauses(start.this) <= {"this", "alias"}:
        return False
    where = inner.args.get("where")
    parts = [part.unalias() for part in inner.selects]
    return not any(part.find(exp.AggFunc, exp.Window, exp.Query) or not part.find(exp.Column) for part in parts) and (
        where is None or where.find(exp.Query) is None
    )


def _has_plain_joins(outer: exp.Select, table: exp.Table) -> bool:
    """Return True if the table is a source of the SELECT itself, and all joins of the SELECT are inner joins."""
    joins = outer.args.get("joins") or []
    if not (isinstance(table.parent, (exp.From, exp.Join)) and table.parent.parent is outer):
        return False
    return not any(
        join.side or (join.kind or "").upper() not in ("", "INNER", "CROSS") or join.args.get("method")
        for join in joins
    )


def _merge_rows(inner: exp.Select, outer: exp.Select, table: exp.Table, outputs: dict[str, exp.Expr]) -> None:
    alias, source = table.alias_or_name, inner.args["from_"].this
    where = inner.args.get("where")
    for part in (*outputs.values(), *([where] if where is not None else [])):
        for column in part.find_all(exp.Column):
            column.set("table", exp.to_identifier(alias, quoted=True))
    _substitute(outer, alias, outputs)
    table.set("this", source.this.copy())
    if where is not None:
        _add_condition(outer, "where", exp.Where, where.this)


def _is_grouped(inner: exp.Select) -> bool:
    group, parts = inner.args.get("group"), [part.unalias() for part in inner.selects]
    if not _clauses(inner) <= _GROUPED or any(part.find(exp.Window, exp.Query) for part in parts):
        return False
    return group is not None and not group.args.get("all") and bool(group.expressions)


def _is_filter(outer: exp.Select, table: exp.Table) -> bool:
    """Return True if the SELECT only filters and projects the rows of this table, without columns of outer queries."""
    if not _clauses(outer) <= _OUTER or outer.args["from_"].this is not table:
        return False
    if outer.find(exp.AggFunc, exp.Window) is not None or len(list(outer.find_all(exp.Query))) > 1:
        return False
    return all(column.table == table.alias_or_name or not column.table for column in outer.find_all(exp.Column))


def _merge_groups(inner: exp.Select, outer: exp.Select, table: exp.Table, outputs: dict[str, exp.Expr]) -> None:
    _substitute(outer, table.alias_or_name, outputs)
    where = outer.args.get("where")
    outer.set("where", None)
    for name in ("from_", "joins", "where", "group", "having"):
        outer.set(name, inner.args.get(name))
    if where is not None:
        _add_condition(outer, "having", exp.Having, where.this)


def _add_condition(select: exp.Select, name: str, clause: type[exp.Where | exp.Having], condition: exp.Expr) -> None:
    """Add a condition to a clause with AND."""
    present = select.args.get(name)
    both = condition if present is None else exp.and_(condition, present.this, copy=False)
    select.set(name, clause(this=both))


def _substitute(select: exp.Select, alias: str, outputs: dict[str, exp.Expr]) -> None:
    """Put expressions in place of the columns of a table."""
    for column in list(_columns_of(select, alias)):
        expression = outputs[column.name.lower()].copy()
        is_alone = isinstance(column.parent, (exp.Alias, exp.Group)) or isinstance(expression, (exp.Column, exp.Func))
        column.replace(expression if is_alone else exp.Paren(this=expression))


def _columns_of(select: exp.Select, alias: str) -> Iterator[exp.Column]:
    """Yield a SELECT's uses of one table's columns, also uses in subqueries that have no table of the same name."""
    for column in select.find_all(exp.Column):
        if column.table != alias:
            continue
        around = column.find_ancestor(exp.Select)
        while around is not None and around is not select and alias not in own_tables(around):
            around = around.find_ancestor(exp.Select)
        if around is select:
            yield column


def own_tables(select: exp.Expr) -> set[str]:
    """Return the names in the FROM of a SELECT."""
    start = select.args.get("from_")
    parts = [] if start is None else [start.this, *(join.this for join in select.args.get("joins") or [])]
    return {part.alias_or_name for part in parts}
