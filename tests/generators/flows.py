"""Flows by hand and at random, their deltas, and their rows, computed from scratch in plain Python over multisets."""

from __future__ import annotations

import datetime
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from runtime.plan import (
    Aggregate,
    BoundNode,
    Call,
    ColumnType,
    DistinctNode,
    Expr,
    GroupNode,
    JoinNode,
    Node,
    Program,
    Quantile,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
    WindowFunction,
    WindowNode,
)
from tests.generators.programs import evaluate

__all__ = ["Held", "Row", "fields_of", "from_scratch", "place_of", "plain", "windowed"]

Row = tuple[Any, ...]
Held = Mapping[int, Counter[Row]]
"""Rows of the base maps."""
Fields = tuple[tuple[str, ColumnType], ...]

NAN = "NaN"
"""Placeholder for NaN, which is not equal to itself."""
EPOCH = datetime.date(1970, 1, 1)


def plain(value: Any, type_: ColumnType) -> Any:
    """Return a value in the form in which these tests compare it."""
    if value is None:
        return None
    if type_ in ("int64", "int128"):
        return int(value)
    if type_ == "float64":
        return NAN if math.isnan(value) else value + 0.0
    return value


def fields_of(maps: Sequence[Fields], nodes: Sequence[Node]) -> list[Fields]:
    """Return the columns of each node."""
    found: list[Fields] = []
    for node in nodes:
        if isinstance(node, ScanNode):
            found.append(maps[node.map])
        elif isinstance(node, SelectNode):
            found.append(tuple((c.name, c.type) for c in node.columns))
        elif isinstance(node, JoinNode):
            found.append((*found[node.left], *found[node.right]))
        elif isinstance(node, GroupNode):
            types = dict(found[node.input])
            found.append((*((k, types[k]) for k in node.keys), *((a.name, a.type) for a in node.aggregates)))
        elif isinstance(node, WindowNode):
            found.append((*found[node.input], *((f.name, f.type) for f in node.functions)))
        elif isinstance(node, UnionNode):
            found.append(found[node.inputs[0]])
        else:
            found.append(found[node.left if isinstance(node, (BoundNode, SemiNode, SetNode)) else node.input])
    return found


class PlannedFlow(Protocol):
    """Description of a flow, without its execution."""

    maps: list[Fields]
    """Keys of the base maps."""
    nodes: tuple[Node, ...]
    """Nodes of the flow."""
    program: Program
    """Program with the flow as its view."""


def from_scratch(lab: PlannedFlow, held: Held) -> Counter[Row]:
    """Return the rows of the last node over these rows of the maps, none of which has a negative weight."""
    fields = fields_of(lab.maps, lab.nodes)
    rows: list[Counter[Row]] = []
    for node in lab.nodes:
        if isinstance(node, ScanNode):
            rows.append(Counter({row: weight for row, weight in held[node.map].items() if weight}))
        else:
            rows.append(_evaluate(node, fields, rows, zero=lab.program.mode == "dbtoaster"))
    return rows[-1]


def _evaluate(node: Node, fields: list[Fields], rows: list[Counter[Row]], *, zero: bool) -> Counter[Row]:
    result: Counter[Row] = Counter()
    if isinstance(node, SelectNode):
        for row, weight in rows[node.input].items():
            named = dict(zip((name for name, _ in fields[node.input]), row, strict=True))
            if node.where is None or evaluate(node.where, named) is True:
                result[tuple(evaluate(e, named) for e in node.outputs)] += weight
    elif isinstance(node, (BoundNode, JoinNode, SemiNode)):
        _match(node, fields, rows, result)
    elif isinstance(node, DistinctNode):
        result.update(dict.fromkeys(rows[node.input], 1))
    elif isinstance(node, UnionNode):
        for number in node.inputs:
            result.update(rows[number])
    elif isinstance(node, SetNode):
        left, right = rows[node.left], rows[node.right]
        for row, weight in left.items():
            other = right[row]
            result[row] = {
                "except": int(not other),
                "except_all": max(weight - other, 0),
                "intersect": int(other > 0),
                "intersect_all": min(weight, other),
            }[node.kind]
    elif isinstance(node, GroupNode):
        _group(node, fields[node.input], rows[node.input], result, zero=zero)
    elif isinstance(node, TopNode):
        every = sorted(rows[node.input].elements(), key=_rank(node.order, fields[node.input]))
        result.update(every[node.offset :][: node.limit])
    elif isinstance(node, WindowNode):
        result.update(windowed(node, fields[node.input], rows[node.input], zero=zero))
    return Counter({row: weight for row, weight in result.items() if weight})


def _bounded(node: BoundNode, fields: list[Fields], rows: list[Counter[Row]]) -> Counter[Row]:
    (bound,) = [row[0] for row in rows[node.right]] or [None]
    place = [name for name, _ in fields[node.left]].index(node.value)
    compare = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}[node.op]
    left = rows[node.left].items()
    return Counter({row: n for row, n in left if None not in (row[place], bound) and compare(row[place], bound)})


def _match(
    node: BoundNode | JoinNode | SemiNode, fields: list[Fields], rows: list[Counter[Row]], result: Counter[Row]
) -> None:
    if isinstance(node, BoundNode):
        result.update(_bounded(node, fields, rows))
        return
    names = [[name for name, _ in fields[number]] for number in (node.left, node.right)]
    places = [(names[0].index(left), names[1].index(right)) for left, right in node.on]
    for left, weight in rows[node.left].items():
        matches = [
            (right, times)
            for right, times in rows[node.right].items()
            if all(left[a] is not None and left[a] == right[b] for a, b in places)
        ]
        if isinstance(node, SemiNode):
            if bool(matches) != node.anti:
                result[left] += weight
            continue
        for right, times in matches:
            result[left + right] += weight * times


