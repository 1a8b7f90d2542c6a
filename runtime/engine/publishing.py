"""The engine's way to its listeners, past whatever they raise."""

from __future__ import annotations

from twisted.logger import Logger

from runtime.engine.listeners import Event, QueryStatus, StatisticsListener, StatusListener

__all__ = ["Publisher"]


class Publisher:
    """Tells listeners; what they raise is logged. Never changed once it is made; called without locks."""

    _log = Logger()

    def __init__(self, status: StatusListener, statistics: StatisticsListener | None) -> None:
        self._status = status
        self._statistics = statistics
        self.has_statistics = statistics is not None
        """Whether it is worth making events."""

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
        """A query is about to be torn down; its listeners hear of it when that is over."""
        self._log.error("query {query} fails: {reason}", query=query_id, reason=reason)

    def broke(self, query_id: str, what: str, reason: str) -> None:
        """Something went wrong that changes nothing."""
        self._log.error("query {query}: {what}: {reason}", query=query_id, what=what, reason=reason)
