"""From a plan, or a part that a running one grows by, to what carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.engine.errors import PlanError
from runtime.engine.plan import Pipeline, Plan, Source
from runtime.engine.running.cuts import BarrierPlaces, barrier_places
from runtime.engine.running.gate import Edge
from runtime.engine.running.node import RunningNode
from runtime.engine.running.source import RunningSource

if TYPE_CHECKING:
    from runtime.engine.lifetime import CallbackReference
    from runtime.engine.running.query import RunningQuery

__all__ = ["Built", "build", "check_part"]

_IN_FRONT = BarrierPlaces(frozenset(), frozenset(), frozenset(), "")
"""Of what stands before a cut point: no barrier begins there or passes."""


class Built(NamedTuple):
    """Both in an order in which each stands behind what feeds it."""

    nodes: list[RunningNode]
    """The pipelines; none is started."""
    sources: list[RunningSource]
    """The sources; none is open."""


def check_part(part: Plan, query_id: str) -> None:
    """Raise `PlanError` for a plan that cannot stand before a cut point of another: sources, pipelines, one sink."""
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
    """What carries out a plan of a query; with an ``end`` that is where a part that the query grows by leads to."""
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
