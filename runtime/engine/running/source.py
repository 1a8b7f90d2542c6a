"""Source of a running query: its emitter, and its opening and closing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum

from runtime.engine.barriers import Barrier
from runtime.engine.errors import cause_of
from runtime.engine.lifetime import CallbackReference
from runtime.engine.plan import Emitter, Node, Source
from runtime.engine.running.gate import Edge
from runtime.engine.running.host import SourceHost
from runtime.engine.tasks import FailSourceTask, StopSourceTask

__all__ = ["RunningSource"]


class _State(Enum):
    NEW = 0
    OPENING = 1
    OPEN = 2
    CLOSED = 3


class RunningSource(Emitter):
    """Source of a query. The emitter's methods are called by the source's threads, the others by workers.

    All mutable state is accessed with `_changed` held. The lock is also held while an input is put into the inboxes of
    the successors, so that inputs arrive in order, and before a later barrier or the end of the stream.
    """

    def __init__(
        self,
        query: SourceHost[RunningSource],
        node: Node,
        edges: Sequence[Edge],
        termination: CallbackReference,
        *,
        begins_barriers: bool,
    ) -> None:
        assert isinstance(node.body, Source)
        self.query = query
        self.name = node.name
        self.begins_barriers = begins_barriers
        self._source: Source | None = node.body  # None once the source has ended
        self._changed = threading.Condition(threading.Lock())
        self._edges = tuple(edges)
        self._termination = termination
        self._window = query.admission.open(self._on_room)
        self._state = _State.NEW
        self._is_silent = False  # no input of the source is taken any more
        self._has_ended = False  # the source has reported the end of its stream, or a failure
        self._is_stop_wanted = False  # the source is to be closed as soon as it is open
        self._is_held = False  # a barrier is in progress
        self._is_refused = False  # an offer was refused because of the barrier
        self._is_end_held = False  # the end of the stream was held back because of the barrier
        self._resumes = 0

    # Methods of `Emitter`

    def offer(self, item: object, size: int = 1) -> bool:
        """See `Emitter`."""
        with self._changed:
            if self._is_silent or self._has_ended:
                return False
            if self._is_held:
                self._is_refused = True
                return False
            edges = self._edges
            ticket = self.query.admission.enter(self._window, size, len(edges))
            if ticket is None:
                return False
            for edge in edges:
                edge.node.accept(((edge.port, item, size, ticket),))
            return True

    def put(self, item: object, size: int = 1) -> bool:
        """See `Emitter`."""
        while True:
            with self._changed:
                seen = self._resumes
            if self.offer(item, size):
                return True
            with self._changed:
                self._changed.wait_for(lambda: self._is_silent or self._has_ended or self._resumes != seen)  # noqa: B023
                if self._is_silent or self._has_ended:
                    return False

    @property
    def in_flight(self) -> int:
        """See `Emitter`."""
        return len(self._window.tickets)

    def when_drained(self, call: Callable[[], None]) -> None:
        """See `Emitter`."""
        self.query.admission.when_empty(self._window, call)

    def end_of_stream(self) -> None:
        """See `Emitter`."""
        with self._changed:
            if self._is_silent or self._has_ended:
                return
            self._has_ended = True
            self._changed.notify_all()
            if self._is_held:
                self._is_end_held = True
                return
        self.request_stop()

    def failed(self, reason: str) -> None:
        """See `Emitter`."""
        with self._changed:
            if self._is_silent:
                return
            self._has_ended = True  # a later end of the stream does not undo the failure
            self._changed.notify_all()
        self.query.queue.put(FailSourceTask(self, reason))

    def _on_room(self) -> None:
        """Resume the source, as there is room again."""
        with self._changed:
            source = self._source
            if source is None or self._is_silent or self._has_ended:
                return
            self._resumes += 1
            self._changed.notify_all()
        try:
            source.resume()
        except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
            self.query.fail(f"source {self.name}: {cause_of(error)}")

    # Barriers

    @property
    def is_over(self) -> bool:
        """True if no further input of the source is taken."""
        return self._has_ended or self._is_silent

    def hold(self, barrier: Barrier) -> None:
        """Begin a barrier at this source: hold later input until the barrier ends."""
        with self._changed:
            if self._has_ended or self._is_silent:
                return
            self._is_held = True
            for edge in self._edges:
                edge.node.pass_barrier(edge, barrier)

    def unhold(self) -> bool:
        """Take input again after a barrier; return True if `resume` must be called, without locks."""
        with self._changed:
            if not self._is_held:
                return False
            self._is_held = False
            is_refused, self._is_refused = self._is_refused, False
            is_end_held, self._is_end_held = self._is_end_held, False
        if is_end_held:
            self.request_stop()
        return is_refused

    def resume(self) -> None:
        """Resume the source after the barrier."""
        self._on_room()

    # Called by workers

    def open(self) -> None:
        """Open the source, unless the query has ended."""
        with self._changed:
            source = self._source
            if source is None or self._state is not _State.NEW or self._is_silent:
                return
            self._state = _State.OPENING
        try:
            source.open(self)
        except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
            with self._changed:
                self._state = _State.CLOSED
            self.silence()
            self.query.fail(f"source {self.name}: {cause_of(error)}")
            self._end()
            return
        with self._changed:
            is_stop_wanted = self._is_stop_wanted
            self._state = _State.CLOSED if is_stop_wanted else _State.OPEN
        if is_stop_wanted:
            self._close()

    def silence(self) -> None:
        """Take no more input from the source, and wake the threads that wait in `put`."""
        with self._changed:
            self._is_silent = True
            self._changed.notify_all()
        self.query.admission.withdraw(self._window)

    def request_stop(self) -> None:
        """Have a worker close the source."""
        self.query.queue.put(StopSourceTask(self))

    def fail(self, reason: str) -> bool:
        """Fail the query, as the source has failed; return False if its input is not taken any more."""
        if self._is_silent:
            return False
        self.query.fail(f"source {self.name}: {reason}")
        return True

    def terminate(self) -> bool:
        """Close the source, now or when it is open; return False if that was done before."""
        self.silence()
        with self._changed:
            before = self._state
            if before is _State.CLOSED:
                return False
            if before is _State.OPENING:
                self._is_stop_wanted = True
                return True
            self._state = _State.CLOSED
        if before is _State.NEW:
            self._end()
        else:
            self._close()
        return True

    def _close(self) -> None:
        source = self._source
        assert source is not None, "a source that is closed has not ended before"
        try:
            source.close()
        except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
            self.query.fail(f"source {self.name}: {cause_of(error)}")
        self._end()

    def _end(self) -> None:
        edges, self._edges, self._source = self._edges, (), None
        for edge in edges:
            edge.node.producer_ended(edge)
        self.query.source_ended(self)
        self._termination.release()

    def check(self, *, is_barrier: bool) -> None:
        """Assert the invariants."""
        with self._changed:
            assert not self._is_held or (is_barrier and self.begins_barriers)
            assert not self._is_end_held or (self._is_held and self._has_ended)
            assert not self._is_refused or self._is_held
