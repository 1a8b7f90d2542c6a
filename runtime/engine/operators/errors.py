"""Errors of operators and of plans of them."""

from __future__ import annotations

from runtime.engine.errors import EngineError, PlanError

__all__ = ["HeldTooMuchError", "OperatorError", "OtherPlanError", "PlanError"]


class OperatorError(EngineError):
    """An operator cannot continue; the message has what it expected and what was there."""


class HeldTooMuchError(OperatorError):
    """A query would have to hold more rows than it may: there is no spilling to disk, and it is never silent."""


class OtherPlanError(OperatorError):
    """The state of a query was saved by operators of another plan."""
