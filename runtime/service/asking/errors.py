"""Errors of questions that never reach their process."""

from __future__ import annotations

from runtime.service.sandbox import AskError

__all__ = ["GoneError", "TooManyError", "UnpublishedError"]


class GoneError(AskError):
    """The epoch is retired, or a view is not known at it."""


class UnpublishedError(AskError):
    """A view of the Spark lane has no version yet."""


class TooManyError(AskError):
    """Too many questions are being answered."""
