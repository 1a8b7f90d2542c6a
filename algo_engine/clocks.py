"""Protocols for the parts of a reactor that the engine uses, since Twisted's own interfaces are untyped.

`twisted.internet.task.Clock` implements them too, and so does the clock of a backtest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "ScheduledCall", "Stream"]


class ScheduledCall(Protocol):
    """Call that is due later."""

    def active(self) -> bool:
        """Return True if the call is pending."""
        ...

    def cancel(self) -> None:
        """Cancel the call."""
        ...

    def reset(self, secondsFromNow: float) -> None:
        """Postpone the call to ``secondsFromNow`` seconds from now."""
        ...


class Clock(Protocol):
    """Monotonic clock with calls after a delay."""

    def seconds(self) -> float:
        """Return the present time in seconds."""
        ...

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> ScheduledCall:  # noqa: A002
        """Call a function after a delay in seconds; 0 stands for the next turn."""
        ...


class Stream(Protocol):
    """Sending half of a connection."""

    def write(self, data: bytes) -> None:
        """Send data without waiting."""
        ...

    def loseConnection(self) -> None:
        """Close the connection after everything is sent."""
        ...

    def abortConnection(self) -> None:
        """Close the connection at once."""
        ...
