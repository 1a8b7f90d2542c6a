"""Errors of the engine."""

from __future__ import annotations

__all__ = ["BarrierError", "EngineError", "PlanError", "cause_of"]


class EngineError(RuntimeError):
    """Error after which the engine cannot continue.

    The message has the expected and the actual value, and the place.
    """


class PlanError(ValueError):
    """Error in a plan that cannot be executed; the message names the node."""


class BarrierError(EngineError):
    """Refusal of a barrier; the message has the reason and, if a node is the cause, its name."""


def cause_of(error: Exception) -> str:
    """Return the text of an error, as the reason of a query's failure."""
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
