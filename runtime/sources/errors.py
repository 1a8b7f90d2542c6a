"""What can go wrong with a source before it runs; later failures go to its sink."""

from __future__ import annotations

__all__ = ["LoginRefusedError", "SourceError", "SourceStateError"]


class SourceError(RuntimeError):
    """The base of everything that sources raise."""


class SourceStateError(SourceError):
    """A source was opened twice, or used after it was closed."""


class LoginRefusedError(SourceError):
    """A feed does not take the login, or does not speak its protocol; trying again would not help."""
