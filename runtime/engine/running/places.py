"""Places of a plan where its barriers begin, and the checks of a plan that depend on them."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.engine.errors import PlanError
from runtime.engine.plan import Pipeline, Plan, Source

__all__ = ["BEFORE_CUT_POINT", "BarrierPlaces", "barrier_places", "check_part"]


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


BEFORE_CUT_POINT: Final = BarrierPlaces(frozenset(), frozenset(), frozenset(), "")
"""Barrier places of a plan that is added before a cut point: no barrier begins in the plan or passes its nodes."""


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


def check_part(part: Plan, query_id: str) -> None:
    """Raise `PlanError` unless a plan can be added before a cut point of a query.

    The plan must have sources, pipelines that can drain, exactly one node without successors, and no cut point.
    """
    places = barrier_places(part)
    sinks = [node for node in part.nodes if not node.successors]
    if places.refusal or places.cut_points or len(sinks) != 1 or not isinstance(sinks[0].body, Pipeline):
        raise PlanError(
            f"expected sources and pipelines with one end, which drain and have no cut point, to grow {query_id} by, "
            f"was {part}"
        )
