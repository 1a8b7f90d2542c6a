"""Errors of a cluster."""

from __future__ import annotations

__all__ = ["ClusterError", "SecretsError"]


class ClusterError(RuntimeError):
    """A part of a cluster cannot start or continue; the message gives the reason in one line."""


class SecretsError(ClusterError):
    """A folder of secrets cannot be used; the message never contains a secret."""
