"""Errors of questions."""

from __future__ import annotations

from runtime.service.errors import ServiceError

__all__ = ["AskError", "CostlyError", "GoneError", "TooManyError", "UnpublishedError"]


class AskError(ServiceError):
    """The question cannot be answered at its epoch, or reads a view that has failed."""


class GoneError(AskError):
    """The epoch is retired, or a view is not known at it."""


class CostlyError(AskError):
    """The question needs more rows, bytes, memory or time than its limits allow."""


class UnpublishedError(AskError):
    """A view of the Spark lane has no version yet."""


class TooManyError(AskError):
    """Too many questions are being answered."""
