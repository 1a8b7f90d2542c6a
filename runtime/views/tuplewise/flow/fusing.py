"""Finds groups of nodes for which there is one operator that says the same.

* the best value of a group, the rows that have it, their sums: `Best`
* a join, and the rows of one or both sides that match nothing, filled up with NULLs: `Outer`

Nodes that nothing reads any more are left out (None).
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.compiler.program import (
    Col,
    Expr,
    GroupNode,
    JoinNode,
    Lit,
    Map,
    Node,
    Program,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    UnionNode,
)
from runtime.views.tuplewise.flow.best import Best
from runtime.views.tuplewise.flow.operator import Field
from runtime.views.tuplewise.flow.outer import Outer

__all__ = ["AnyNode", "fused", "inputs_of"]

AnyNode = Node | Best | Outer


def inputs_of(node: AnyNode) -> tuple[int, ...]:
    """The nodes that a node reads."""
    if isinstance(node, (ScanNode, Best)):
        return ()
    if isinstance(node, (JoinNode, SemiNode, SetNode, Outer)):
        return (node.left, node.right)
    return node.inputs if isinstance(node, UnionNode) else (node.input,)


def fused(nodes: Sequence[Node], program: Program) -> list[AnyNode | None]:
    """The nodes, each in its place."""
    found: list[AnyNode | None] = []
    for node in nodes:
        if isinstance(node, GroupNode):
            found.append(_best(node, nodes, program) or node)
        elif isinstance(node, UnionNode):
            found.append(_outer(node, nodes) or node)
        else:
            found.append(node)
    needed = {len(nodes) - 1}
    for place in range(len(nodes) - 1, -1, -1):
        node_here = found[place]
        if place in needed and node_here is not None:
            needed.update(inputs_of(node_here))
        else:
            found[place] = None
    return found


def _best(node: GroupNode, nodes: Sequence[Node], program: Program) -> Best | None:
    semi = nodes[node.input]
    if not isinstance(semi, SemiNode) or semi.anti:
        return None
    rows, best = nodes[semi.left], nodes[semi.right]
    if not isinstance(rows, ScanNode) or not isinstance(best, GroupNode) or len(best.aggregates) != 1:
        return None
    values, extreme = nodes[best.input], best.aggregates[0]
    if not isinstance(values, ScanNode) or extreme.kind not in ("min", "max") or not best.keys:
        return None
    held, counted = program.maps[rows.map], program.maps[values.map]
    exprs, others = _exprs(held), _exprs(counted)
    columns = next(r.columns for r in program.relations if r.name == held.relation)
    pairs = {right: left for left, right in semi.on}
    value = pairs.get(extreme.name)
    groups = [pairs.get(key) for key in best.keys]
    same = (
        held.relation == counted.relation
        and held.where == counted.where
        and len(pairs) == len(semi.on) == 1 + len(best.keys)
        and value is not None
        and None not in groups
        and extreme.column is not None
        and exprs[value] == others[extreme.column]
        and all(exprs[str(left)] == others[right] for left, right in zip(groups, best.keys, strict=True))
        and sorted(node.keys) == sorted([value, *map(str, groups)])
    )
    if not same or value is None or any(column.nullable for column in columns):
        return None
    if any(a.kind not in ("sum", "count_rows") for a in node.aggregates):
        return None
    if not all(isinstance(expr, Col) for expr in exprs.values()):
        return None
    types = {key.name: key.type for key in held.keys}
    if types[value] != "int64" or any(a.column and types[a.column] != "int64" for a in node.aggregates):
        return None
    names = [*map(str, groups), value]
    kept = [(exprs[name], Field(name, types[name], False)) for name in names]
    aggregates = tuple((a, exprs[a.column] if a.column else None) for a in node.aggregates)
    order = tuple(names.index(name) for name in node.keys)
    return Best(held.relation, held.where, tuple(kept[:-1]), kept[-1], extreme.kind == "max", aggregates, order)


def _exprs(map_: Map) -> dict[str, Expr]:
    return {key.name: key.expr for key in map_.keys}


def _outer(node: UnionNode, nodes: Sequence[Node]) -> Outer | None:
    join = nodes[node.inputs[0]]
    if not isinstance(join, JoinNode) or len(node.inputs) not in (2, 3) or not join.on:
        return None
    sides = ((join.left, join.right, join.on), (join.right, join.left, tuple((b, a) for a, b in join.on)))
    for padded, (own, other, on), is_left in zip(node.inputs[1:], sides, (True, False), strict=False):
        if not _is_padded(nodes, padded, own, other, on, is_left=is_left):
            return None
    return Outer(join.left, join.right, join.on, len(node.inputs) == 3)


def _is_padded(
    nodes: Sequence[Node], place: int, own: int, other: int, on: tuple[tuple[str, str], ...], *, is_left: bool
) -> bool:
    """Whether a node is the rows of one side that match nothing on the other, filled up with NULLs."""
    select = nodes[place]
    if not isinstance(select, SelectNode) or select.where is not None:
        return False
    anti = nodes[select.input]
    if not isinstance(anti, SemiNode) or not anti.anti or anti.left != own or len(anti.on) != len(on):
        return False
    if {(a, _origin(nodes, anti.right, b)) for a, b in anti.on} != {(a, _origin(nodes, other, b)) for a, b in on}:
        return False
    columns = _columns(nodes, own)
    if columns is None:
        return False
    kept = [Col(name) for name in columns]
    nulls = [Lit(None)] * (len(select.outputs) - len(kept))
    return list(select.outputs) == ([*kept, *nulls] if is_left else [*nulls, *kept])


def _columns(nodes: Sequence[Node], place: int) -> list[str] | None:
    node = nodes[place]
    return [column.name for column in node.columns] if isinstance(node, SelectNode) else None


def _origin(nodes: Sequence[Node], place: int, column: str) -> tuple[int, str]:
    """Where a column comes from that selections without a condition only pass on."""
    node = nodes[place]
    while isinstance(node, SelectNode) and node.where is None:
        names = [each.name for each in node.columns]
        output = node.outputs[names.index(column)]
        if not isinstance(output, Col):
            break
        place, column = node.input, output.name
        node = nodes[place]
    return place, column
