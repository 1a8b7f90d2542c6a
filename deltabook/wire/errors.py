"""Errors of messages on a wire."""

__all__ = ["AccessError", "RunIdError", "WireError"]


class WireError(ValueError):
    """Bytes do not follow the protocol; the message says what was expected and what was there."""


class AccessError(ValueError):
    """A port cannot be opened as it was asked for: it would be open to strangers, or its token or key is none."""


class RunIdError(ValueError):
    """A run id is not one: it has other characters, or too many."""
