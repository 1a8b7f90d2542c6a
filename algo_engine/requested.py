"""Views that strategies define in `queries` or add later: the subscribers of each view, and the link that adds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from algo_engine.host import StrategyHost
from algo_engine.strategy import Lane
from algo_engine.views.contents import ViewChange
from algo_engine.views.mirror import ViewMirror

__all__ = ["NoViewLink", "RequestedViews", "ViewLink", "same_sql"]


class ViewLink(Protocol):
    """Adds views to a runtime or a backtest, and follows them: their changes arrive like all other changes.

    No call waits. The engine requests a view once, however many strategies want it.
    """

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """Add a view and follow it.

        ``done`` is called once: with an empty text when the view was added, before or after its snapshot, or with the
        reason of the refusal.
        """
        ...

    def drop(self, view: str) -> None:
        """Stop following a view, if it is followed; the runtime or the backtest may then drop it."""
        ...


class NoViewLink:
    """Link of a run in which no view can be added."""

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """See `ViewLink.add`."""
        del sql, lane
        done(f"expected a view that exists already, was a request to add {view}")

    def drop(self, view: str) -> None:
        """See `ViewLink.drop`."""


def same_sql(sql: str, other: str) -> bool:
    """Return True if two texts are the same query except for white space and semicolons at the end.

    >>> same_sql("SELECT 1 AS a\\n FROM t;", "SELECT 1 AS a FROM t")
    True
    """
    return " ".join(sql.split()).rstrip("; ") == " ".join(other.split()).rstrip("; ")


class _Requested:
    """A view that was requested, and the strategies that want it."""

    def __init__(self, sql: str, lane: Lane) -> None:
        self.sql, self.lane = sql, lane
        self.hosts: list[StrategyHost] = []


class RequestedViews:
    """Requests each view once from the link, and notifies every strategy that wants it of the outcome."""

    def __init__(self, link: ViewLink, mirror: ViewMirror, *, is_kept: bool) -> None:
        """Create an empty set of views; with ``is_kept``, views stay when the strategies that requested them stop."""
        self._link, self._mirror, self._is_kept = link, mirror, is_kept
        self._views: dict[str, _Requested] = {}

    def add(self, host: StrategyHost, view: str, sql: str, lane: Lane, given: Callable[[str], bool]) -> None:
        """Request a view for a strategy; ``given`` returns True for a view that exists without a request.

        The outcome is a call of `StrategyHost.change` or `StrategyHost.view_refused`, now or later.
        """
        if given(view):
            host.view_refused(
                view,
                f"expected a name that no strategy has in `views`, was {view}; `queries` needs no entry there",
            )
            return
        known = self._views.get(view)
        if known is None:
            known = self._views[view] = _Requested(sql, lane)
            known.hosts.append(host)
            self._link.add(view, sql, lane, lambda reason: self._answered(view, reason))
            return
        if not same_sql(known.sql, sql) or known.lane != lane:
            host.view_refused(view, f"expected the SQL that {view} has in the lane {known.lane}, was another")
            return
        if host not in known.hosts:
            known.hosts.append(host)
        if view in self._mirror:
            host.follow(view)
            host.change(self._mirror.snapshot(view))

    def changed(self, change: ViewChange) -> None:
        """Process the first frame of a view: the strategies that requested it subscribe to it."""
        known = self._views.get(change.view)
        if known is not None:
            for host in known.hosts:
                host.follow(change.view)

    def ended(self, view: str, reason: str) -> None:
        """Process the end of a view."""
        known = self._views.pop(view, None)
        if known is not None:
            self._mirror.forget(view)
            self._link.drop(view)
            for host in known.hosts:
                host.view_refused(view, reason)

    def release(self, host: StrategyHost) -> None:
        """Drop the views that only a stopping strategy wanted, later views first, as these may read earlier ones."""
        for view, known in reversed(list(self._views.items())):
            if host in known.hosts:
                known.hosts.remove(host)
                if not known.hosts:
                    del self._views[view]
                    self._mirror.forget(view)
                    if not self._is_kept:
                        self._link.drop(view)

    def _answered(self, view: str, reason: str) -> None:
        if reason:
            self.ended(view, reason)
