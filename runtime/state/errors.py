"""What can go wrong with state."""

from __future__ import annotations

__all__ = ["CorruptStateError", "StateError", "StateOverflowError"]


class StateError(RuntimeError):
    """State cannot be used as asked."""


class CorruptStateError(StateError):
    """Stored bytes are not what was stored; the message names the object."""


class StateOverflowError(StateError, ArithmeticError):
    """An exact sum needs more bits than a checkpoint can hold; never wrapped, never rounded."""
