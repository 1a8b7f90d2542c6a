"""By which key a flow can be spread: equal values of it always meet, and every operator sees all that it has to.

A key is taken for each base map, and followed through the graph. A column *places* its row if its value says in which
shard the row is. What compares rows with one another (a join, a group, a set of rows) is right in every shard by itself
if a placing column is among what it compares by; what treats a row by itself is right anyway. The changes of the shards
then add up to those of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from runtime.compiler.program import (
    Col,
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    Map,
    Node,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    UnionNode,
)

__all__ = ["flow_partition"]

_EXACT: Final = frozenset({"int64", "string"})
"""Types whose equal values are equal in every bit, so that they go to one shard."""
_Placing = tuple[bool, ...]
"""For each column of a node whether it places its row."""


def flow_partition(body: Flow, maps: Sequence[Map]) -> str | None:
    """The key, of this name in every base map, by which the flow can be spread; None where there is none.

    A string is preferred, which is a name (a symbol): a number may be a time, all of whose load is at one place.
    """
    scanned = [maps[node.map] for node in body.nodes if isinstance(node, ScanNode)]
    types = [{key.name: key.type for key in map_.keys} for map_ in scanned]
    for name, type_ in sorted((types[0] if types else {}).items(), key=lambda key: key[1] != "string"):
        if type_ in _EXACT and all(each.get(name) == type_ for each in types) and _meets(body, maps, name):
            return name
    return None


def _meets(body: Flow, maps: Sequence[Map], key: str) -> bool:
    """Whether rows that are placed by this key of their map need no rows of another shard."""
    type_ = next(each.type for node in body.nodes if isinstance(node, ScanNode) for each in maps[node.map].keys
                 if each.name == key)  # fmt: skip
    columns: list[tuple[str, ...]] = []
    placing: list[_Placing] = []
    for node in body.nodes:
        if isinstance(node, ScanNode):
            names = tuple(each.name for each in maps[node.map].keys)
            found: _Placing | None = tuple(name == key for name in names)
        elif isinstance(node, SelectNode):
            given = dict(zip(columns[node.input], placing[node.input], strict=True))
            names = tuple(column.name for column in node.columns)
            found = tuple(
                isinstance(output, Col) and given[output.name] and column.type == type_
                for column, output in zip(node.columns, node.outputs, strict=True)
            )
        else:
            names, found = _compared(node, columns, placing)
        if found is None:
            return False
        columns.append(names)
        placing.append(found)
    return bool(placing)


def _compared(
    node: Node, columns: Sequence[tuple[str, ...]], placing: Sequence[_Placing]
) -> tuple[tuple[str, ...], _Placing | None]:
    """Columns of a node that compares rows, and which place them; None where it needs rows of several shards."""

    def placed(number: int) -> Mapping[str, bool]:
        return dict(zip(columns[number], placing[number], strict=True))

    match node:
        case JoinNode() | SemiNode():
            left, right = placed(node.left), placed(node.right)
            meets = any(left[mine] and right[theirs] for mine, theirs in node.on)
            if isinstance(node, SemiNode):
                return columns[node.left], placing[node.left] if meets else None
            both = (*columns[node.left], *columns[node.right])
            return both, (*placing[node.left], *placing[node.right]) if meets else None
        case GroupNode():
            given = placed(node.input)
            names = (*node.keys, *(aggregate.name for aggregate in node.aggregates))
            found = (*(given[name] for name in node.keys), *(False for _ in node.aggregates))
            return names, found if any(found) else None
        case DistinctNode():
            return columns[node.input], placing[node.input] if any(placing[node.input]) else None
        case UnionNode():
            return columns[node.inputs[0]], _common([placing[number] for number in node.inputs])
        case SetNode():
            found = _common([placing[node.left], placing[node.right]])
            return columns[node.left], found if any(found) else None
        case _:  # the first rows of all
            return (), None


def _common(inputs: Sequence[_Placing]) -> _Placing:
    """The columns that place rows whichever input they come from."""
    return tuple(all(marks) for marks in zip(*inputs, strict=True))
