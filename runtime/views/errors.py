"""Errors of a running view program."""

from __future__ import annotations

from runtime.state import StateError

__all__ = ["ViewError", "ViewOverflowError", "reason_of"]


class ViewError(RuntimeError):
    """A view cannot be kept up to date any more; other views are not affected."""


class ViewOverflowError(ViewError, ArithmeticError):
    """An exact result needs more bits than its column has; never wrapped, never rounded."""


def reason_of(error: Exception) -> str:
    """Return the reason for a view's failure, in a line; raise again an error that is not a view's: no memory, no disk.

    A defect that one view meets must not end the others, nor meet them again after every restart: so whatever its
    computation raises, which the next attempt would raise again, is the view's own failure.
    """
    if isinstance(error, (MemoryError, OSError)):
        raise error
    if isinstance(error, (ViewError, StateError)):
        return str(error)
    return f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:300]}"
