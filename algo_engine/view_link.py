"""Plug-in point that adds the views which strategies bring along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

__all__ = ["Lane", "NoViewLink", "ViewLink"]

Lane = Literal["express", "spark"]


class ViewLink(Protocol):
    """Adds views to whatever keeps them, and follows them: their changes come the way that all changes come.

    Nothing here waits. A view is asked for once by the engine, however many strategies want it.
    """

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """Have a view kept and follow it. ``done`` is called once: with nothing when it is kept, whether its snapshot
        has come already or not, or with the reason why it is not."""
        ...

    def drop(self, view: str) -> None:
        """Follow it no more, if it is followed; it need not be kept for us."""
        ...


class NoViewLink:
    """Link of a run in which no view can be added."""

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """See `ViewLink.add`."""
        del sql, lane
        done(f"expected views that are kept already, was {view} to be added")

    def drop(self, view: str) -> None:
        """See `ViewLink.drop`."""
