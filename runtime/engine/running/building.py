"""Construction of the nodes and sources of a running query, and the places of a plan where its barriers begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from runtime.engine.errors import PlanError
from runtime.engine.plan import Pipeline, Plan, Source
from runtime.engine.running.gate import Edge
from runtime.engine.running.node import RunningNode
from runtime.engine.running.source import RunningSource

if TYPE_CHECKING:
    from runtime.engine.lifetime import CallbackReference
    from runtime.engine.running.query import RunningQuery

__all__ = ["BarrierPlaces", "Built", "barrier_places", "build", "check_part"]


class BarrierPlaces(msgspec.Struct, frozen=True):
    """Indices of a plan's nodes, by their role in its barriers."""

    sources: frozenset[int]
    """Sources at which barriers begin."""
    cut_points: frozenset[int]
    """Cut points, where barriers begin for all other sources."""
    behind: frozenset[int]
    """Pipelines that a barrier passes: the cut points, and all pipelines from which no path leads to a cut point."""
    refusal: str
    """Reason why barriers are refused, with the node's name; empty if they are accepted."""


_IN_FRONT: Final = BarrierPlaces(frozenset(), frozenset(), frozenset(), "")
"""Places of a plan whose output leads to a cut point: no barrier begins there or passes."""


def barrier_places(plan: Plan) -> BarrierPlaces:
    """Return the places of a plan's barriers; raise PlanError for a plan without sources, or with an unused source."""
    fewest: dict[int, int] = {}
    most: dict[int, int] = {}
    for node in reversed(plan.nodes):
        own = int(node.is_cut_point)
        ahead = [index for index, _ in node.successors]
        fewest[node.index] = own + min([fewest[i] for i in ahead], default=0)
        most[node.index] = own + max([most[i] for i in ahead], default=0)
    sources = [node for node in plan.nodes if isinstance(node.body, Source)]
    if not sources:
        raise PlanError(f"expected a source in plan {plan.query_id}, was none")
    for node in sources:
        if not node.successors:
            raise PlanError(f"expected a pipeline after source {node.name} of plan {plan.query_id}, was none")
        if fewest[node.index] != most[node.index]:
            raise PlanError(
                f"expected all paths from source {node.name} of plan {plan.query_id} through the same number of cut "
                f"points, was {fewest[node.index]} on one and {most[node.index]} on another"
            )
        if most[node.index] > 1:
            raise PlanError(
                f"expected at most one cut point on each path from source {node.name} of plan {plan.query_id}, "
                f"was {most[node.index]}"
            )
    pipelines = [(node, node.body) for node in plan.nodes if isinstance(node.body, Pipeline)]
    return BarrierPlaces(
        frozenset(node.index for node in sources if not most[node.index]),
        frozenset(node.index for node in plan.nodes if node.is_cut_point),
        frozenset(node.index for node, _ in pipelines if node.is_cut_point or not most[node.index]),
        next((f"node {node.name}: {body.cannot_drain}" for node, body in pipelines if body.cannot_drain), ""),
    )


class Built(NamedTuple):
    """Nodes and sources of a plan, each in an order in which every one follows those that feed it."""

    nodes: list[RunningNode]
    """Pipelines, none of them started."""
    sources: list[RunningSource]
    """Sources, none of them open."""


def check_part(part: Plan, query_id: str) -> None:
    """Raise `PlanError` if a plan cannot lead to another's cut point: it must have sources, pipelines and one sink."""
    places = barrier_places(part)
    sinks = [node for node in part.nodes if not node.successors]
    if places.refusal or places.cut_points or len(sinks) != 1 or not isinstance(sinks[0].body, Pipeline):
        raise PlanError(
            f"expected sources and pipelines with one end, which drain and have no cut point, to grow {query_id} by, "
            f"was {part}"
        )


def build(
    query: RunningQuery,
    plan: Plan,
    termination: CallbackReference,
    places: BarrierPlaces = _IN_FRONT,
    end: Edge | None = None,
) -> Built:
    """Return the nodes and sources of a plan.

    ``end`` is the edge from a part that is added to a query to its cut point.
    """
    running: dict[int, RunningNode] = {}
    sources: list[RunningSource] = []
    for node in reversed(plan.nodes):
        edges = [Edge(running[index], port) for index, port in node.successors]
        if end is not None and not edges:
            edges.append(end)
        if isinstance(node.body, Source):
            begins = node.index in places.sources
            sources.append(RunningSource(query, node, edges, termination.copy(), begins_barriers=begins))
        else:
            running[node.index] = RunningNode(
                query,
                node,
                edges,
                termination.copy(),
                is_behind=node.index in places.behind,
                is_one_of_cut_points=node.is_cut_point and len(places.cut_points) > 1,
            )
    for each in running.values():
        each.built()
    return Built(list(running.values())[::-1], sources[::-1])
