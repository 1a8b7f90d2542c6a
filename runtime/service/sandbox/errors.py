"""Errors of the check and the run of a question."""

from __future__ import annotations

from runtime.service.errors import ServiceError

__all__ = ["AskError", "CostlyError"]


class AskError(ServiceError):
    """The question cannot be answered at its epoch, or reads a view that has failed."""


class CostlyError(AskError):
    """The question needs more rows, bytes, memory or time than its limits allow."""
