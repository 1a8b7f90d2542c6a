"""Which module lowers which plan record."""

from __future__ import annotations

from typing import Any, Final

from runtime.plan import Flow, Joined, Linear, Reevaluated, Selected
from runtime.views.nodes import flow_body, group, join, recompute, threshold

__all__ = ["LOWERING"]

LOWERING: Final[dict[type, Any]] = {
    Flow: flow_body.lower,
    Joined: join.lower,
    Linear: group.lower,
    Reevaluated: recompute.lower,
    Selected: threshold.lower,
}
"""Body of a view → ``lower(view, body, builder)``."""
