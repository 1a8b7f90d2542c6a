"""Errors of a running view program."""

from __future__ import annotations

from runtime.state import StateError

__all__ = ["ViewError", "ViewOverflowError", "reason_of"]


class ViewError(RuntimeError):
    """A view cannot be kept up to date any more; other views are not affected."""


class ViewOverflowError(ViewError, ArithmeticError):
    """Raised if an exact result needs more bits than its column has; results are never wrapped or rounded."""


def reason_of(error: Exception) -> str:
    """Return the reason for a view's failure in one line; raise the error again if it is a `MemoryError` or `OSError`.

    Any other error would occur again at the next attempt and after each restart. It therefore fails only the view that
    raised it, and the other views continue.
    """
    if isinstance(error, (MemoryError, OSError)):
        raise error
    if isinstance(error, (ViewError, StateError)):
        return str(error)
    return f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:300]}"
