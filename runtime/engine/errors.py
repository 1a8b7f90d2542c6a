"""Errors of the engine."""

from __future__ import annotations

__all__ = ["BarrierError", "EngineError", "PlanError"]


class EngineError(RuntimeError):
    """The engine cannot continue; the message has what was expected, what was there, and where."""


class PlanError(ValueError):
    """A plan that cannot be carried out; the message names the node."""


class BarrierError(EngineError):
    """A barrier is refused; the message has the reason and, if there is one, the node."""
