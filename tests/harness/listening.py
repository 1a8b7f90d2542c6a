"""Listeners that record the events they receive."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from runtime.engine.listeners import Event, QueryStatus, StatisticsListener, StatusListener

__all__ = ["RecordedStatistics", "RecordedStatus"]

_Event = TypeVar("_Event", bound=Event)
TERMINAL = frozenset({QueryStatus.STOPPED, QueryStatus.FAILED})


class RecordedStatus(StatusListener):
    """Every status of every query, in order. Writers hold the lock; readers read the present lists."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self.statuses: dict[str, list[QueryStatus]] = {}
        self.reasons: dict[str, str] = {}
        """Reason of each query's last status."""
        self.ignored: list[tuple[str, str, str]] = []

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """See `StatusListener`."""
        with self._lock:
            self.statuses.setdefault(query_id, []).append(status)
            self.reasons[query_id] = reason
        self._on_change()

    def on_ignored(self, query_id: str, request: str, reason: str) -> None:
        """See `StatusListener`."""
        with self._lock:
            self.ignored.append((query_id, request, reason))
        self._on_change()

    def of(self, query_id: str) -> list[QueryStatus]:
        """Return the statuses that a query has received so far."""
        return self.statuses.get(query_id, [])

    def has_ended(self, query_id: str) -> bool:
        """Return True if a query has received its final status."""
        return bool(TERMINAL.intersection(self.of(query_id)))

    def check(self) -> None:
        """Assert that the statuses of every use of an id are registered, maybe running, then one final status."""
        with self._lock:
            for query_id, statuses in self.statuses.items():
                order = [QueryStatus.REGISTERED, QueryStatus.RUNNING]
                runs = _runs(statuses)
                for run in runs:
                    body = run[:-1] if run[-1] in TERMINAL else run
                    assert body == order[: len(body)], f"{query_id}: {statuses}"
                for run in runs[:-1]:
                    assert run[-1] in TERMINAL, f"{query_id}: {statuses}"


def _runs(statuses: list[QueryStatus]) -> list[list[QueryStatus]]:
    """Return the statuses of an id that is used several times, split by use."""
    runs: list[list[QueryStatus]] = []
    for status in statuses:
        if status is QueryStatus.REGISTERED:
            runs.append([])
        runs[-1].append(status)
    return runs


class RecordedStatistics(StatisticsListener):
    """Every statistics event, in order."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        """See `StatisticsListener`; appending is atomic."""
        self.events.append(event)
        self._on_change()

    def of(self, kind: type[_Event], query_id: str | None = None) -> list[_Event]:
        """Return the events of a kind, of one query or all."""
        return [e for e in list(self.events) if isinstance(e, kind) and query_id in {None, e.query_id}]

    def counts(self) -> Counter[str]:
        """Return the number of events by kind."""
        return Counter(type(event).__name__ for event in list(self.events))
