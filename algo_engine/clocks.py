"""The little of a reactor that the engine uses, as types: Twisted's own interfaces say nothing to a type checker.

`twisted.internet.task.Clock` fits as well, and so does the clock of a backtest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "ScheduledCall", "Stream"]


class ScheduledCall(Protocol):
    """A call that is due later."""

    def active(self) -> bool:
        """Return True if it is still to come."""
        ...

    def cancel(self) -> None:
        """Forget it."""
        ...

    def reset(self, secondsFromNow: float) -> None:
        """Postpone it to so many seconds from now."""
        ...


class Clock(Protocol):
    """Monotonic seconds, and calls after a delay."""

    def seconds(self) -> float:
        """Now."""
        ...

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> ScheduledCall:  # noqa: A002
        """Call after so many seconds; 0 is the next turn."""
        ...


class Stream(Protocol):
    """The sending half of a connection."""

    def write(self, data: bytes) -> None:
        """Send, without waiting."""
        ...

    def loseConnection(self) -> None:
        """Close when everything is sent."""
        ...

    def abortConnection(self) -> None:
        """Close at once."""
        ...