def _group(node: GroupNode, fields: Fields, rows: Counter[Row], result: Counter[Row], *, zero: bool) -> None:
    names = [name for name, _ in fields]
    keys = [names.index(key) for key in node.keys]
    groups: dict[Row, Counter[Row]] = {} if keys else {(): Counter()}
    for row, weight in rows.items():
        groups.setdefault(tuple(row[k] for k in keys), Counter())[row] += weight
    for key, members in groups.items():
        result[(*key, *(_aggregate(a, names, dict(fields), members, zero=zero) for a in node.aggregates))] += 1


def _aggregate(
    aggregate: Aggregate, names: list[str], types: dict[str, ColumnType], rows: Counter[Row], *, zero: bool
) -> Any:
    if aggregate.column is None:
        return rows.total()
    place, type_ = names.index(aggregate.column), types[aggregate.column]
    values = [row[place] for row in rows.elements() if row[place] is not None]
    distinct = set(values)
    if aggregate.kind in ("count", "count_distinct"):
        return len(values) if aggregate.kind == "count" else len(distinct)
    if not values:
        is_zero = zero and aggregate.kind in ("sum", "sum_distinct") and type_ in ("int64", "int128", "float64")
        return 0 if is_zero else None
    if aggregate.quantile is not None:
        return sorted(values, key=_comparable)[place_of(aggregate.quantile, len(values))]
    if aggregate.kind in ("sum", "sum_distinct"):
        return sum(values if aggregate.kind == "sum" else distinct)
    return (min if aggregate.kind == "min" else max)(values, key=_comparable)


def place_of(quantile: Quantile, number: int) -> int:
    """Return the place of a quantile among ``number`` values."""
    if quantile.kind == "disc":
        return max(math.ceil(Fraction(quantile.part * number, quantile.whole)), 1) - 1
    place = Fraction(quantile.part * (number - 1), quantile.whole)
    return math.floor(place) if quantile.kind == "floor" else math.ceil(place)


def windowed(node: WindowNode, fields: Fields, rows: Counter[Row], *, zero: bool) -> list[Row]:
    """Return the rows with the results of window functions; every function visits all rows of the partition."""
    names = [name for name, _ in fields]
    keys = [names.index(name) for name in node.partition]
    partitions: dict[Row, list[Row]] = {}
    for row in sorted(rows.elements(), key=_rank(node.order, fields)):
        partitions.setdefault(tuple(row[key] for key in keys), []).append(row)
    criteria = [names.index(name) for name, _, _ in node.order[: node.peers]]
    found = []
    for members in partitions.values():
        peers = [tuple(row[place] for place in criteria) for row in members]
        for at, row in enumerate(members):
            if node.limit is not None and _ranking(node.limit[0], peers, at) > node.limit[1]:
                continue
            found.append((*row, *(_of_window(f, names, dict(fields), (members, peers), at, zero=zero)
                                  for f in node.functions)))  # fmt: skip
    return found


def _ranking(kind: str, peers: list[Row], at: int) -> int:
    if kind == "row_number":
        return at + 1
    first = peers.index(peers[at])
    return first + 1 if kind == "rank" else len(set(peers[:first])) + 1


def _of_window(
    function: WindowFunction,
    names: list[str],
    types: dict[str, ColumnType],
    partition: tuple[list[Row], list[Row]],
    at: int,
    *,
    zero: bool,
) -> Any:
    members, peers = partition
    if function.kind in ("row_number", "rank", "dense_rank"):
        return _ranking(function.kind, peers, at)
    if function.kind in ("lag", "lead", "first_value"):
        place = {"lag": at - function.offset, "lead": at + function.offset, "first_value": 0}[function.kind]
        assert function.column is not None
        return members[place][names.index(function.column)] if 0 <= place < len(members) else None
    first, end = 0, len(peers) - peers[::-1].index(peers[at])
    if function.frame is not None:
        first = 0 if function.frame[0] is None else max(0, at - function.frame[0])
        end = max(0, at + function.frame[1] + 1)
    aggregate = Aggregate(function.name, function.kind, function.column, function.type)  # type: ignore[arg-type]  # it is one of both
    return _aggregate(aggregate, names, types, Counter(members[first:end]), zero=zero)


def _rank(criteria: Sequence[tuple[str, bool, bool]], fields: Fields) -> Callable[[Row], Row]:
    names = [name for name, _ in fields]
    order = [*criteria, *((name, False, False) for name in names)]

    def rank(row: Row) -> Row:
        keys: list[Any] = []
        for name, descending, nulls_first in order:
            value = row[names.index(name)]
            place = (0 if nulls_first else 2) if value is None else 1
            comparable = () if value is None else _comparable(value)
            keys += [place, _Reversed(comparable) if descending else comparable]
        return tuple(keys)

    return rank


class _Reversed:
    """Sort key that reverses the order."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _comparable(value: Any) -> Any:
    if value == NAN:
        return (1, 0.0)
    return value.encode() if isinstance(value, str) else (0, value)


def call(op: Any, *args: Expr) -> Call:
    """Return an operation."""
    return Call(op, args)
