"""What can go wrong while a view program runs."""

from __future__ import annotations

__all__ = ["ViewError", "ViewOverflowError"]


class ViewError(RuntimeError):
    """A view cannot be kept up to date any more; other views go on."""


class ViewOverflowError(ViewError, ArithmeticError):
    """An exact result needs more bits than its column has; never wrapped, never rounded."""
