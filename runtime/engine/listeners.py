"""Listeners of the engine: status of queries, events for statistics, and their publisher, which outlives any error.

Listeners are called by workers, without any lock of the engine, from several of them at once, and must not block. What
they raise is logged and hurts nothing.
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
    """The engine has taken it."""
    RUNNING = "running"
    """All its pipelines are started and all its sources open."""
    STOPPED = "stopped"
    """Its sources have ended, or it was stopped; nothing of it runs any more."""
    FAILED = "failed"
    """A source or a pipeline has failed; nothing of it runs any more."""


class StatusListener:
    """Listener to the status of queries; every method does nothing unless it is overridden."""

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """Called when a query has a new status; ``reason`` is that of a failure, or of the engine's shutdown."""

    def on_ignored(self, query_id: str, request: str, reason: str) -> None:
        """Called when a ``request``, "start" or "stop", is ignored: the id runs already, or is unknown."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a query."""

    query_id: str
    """The query."""
    time_s: float
    """Time of the event, by the engine's clock."""


class TaskStarted(Event, frozen=True):
    """A worker begins a call of `Pipeline.execute`."""

    node: str
    """The node."""
    worker: int
    """The worker's number."""
    inputs: int
    """Number of inputs that it takes."""
    size: int
    """Sum of their sizes: tuples, or bytes if the input is raw."""


class TaskEmitted(Event, frozen=True):
    """A call has emitted items, which now wait at the successors."""

    node: str
    """Name of the node that emitted them."""
    items: int
    """Number of items."""
    size: int
    """Sum of their sizes: tuples."""


class TaskCompleted(Event, frozen=True):
    """A call of `Pipeline.execute` has returned."""

    node: str
    """The node."""
    worker: int
    """The worker's number."""
    inputs: int
    """Number of inputs that it took, without those to repeat."""
    size: int
    """Sum of the sizes of these inputs."""
    duration_s: float
    """Duration of the call."""


class TaskExpired(Event, frozen=True):
    """Inputs were skipped, since their query was stopped or has failed."""

    node: str
    """Name of the node where they waited."""
    inputs: int
    """Number of inputs."""


class PipelineStarted(Event, frozen=True):
    """`Pipeline.start` has returned."""

    node: str
    """The node."""


class PipelineStopped(Event, frozen=True):
    """A started pipeline has ended, by `Pipeline.stop` or `Pipeline.discard`."""

    node: str
    """The node."""


class QueryStarted(Event, frozen=True):
    """A query is running."""


class QueryStopRequested(Event, frozen=True):
    """A query was asked to stop."""


class QueryStopped(Event, frozen=True):
    """A query has stopped."""


class QueryFailed(Event, frozen=True):
    """A query fails; it is torn down from now on."""

    reason: str
    """The cause."""


class StatisticsListener:
    """Listener to the ten kinds of events of this module. Without a listener the engine makes none."""

    reads_starts: bool = True
    """False if it has no use for `TaskStarted`, which then is not made: one event fewer for each call of a pipeline."""

    def on_event(self, event: Event) -> None:
        """Called with each event; often, so it should be quick."""


class Publisher:
    """Publishes to listeners; what they raise is logged. Never changed once it is made; called without locks."""

    _log = Logger()

    def __init__(self, status: StatusListener, statistics: StatisticsListener | None) -> None:
        self._status = status
        self._statistics = statistics
        self.has_statistics = statistics is not None
        """True if it is worth making events."""
        self.has_starts = statistics is not None and statistics.reads_starts
        """True if it is worth making events of tasks that start."""

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
        """See `StatisticsListener`."""
        if self._statistics is None:
            return
        try:
            self._statistics.on_event(event)
        except Exception:  # noqa: BLE001 (a listener never hurts the engine)
            self._log.failure("the statistics listener failed at {event}", event=type(event).__name__)

    def failing(self, query_id: str, reason: str) -> None:
        """Log that a query is about to be torn down; its listeners are notified after that."""
        self._log.error("query {query} fails: {reason}", query=query_id, reason=reason)

    def broke(self, query_id: str, what: str, reason: str) -> None:
        """Log an error that has no consequences for the query."""
        self._log.error("query {query}: {what}: {reason}", query=query_id, what=what, reason=reason)
