"""What can go wrong in the service."""

from __future__ import annotations

__all__ = ["ServiceError"]


class ServiceError(RuntimeError):
    """The runtime cannot do what it was asked; the message says what was expected, what was there, and where."""
