"""Errors of a source before it runs; later failures are reported to its sink."""

from __future__ import annotations

__all__ = ["LoginRefusedError", "SourceError", "SourceStateError"]


class SourceError(RuntimeError):
    """Base of all errors of sources."""


class SourceStateError(SourceError):
    """A source was opened twice, or used after it was closed."""


class LoginRefusedError(SourceError):
    """A feed rejected the login, or does not speak its protocol; another attempt would not help."""
