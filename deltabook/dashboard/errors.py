"""Errors of the dashboard."""

from __future__ import annotations

__all__ = ["DashboardError", "UnreachableError"]


class DashboardError(ValueError):
    """An option, or an answer of a peer, cannot be used; the message has the expected and the actual value."""


class UnreachableError(DashboardError):
    """The address of a peer is not known yet."""
