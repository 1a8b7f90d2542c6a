"""Why a question is not answered."""

from __future__ import annotations

from runtime.service.errors import ServiceError

__all__ = ["AskError", "CostlyError", "GoneError", "TooManyError", "UnpublishedError"]


class AskError(ServiceError):
    """A question that cannot be answered at the epoch that it names, or about a view that has failed."""


class GoneError(AskError):
    """An epoch that is retired, or at which a view is not known."""


class CostlyError(AskError):
    """A question that needs more rows, bytes, memory or time than it may."""


class UnpublishedError(AskError):
    """A view of Spark's that has no version yet."""


class TooManyError(AskError):
    """One question more than may be asked at a time."""
