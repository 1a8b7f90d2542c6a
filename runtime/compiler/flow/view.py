"""A whole query as a view: its class, and the reason in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlglot import exp

from runtime.compiler.flow.queries import Queries
from runtime.compiler.maps import MapSet
from runtime.compiler.operands import Candidate
from runtime.plan import (
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    Relation,
    ScanNode,
    SemiNode,
    SetNode,
    TopNode,
    ViewClass,
)

__all__ = ["flow_view"]


def flow_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """The query in this class, its maps added; raises `NotIncremental` with the reason why it has no place here."""
    queries = Queries(relations, zero=zero)
    result = queries.query(tree, None, None)
    names: list[str] = []
    outputs = []
    for number, (_, value) in enumerate(result.outputs, 1):
        names.append(f"column_{number}")
        outputs.append((names[-1], value))
    body = queries.graph.finish(queries.graph.arranged(result.rows, outputs), maps)
    view_class = _class_of(body)
    types = tuple(value.type for _, value in outputs)
    return Candidate(body, types, view_class, _reason(body, maps))


def _class_of(body: Flow) -> ViewClass:
    if body.is_ordered():
        return "ordered"
    if any(isinstance(node, (JoinNode, SemiNode, SetNode)) for node in body.nodes):
        return "multilinear"
    return "linear"


def _reason(body: Flow, maps: MapSet) -> str:
    """What its operators do, as in "joins by equality, keeps MAX in an ordered index"."""
    kinds = Counter(type(node) for node in body.nodes)
    relations = {maps.maps[node.map].relation for node in body.nodes if isinstance(node, ScanNode)}
    parts = [f"operators over {_many(len(relations), 'relation')}"]
    joins = [node for node in body.nodes if isinstance(node, JoinNode)]
    equal = sum(bool(node.on) for node in joins)
    if equal:
        parts.append(f"{_many(equal, 'join')} by equality")
    if len(joins) > equal:
        parts.append(f"{_many(len(joins) - equal, 'product')}, of which a change costs all rows of the other side")
    if kinds[SemiNode]:
        parts.append(_many(kinds[SemiNode], "semijoin"))
    if kinds[SetNode]:
        parts.append("a difference or intersection")
    groups = [node for node in body.nodes if isinstance(node, GroupNode)]
    if groups:
        parts.append(_many(len(groups), "grouping"))
    if body.extremes():
        parts.append(f"{' and '.join(body.extremes())} in an ordered index")
    if any(part.kind.endswith("distinct") for node in groups for part in node.aggregates) or kinds[DistinctNode]:
        parts.append("distinct values counted")
    if kinds[TopNode]:
        parts.append("the first rows in an ordered index")
    return ", ".join(parts)


def _many(number: int, what: str) -> str:
    return f"one {what}" if number == 1 else f"{number} {what}s"
