"""Plug-in point that adds the views which strategies define themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

__all__ = ["Lane", "NoViewLink", "ViewLink"]

Lane = Literal["express", "spark"]


class ViewLink(Protocol):
    """Adds views to their host, and follows them: their changes arrive like all other changes.

    No call waits. The engine requests a view once, however many strategies want it.
    """

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """Add a view and follow it.

        ``done`` is called once: with an empty text when the view was added, before or after its snapshot, or with the
        reason of the refusal.
        """
        ...

    def drop(self, view: str) -> None:
        """Stop following a view, if it is followed; its host may drop it."""
        ...


class NoViewLink:
    """Link of a run in which no view can be added."""

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """See `ViewLink.add`."""
        del sql, lane
        done(f"expected a view that exists already, was a request to add {view}")

    def drop(self, view: str) -> None:
        """See `ViewLink.drop`."""
