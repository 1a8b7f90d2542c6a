"""Nodes of a flow under construction: equal nodes are shared, and base maps filter and project where they can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from runtime.compiler.maps import MapSet, all_of, column_keys, key_name
from runtime.compiler.operands import Lowered
from runtime.compiler.types import INT, Type, types_of
from runtime.plan import (
    Aggregate,
    BoundNode,
    Call,
    Col,
    DistinctNode,
    Expr,
    Flow,
    GroupNode,
    JoinNode,
    Key,
    Lit,
    Node,
    Relation,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
    WindowFunction,
    WindowNode,
    columns_read,
    renamed,
)

__all__ = ["Bound", "Graph", "Outputs", "Rows", "free_name"]

Outputs = Sequence[tuple[str, Lowered]]
SetKind = Literal["except", "except_all", "intersect", "intersect_all"]


class _Scan(msgspec.Struct, frozen=True):
    """Base map that gets its number only if the view needs it."""

    relation: str
    """Name of its relation."""
    where: Expr | None
    """Condition on the rows; None for all rows."""
    keys: tuple[Key, ...]
    """Keys, in the order of their names."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Output of a node."""

    node: int
    """Number of the node in the graph."""
    columns: Mapping[str, Type]
    """Columns in order."""

    def column(self, name: str) -> Lowered:
        """Return one of the columns as an expression."""
        return Lowered(Col(name), self.columns[name])

    def all(self) -> list[tuple[str, Lowered]]:
        """Return all columns as outputs of a projection."""
        return [(name, self.column(name)) for name in self.columns]


