"""Where the barriers of a plan begin."""

from __future__ import annotations

import msgspec

from runtime.engine.errors import PlanError
from runtime.engine.plan import Pipeline, Plan, Source

__all__ = ["BarrierPlaces", "barrier_places"]


class BarrierPlaces(msgspec.Struct, frozen=True):
    """Indices of a plan's nodes, by their part in its barriers."""

    sources: frozenset[int]
    """Sources at which barriers begin."""
    cut_points: frozenset[int]
    """Cut points, where they begin for all other sources."""
    behind: frozenset[int]
    """Pipelines that a barrier passes: the cut points and all that no way to a cut point leads from."""
    refusal: str
    """Why barriers are refused, with the node's name; empty if they are not."""


def barrier_places(plan: Plan) -> BarrierPlaces:
    """See `Plan`; raises PlanError where a plan is refused, or has a source that nobody takes from, or has none."""
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
            raise PlanError(f"expected a pipeline behind source {node.name} of plan {plan.query_id}, was none")
        if fewest[node.index] != most[node.index]:
            raise PlanError(
                f"expected all ways from source {node.name} of plan {plan.query_id} through as many cut points, "
                f"was {fewest[node.index]} on one and {most[node.index]} on another"
            )
        if most[node.index] > 1:
            raise PlanError(
                f"expected at most one cut point on each way from source {node.name} of plan {plan.query_id}, "
                f"was {most[node.index]}"
            )
    pipelines = [(node, node.body) for node in plan.nodes if isinstance(node.body, Pipeline)]
    return BarrierPlaces(
        frozenset(node.index for node in sources if not most[node.index]),
        frozenset(node.index for node in plan.nodes if node.is_cut_point),
        frozenset(node.index for node, _ in pipelines if node.is_cut_point or not most[node.index]),
        next((f"node {node.name}: {body.cannot_drain}" for node, body in pipelines if body.cannot_drain), ""),
    )
