"""Functions that lower plan records, by type of record."""

from __future__ import annotations

from typing import Any, Final

from runtime.plan import Flow, Joined, Linear, Reevaluated, Selected, View
from runtime.views.graph import GraphBuilder
from runtime.views.nodes import flow_body, join, recompute, threshold
from runtime.views.nodes.show import Shape

__all__ = ["LOWERING"]


def _lower_linear(view: View, body: Linear, builder: GraphBuilder) -> None:
    """Add a linear view to the graph: totals for each branch, which `show` turns into rows."""
    for branch in body.branches:
        keys = [key.name for key in builder.program.maps[branch.map].keys]
        table = builder.totals(view, branch.map, keys, is_result=True)
        builder.show(view, table, Shape(view.columns, branch.outputs, branch.having, branch.empty, branch.bag))


LOWERING: Final[dict[type, Any]] = {
    Flow: flow_body.lower,
    Joined: join.lower,
    Linear: _lower_linear,
    Reevaluated: recompute.lower,
    Selected: threshold.lower,
}
"""Type of a view's body → ``lower(view, body, builder)``."""