@dataclass(frozen=True, slots=True)
class Bound:
    """Bound with which a column of rows is compared."""

    op: Literal["lt", "le", "gt", "ge"]
    """Comparison of the column with the bound."""
    rows: Rows
    """Output of a node with a single row, which contains the bound."""
    column: str
    """Column of the bound."""
    rises: bool
    """True if the bound never falls."""


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, numbered if it is taken; ``weight``, a name that every map has, gets an underscore."""
    candidate, number = key_name(name), 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


class Graph:
    """Nodes in the order in which they were added."""

    def __init__(self) -> None:
        self._nodes: list[_Scan | Node] = []
        self._types: list[Mapping[str, Type]] = []
        self._numbers: dict[_Scan | Node, int] = {}

    def _add(self, node: _Scan | Node, columns: Mapping[str, Type]) -> Rows:
        number = self._numbers.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
            self._types.append(dict(columns))
        return Rows(number, dict(columns))

    # --- filters and projections

    def scan(self, relation: Relation, names: set[str]) -> Rows:
        """Return these columns of a relation, named by `key_name`."""
        types = types_of(relation)
        keys = column_keys(relation, names)
        kinds = {key.name: types[key.expr.name] if isinstance(key.expr, Col) else INT for key in keys}
        return self._scan(relation.name, None, keys, kinds)

    def _scan(self, relation: str, where: Expr | None, keys: Sequence[Key], kinds: Mapping[str, Type]) -> Rows:
        ordered = tuple(sorted(keys, key=lambda key: key.name))
        return self._add(_Scan(relation, where, ordered), {key.name: kinds[key.name] for key in ordered})

    def select(self, rows: Rows, where: Expr | None, outputs: Outputs) -> Rows:
        """Filter and project; the order of the output columns is not fixed (see `arranged`)."""
        outputs = list(outputs) or [("one", Lowered(Lit(1), INT))]
        same = len(outputs) == len(rows.columns) and all(
            value.expr == Col(name) and value.type.kind == rows.columns[name].kind for name, value in outputs
        )
        if where is None and same:
            return rows
        node = self._nodes[rows.node]
        if isinstance(node, _Scan):
            return self._select_scan(rows, node, where, outputs)
        if isinstance(node, SelectNode) and _may_merge(node, where, outputs):
            inner = {column.name: expr for column, expr in zip(node.columns, node.outputs, strict=True)}
            both = all_of([node.where, None if where is None else renamed(where, inner)])
            merged = [(name, Lowered(renamed(value.expr, inner), value.type)) for name, value in outputs]
            return self.select(Rows(node.input, self._types[node.input]), both, merged)
        return self._project(rows, where, outputs)

    def _select_scan(self, rows: Rows, node: _Scan, where: Expr | None, outputs: Outputs) -> Rows:
        """Return a scan whose map applies the condition and computes the expressions.

        If outputs are only columns, a projection after the scan renames them, so that other views can share the map.
        """
        inner = {key.name: key.expr for key in node.keys}
        both = all_of([node.where, None if where is None else renamed(where, inner)])
        if any(not isinstance(value.expr, Col) for _, value in outputs):
            keys = [Key(name, value.type.column(name).type, renamed(value.expr, inner)) for name, value in outputs]
            return self._scan(node.relation, both, keys, {name: value.type for name, value in outputs})
        used = {value.expr.name for _, value in outputs if isinstance(value.expr, Col)}
        scan = self._scan(node.relation, both, [key for key in node.keys if key.name in used], rows.columns)
        if all(value.expr == Col(name) for name, value in outputs):
            return scan
        return self._project(scan, None, outputs)

    def _project(self, rows: Rows, where: Expr | None, outputs: Outputs) -> Rows:
        columns = tuple(value.type.column(name) for name, value in outputs)
        number, where = self._limited(rows.node, where)
        number = self._without_functions(number, where, [value.expr for _, value in outputs])
        node = SelectNode(number, where, columns, tuple(value.expr for _, value in outputs))
        return self._add(node, {name: value.type for name, value in outputs})

    # --- limits of window functions

    def _limited(self, number: int, where: Expr | None) -> tuple[int, Expr | None]:
        """Apply to a window node the conditions that limit its ranking; return the node and the other conditions."""
        rest = []
        for part in _conjuncts_of(where):
            bound = _bound_of(part)
            limited = None if bound is None else self._limit(number, bound[0], bound[1])
            if limited is None:
                rest.append(part)
                continue
            number, is_exact = limited, bound is not None and bound[2]
            if not is_exact:
                rest.append(part)
        return number, all_of(rest)

    def _limit(self, number: int, column: str, most: int) -> int | None:
        """Return the node with only the rows in which a column is at most ``most``.

        Return None unless the column is a ranking of a window node that can apply the limit.
        """
        node = self._nodes[number]
        if isinstance(node, SelectNode):
            sources = {c.name: expr for c, expr in zip(node.columns, node.outputs, strict=True)}
            source = sources[column]
            inner = self._limit(node.input, source.name, most) if isinstance(source, Col) else None
            return None if inner is None else self._again(number, msgspec.structs.replace(node, input=inner))
        if not isinstance(node, WindowNode) or any(each.ahead or each.has_peers for each in node.functions):
            return None
        kind = next((each.kind for each in node.functions if each.name == column), None)
        if kind not in ("row_number", "rank", "dense_rank") or (node.limit is not None and node.limit[0] != kind):
            return None
        most = most if node.limit is None else min(most, node.limit[1])
        return self._again(number, msgspec.structs.replace(node, limit=(kind, most)))

    def _again(self, number: int, node: Node) -> int:
        """Return the number of ``node``, which has the columns of node ``number``; add it if it is missing."""
        return self._add(node, self._types[number]).node

    def _without_functions(self, number: int, where: Expr | None, outputs: Sequence[Expr]) -> int:
        """Return the node without its unused window functions; a node without a limit never loses all of them."""
        node = self._nodes[number]
        if not isinstance(node, WindowNode):
            return number
        used = {name for expr in (*outputs, *([] if where is None else [where])) for name in columns_read(expr)}
        functions = tuple(each for each in node.functions if each.name in used)
        if functions == node.functions or (not functions and node.limit is None):
            return number
        gone = {each.name for each in node.functions} - used
        columns = {name: kind for name, kind in self._types[number].items() if name not in gone}
        return self._add(msgspec.structs.replace(node, functions=functions), columns).node

    def filter(self, rows: Rows, conditions: Sequence[Expr]) -> Rows:
        """Return the rows for which all conditions are true."""
        return self.select(rows, all_of(conditions), rows.all()) if conditions else rows

    def keep(self, rows: Rows, names: Collection[str]) -> Rows:
        """Return only these columns."""
        return self.select(rows, None, [output for output in rows.all() if output[0] in names])

    def extended(self, rows: Rows, values: Sequence[Lowered]) -> tuple[Rows, list[str]]:
        """Return the rows with these values as further columns, and the names of the values' columns."""
        outputs = rows.all()
        names = []
        for value in values:
            known = next((name for name, other in outputs if other.expr == value.expr), None)
            if known is None:
                known = free_name("key", [name for name, _ in outputs])
                outputs.append((known, value))
            names.append(known)
        return self.select(rows, None, outputs), names

    def arranged(self, rows: Rows, outputs: Outputs) -> Rows:
        """Return these columns in this order."""
        done = self.select(rows, None, outputs)
        names = [name for name, _ in outputs]
        if list(done.columns) == names:
            return done
        return self._project(done, None, [(name, done.column(name)) for name in names])

    # --- other nodes

    def apart(self, left: Rows, right: Rows) -> tuple[Rows, dict[str, str]]:
        """Rename right columns that have the name of a left column.

        Return the right rows, and the new name of each right column.
        """
        names: dict[str, str] = {}
        for name in right.columns:
            names[name] = free_name(name, {*left.columns, *names.values()})
        if any(old != new for old, new in names.items()):
            right = self._project(right, None, [(names[name], value) for name, value in right.all()])
        return right, names

    def join(self, left: Rows, right: Rows, on: Sequence[tuple[str, str]]) -> Rows:
        """Return the join of rows that have no column name in common (see `apart`)."""
        assert not left.columns.keys() & right.columns.keys()
        return self._add(JoinNode(left.node, right.node, tuple(on)), {**left.columns, **right.columns})

    def semi(self, left: Rows, right: Rows, on: Sequence[tuple[str, str]], *, anti: bool) -> Rows:
        """Return the left rows that have a match on the right, or with ``anti`` the left rows that have none.

        Without equalities every right row is a match.
        """
        if not on:
            left_one, (unit,) = self.extended(left, [Lowered(Lit(1), INT)])
            right_one = self.select(right, None, [("one", Lowered(Lit(1), INT))])
            return self.keep(self.semi(left_one, right_one, [(unit, "one")], anti=anti), left.columns)
        right = self.keep(right, [name for _, name in on])
        return self._add(SemiNode(left.node, right.node, tuple(on), anti), left.columns)

    def bounded(self, rows: Rows, value: str, bound: Bound) -> Rows:
        """Return the rows in which the bound's comparison is true for the column ``value``."""
        bounds = self.keep(bound.rows, [bound.column])
        node = BoundNode(rows.node, bounds.node, value, bound.op, bound.column, bound.rises)
        return self._add(node, rows.columns)

    def group(self, rows: Rows, keys: Sequence[str], aggregates: Sequence[tuple[Aggregate, Type]]) -> Rows:
        """Return the rows grouped by the keys: columns are the keys, then the aggregates."""
        columns = {key: rows.columns[key] for key in keys} | {part.name: kind for part, kind in aggregates}
        return self._add(GroupNode(rows.node, tuple(keys), tuple(part for part, _ in aggregates)), columns)

    def distinct(self, rows: Rows) -> Rows:
        """Return every row once."""
        return self._add(DistinctNode(rows.node), rows.columns)

    def union(self, arms: Sequence[Rows]) -> Rows:
        """Return all rows of all arms, whose columns have the same types in the same order."""
        inputs: list[int] = []
        for arm in arms:
            node = self._nodes[arm.node]
            inputs += node.inputs if isinstance(node, UnionNode) else [arm.node]
        kinds = {
            name: kind.with_null(any(list(arm.columns.values())[place].nullable for arm in arms))
            for place, (name, kind) in enumerate(arms[0].columns.items())
        }
        return self._add(UnionNode(tuple(inputs)), kinds)

    def set_operation(self, kind: SetKind, left: Rows, right: Rows) -> Rows:
        """Return EXCEPT or INTERSECT of two inputs whose columns have the same types in the same order."""
        return self._add(SetNode(left.node, right.node, kind), left.columns)

    def top(self, rows: Rows, order: Sequence[tuple[str, bool, bool]], limit: int | None, offset: int) -> Rows:
        """Return the rows of ORDER BY, LIMIT and OFFSET."""
        return self._add(TopNode(rows.node, tuple(order), limit, offset), rows.columns)

    def window(
        self,
        rows: Rows,
        partition: Sequence[str],
        order: Sequence[tuple[str, bool, bool]],
        peers: int,
        functions: Sequence[tuple[WindowFunction, Type]],
    ) -> Rows:
        """Return the rows with further columns for window functions, which are computed over ordered partitions."""
        node = WindowNode(rows.node, tuple(partition), tuple(order), peers, tuple(each for each, _ in functions))
        return self._add(node, {**rows.columns, **{each.name: kind for each, kind in functions}})

    # --- the end

    def finish(self, rows: Rows, maps: MapSet) -> Flow:
        """Return the flow whose last node outputs these rows, and add its maps."""
        needed = {rows.node}
        for number in range(rows.node, -1, -1):
            node = self._nodes[number]
            if number in needed and not isinstance(node, _Scan):
                needed.update(node.reads())
        order = [number for number in sorted(needed) if number != rows.node] + [rows.node]
        places = {number: place for place, number in enumerate(order)}
        nodes: list[Node] = []
        for number in order:
            node = self._nodes[number]
            if isinstance(node, _Scan):
                nodes.append(ScanNode(maps.add(node.relation, node.where, node.keys)))
            else:
                nodes.append(node.reading(places))
        return Flow(tuple(nodes))


