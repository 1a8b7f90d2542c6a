"""Listeners of the engine: status of queries, events for statistics, and their publisher, which logs their errors.

Workers call the listeners without any lock of the engine held, several workers at once; listeners must not block. An
exception that a listener raises is logged and has no other effect.
"""

from __future__ import annotations

from enum import Enum

import msgspec
from twisted.logger import Logger

__all__ = [
    "Event",
    "PipelineStarted",
    "PipelineStopped",
    "Publisher",
    "QueryFailed",
    "QueryStarted",
    "QueryStatus",
    "QueryStopRequested",
    "QueryStopped",
    "StatisticsListener",
    "StatusListener",
    "TaskCompleted",
    "TaskEmitted",
    "TaskExpired",
    "TaskStarted",
]


class QueryStatus(Enum):
    """Status of a query; STOPPED and FAILED are final, and exactly one of them is published for each query."""

    REGISTERED = "registered"
    """The engine has accepted the query."""
    RUNNING = "running"
    """All pipelines of the query have been started, and all its sources are open."""
    STOPPED = "stopped"
    """The query's sources have ended, or it was stopped; nothing of it runs any more."""
    FAILED = "failed"
    """A source or a pipeline has failed; nothing of the query runs any more."""


class StatusListener:
    """Listener to the status of queries; every method does nothing unless it is overridden."""

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """Called when a query has a new status; ``reason`` is the cause of a failure, or of the engine's shutdown."""

    def on_ignored(self, query_id: str, request: str, reason: str) -> None:
        """Called when a ``request``, "start" or "stop", is ignored, for example because the id is in use or unknown."""


class Event(msgspec.Struct, frozen=True):
    """Event of a query."""

    query_id: str
    """Id of the query."""
    time_s: float
    """Time of the event in seconds of the engine's clock."""


class TaskStarted(Event, frozen=True):
    """Event: a worker begins a call of `Pipeline.execute`."""

    node: str
    """Name of the node."""
    worker: int
    """The worker's number."""
    inputs: int
    """Number of inputs that the call takes."""
    size: int
    """Sum of the sizes of the inputs: tuples, or bytes if the input is raw."""


class TaskEmitted(Event, frozen=True):
    """Event: a call has emitted items, which now wait at the successors."""

    node: str
    """Name of the node that emitted the items."""
    items: int
    """Number of items."""
    size: int
    """Sum of the sizes of the items, in tuples."""


class TaskCompleted(Event, frozen=True):
    """Event: a call of `Pipeline.execute` has returned."""

    node: str
    """Name of the node."""
    worker: int
    """The worker's number."""
    inputs: int
    """Number of inputs that the call has executed, without the inputs that are to be repeated."""
    size: int
    """Sum of the sizes of these inputs."""
    duration_s: float
    """Duration of the call in seconds."""


class TaskExpired(Event, frozen=True):
    """Event: inputs, or a start or stop of a pipeline, were skipped, because the query was stopped or has failed."""

    node: str
    """Name of the node at which the inputs waited."""
    inputs: int
    """Number of inputs; 0 for a start or stop."""


class PipelineStarted(Event, frozen=True):
    """Event: `Pipeline.start` has returned."""

    node: str
    """Name of the node."""


class PipelineStopped(Event, frozen=True):
    """Event: a started pipeline has ended, by `Pipeline.stop` or `Pipeline.discard`."""

    node: str
    """Name of the node."""


class QueryStarted(Event, frozen=True):
    """Event: a query is running."""


class QueryStopRequested(Event, frozen=True):
    """Event: the stop of a query was requested."""


class QueryStopped(Event, frozen=True):
    """Event: a query has stopped."""


class QueryFailed(Event, frozen=True):
    """Event: a query has failed; nothing of it runs any more."""

    reason: str
    """Cause of the failure."""


class StatisticsListener:
    """Listener to the ten kinds of events of this module. Without a listener the engine creates no events."""

    reads_starts: bool = True
    """False if the listener does not need `TaskStarted`: the engine then creates one event fewer for each call of a
    pipeline."""

    def on_event(self, event: Event) -> None:
        """Handle an event; called often, so it should return quickly."""


class Publisher:
    """Publishes to listeners, and logs exceptions that they raise. Immutable; called without locks."""

    _log = Logger()

    def __init__(self, status: StatusListener, statistics: StatisticsListener | None) -> None:
        self._status = status
        self._statistics = statistics
        self.has_statistics = statistics is not None
        """True if there is a listener for events, so that they must be created."""
        self.has_starts = statistics is not None and statistics.reads_starts
        """True if the listener needs events of tasks that start."""

    def status(self, query_id: str, status: QueryStatus, reason: str = "") -> None:
        """See `StatusListener.on_status`."""
        try:
            self._status.on_status(query_id, status, reason)
        except Exception:  # noqa: BLE001 (a listener never hurts the engine)
            self._log.failure("the status listener failed at {query}: {status}", query=query_id, status=status.value)

    def ignored(self, query_id: str, request: str, reason: str) -> None:
        """See `StatusListener.on_ignored`."""
        self._log.info("{request} of query {query} ignored: {reason}", request=request, query=query_id, reason=reason)
        try:
            self._status.on_ignored(query_id, request, reason)
        except Exception:  # noqa: BLE001 (a listener never hurts the engine)
            self._log.failure("the status listener failed at {query}: {request}", query=query_id, request=request)

    def event(self, event: Event) -> None:
        """Pass an event to the listener; see `StatisticsListener`."""
        if self._statistics is None:
            return
        try:
            self._statistics.on_event(event)
        except Exception:  # noqa: BLE001 (a listener never hurts the engine)
            self._log.failure("the statistics listener failed at {event}", event=type(event).__name__)

    def failing(self, query_id: str, reason: str) -> None:
        """Log that a query is about to be torn down; the listeners are notified afterwards."""
        self._log.error("query {query} fails: {reason}", query=query_id, reason=reason)

    def broke(self, query_id: str, what: str, reason: str) -> None:
        """Log an error that has no consequences for the query."""
        self._log.error("query {query}: {what}: {reason}", query=query_id, what=what, reason=reason)
