"""What can go wrong with state."""

from __future__ import annotations

__all__ = ["CorruptStateError", "StateError"]


class StateError(RuntimeError):
    """State cannot be used as asked."""


class CorruptStateError(StateError):
    """Stored bytes are not what was stored; the message names the object."""