def _may_merge(node: SelectNode, where: Expr | None, outputs: Outputs) -> bool:
    """Return True if no operation would be computed twice after two projections are merged."""
    uses = Counter(name for expr in (*(value.expr for _, value in outputs), *([where] if where else []))
                   for name in columns_read(expr))  # fmt: skip
    return all(not isinstance(expr, Call) or uses[column.name] <= 1
               for column, expr in zip(node.columns, node.outputs, strict=True))  # fmt: skip


def _conjuncts_of(where: Expr | None) -> list[Expr]:
    """Return the conjuncts of a condition."""
    if where is None:
        return []
    if isinstance(where, Call) and where.op == "and":
        return [part for argument in where.args for part in _conjuncts_of(argument)]
    return [where]


_TURNED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
"""Comparison → equivalent comparison of the exchanged sides."""


def _bound_of(condition: Expr) -> tuple[str, int, bool] | None:
    """Return the column that a condition limits, its greatest allowed value, and a flag for a pure limit.

    The condition is a pure limit if every integer from 1 to the greatest value satisfies it. Return None for a
    condition that does not limit a column.
    """
    if not isinstance(condition, Call) or condition.op not in _TURNED:
        return None
    (left, right), op = condition.args, str(condition.op)
    if isinstance(left, Lit):
        left, right, op = right, left, _TURNED[op]
    if not isinstance(left, Col) or not isinstance(right, Lit) or op in ("gt", "ge"):
        return None
    if not isinstance(right.value, int) or isinstance(right.value, bool):
        return None
    most = right.value - (op == "lt")
    return None if most < 1 else (left.name, most, op != "eq" or most == 1)
