"""Errors of the dashboard."""

from __future__ import annotations

__all__ = ["DashboardError", "UnreachableError"]


class DashboardError(ValueError):
    """An option, or an answer of a peer, cannot be used; the message says what was expected and what was there."""


class UnreachableError(DashboardError):
    """The address of a peer is not known yet."""
