"""Errors of the engine."""

from __future__ import annotations

__all__ = ["BarrierError", "EngineError", "PlanError"]


class EngineError(RuntimeError):
    """The engine cannot go on; the message says what was expected, what was there, and where."""


class PlanError(ValueError):
    """A plan that cannot be carried out; the message names the node."""


class BarrierError(EngineError):
    """A barrier that is refused; the message says why and names the node where there is one."""
