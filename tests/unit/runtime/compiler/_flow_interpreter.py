"""An obvious interpreter of flows: every node from scratch, as a multiset, with loops."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

from runtime.plan import (
    Aggregate,
    BoundNode,
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    Map,
    Node,
    Relation,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
    WindowNode,
)
from tests.generators.flows import place_of, windowed
from tests.generators.programs import evaluate, groups

Row = tuple[Any, ...]
Bag = tuple[list[str], Counter[Row]]
"""Names of columns, and rows with their number."""


def run_flow(
    flow: Flow, maps: Sequence[Map], relations: Mapping[str, Relation], data: Mapping[str, Sequence[Row]]
) -> Counter[Row]:
    """The rows of the last node."""
    done: list[Bag] = []
    for node in flow.nodes:
        if isinstance(node, ScanNode):
            part = maps[node.map]
            found = groups(part, relations[part.relation], data[part.relation])
            bag = Counter({row: held["weight"] for row, held in found.items()})
            done.append(([key.name for key in part.keys], bag))
        else:
            done.append(_run(node, done))
        names, rows = done[-1]
        assert len(set(names)) == len(names), f"expected names once each, was {names}"
        assert all(weight > 0 and len(row) == len(names) for row, weight in rows.items())
    return done[-1][1]


def _run(node: Node, done: Sequence[Bag]) -> Bag:
    if isinstance(node, SelectNode):
        return _select(node, *done[node.input])
    if isinstance(node, JoinNode):
        return _join(node, done[node.left], done[node.right])
    if isinstance(node, SemiNode):
        return _semi(node, done[node.left], done[node.right])
    if isinstance(node, BoundNode):
        return _bounded(node, done[node.left], done[node.right])
    if isinstance(node, GroupNode):
        return _group(node, *done[node.input])
    if isinstance(node, DistinctNode):
        names, rows = done[node.input]
        return names, Counter(dict.fromkeys(rows, 1))
    if isinstance(node, UnionNode):
        total: Counter[Row] = Counter()
        for number in node.inputs:
            total.update(done[number][1])
        return done[node.inputs[0]][0], total
    if isinstance(node, SetNode):
        return _set(node, done[node.left], done[node.right])
    if isinstance(node, WindowNode):
        names, rows = done[node.input]
        results = windowed(node, tuple((name, "int64") for name in names), rows, zero=False)
        return [*names, *(function.name for function in node.functions)], Counter(results)
    assert isinstance(node, TopNode)
    return _top(node, *done[node.input])


def _select(node: SelectNode, names: list[str], rows: Counter[Row]) -> Bag:
    result: Counter[Row] = Counter()
    for row, weight in rows.items():
        values = dict(zip(names, row, strict=True))
        if node.where is None or evaluate(node.where, values) is True:
            result[tuple(evaluate(output, values) for output in node.outputs)] += weight
    return [column.name for column in node.columns], result


def _key(names: Sequence[str], columns: Sequence[str]) -> Callable[[Row], Row]:
    places = [names.index(column) for column in columns]
    return lambda row: tuple(row[place] for place in places)


def _join(node: JoinNode, left: Bag, right: Bag) -> Bag:
    result: Counter[Row] = Counter()
    one, other = _key(left[0], [a for a, _ in node.on]), _key(right[0], [b for _, b in node.on])
    for row, weight in left[1].items():
        for partner, times in right[1].items():
            if one(row) == other(partner) and None not in one(row):
                result[row + partner] += weight * times
    return left[0] + right[0], result


def _bounded(node: BoundNode, left: Bag, right: Bag) -> Bag:
    (row,), place = right[1], left[0].index(node.value)
    bound = row[right[0].index(node.bound)]
    compare = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}[node.op]
    passing = {row: n for row, n in left[1].items() if None not in (row[place], bound) and compare(row[place], bound)}
    return left[0], Counter(passing)


def _semi(node: SemiNode, left: Bag, right: Bag) -> Bag:
    assert node.on
    one, other = _key(left[0], [a for a, _ in node.on]), _key(right[0], [b for _, b in node.on])
    there = {other(row) for row in right[1] if None not in other(row)}
    return left[0], Counter({row: weight for row, weight in left[1].items() if (one(row) in there) != node.anti})


def _group(node: GroupNode, names: list[str], rows: Counter[Row]) -> Bag:
    key = _key(names, node.keys)
    held: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in rows.elements():
        held.setdefault(key(row), []).append(row)
    result = Counter({found + tuple(_aggregate(part, names, members) for part in node.aggregates): 1
                      for found, members in held.items()})  # fmt: skip
    return [*node.keys, *(part.name for part in node.aggregates)], result


def _aggregate(part: Aggregate, names: list[str], rows: list[Row]) -> Any:
    if part.column is None:
        return len(rows)
    place = names.index(part.column)
    values = [row[place] for row in rows if row[place] is not None]
    if part.kind.endswith("distinct"):
        values = list(set(values))
    if part.kind.startswith("count"):
        return len(values)
    if not values:
        return None
    if part.quantile is not None:
        return sorted(values)[place_of(part.quantile, len(values))]
    if part.kind in ("min", "max"):
        return min(values) if part.kind == "min" else max(values)
    return sum(values)


def _set(node: SetNode, left: Bag, right: Bag) -> Bag:
    if node.kind == "except":
        result = Counter(dict.fromkeys(left[1].keys() - right[1].keys(), 1))
    elif node.kind == "except_all":
        result = left[1] - right[1]
    elif node.kind == "intersect":
        result = Counter(dict.fromkeys(left[1].keys() & right[1].keys(), 1))
    else:
        result = left[1] & right[1]
    return left[0], result


def _top(node: TopNode, names: list[str], rows: Counter[Row]) -> Bag:
    criteria = [*node.order, *((name, False, False) for name in names)]
    places = [(names.index(name), down, first) for name, down, first in criteria]

    def compare(one: Row, other: Row) -> int:
        for place, down, nulls_first in places:
            a, b = one[place], other[place]
            if a == b:
                continue
            if a is None or b is None:
                return -1 if (a is None) == nulls_first else 1
            return -1 if (a < b) != down else 1
        return 0

    ordered = sorted(rows.elements(), key=cmp_to_key(compare))[node.offset :]
    return names, Counter(ordered if node.limit is None else ordered[: node.limit])
