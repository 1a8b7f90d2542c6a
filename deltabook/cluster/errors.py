"""What can go wrong with a cluster."""

from __future__ import annotations

__all__ = ["ClusterError", "SecretsError"]


class ClusterError(RuntimeError):
    """A part of a cluster cannot start or go on; the message says why in one line."""


class SecretsError(ClusterError):
    """A folder of secrets cannot be used; the message never says what a file holds."""
