"""Pipeline of a running query: its due calls, and its end."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from runtime.engine.barriers import Barrier
from runtime.engine.lifetime import CallbackReference, callback
from runtime.engine.plan import Node, Pipeline
from runtime.engine.running.calls import (
    DRAIN,
    END,
    INPUTS,
    START,
    Call,
    RunningContext,
    call_discard,
    call_start,
    call_stop,
)
from runtime.engine.running.gate import Consumer, Edge, Gate
from runtime.engine.running.host import NodeHost
from runtime.engine.running.inbox import Entry, Inbox
from runtime.engine.tasks import PendingPipelineStopTask, StopPipelineTask, TaskNode, WakeTask, WorkTask

__all__ = ["RunningNode"]


class RunningNode(Consumer):
    """Node of a query: a pipeline with its inbox, gate and successors.

    A worker takes a call with the lock held and makes it without the lock; only that worker accesses the state of the
    call. All other mutable state is accessed with `_lock` held. Locks are taken in the order query, source, node, and
    last the queue's or the admission's; none is held while user code runs.
    """

    def __init__(
        self,
        query: NodeHost[RunningNode],
        node: Node,
        edges: Sequence[Edge],
        termination: CallbackReference,
        *,
        is_behind: bool,
        is_one_of_cut_points: bool,
    ) -> None:
        assert isinstance(node.body, Pipeline)
        self.query = query
        self.name = node.name
        self.pipeline = node.body
        self.edges = tuple(edges)
        self.is_cut_point = node.is_cut_point
        self.is_first = all(not each.node.inputs for each in node.inputs)
        """True if only sources feed the node."""
        self.is_behind = is_behind
        """True if barriers pass the node or begin at it; False for a node before a cut point."""
        self.is_one_of_cut_points = is_one_of_cut_points
        """True if the node is one of several cut points, which must not wait for input, see `Pipeline.is_cut_point`."""
        self.contexts: list[RunningContext] = []
        """Contexts that no call uses at the moment; appending to a list and popping from it are thread-safe."""
        self._concurrency = node.body.concurrency
        self._takes_turns = node.body.takes_turns and self._concurrency > 1
        self._weak: weakref.ref[TaskNode] = weakref.ref(self)
        self._plan_task = query.queue.admit if self.is_first else query.queue.put

        self._lock = threading.Lock()
        self._termination = termination
        self._owner, self._first_reference = callback(self._unreferenced)
        self._gate = Gate(is_cut_point=node.is_cut_point)
        self._inbox = Inbox(node.body.most_inputs, node.body.most_size, is_parallel=self._concurrency > 1)
        self._planned = 0  # number of tasks that are planned and have not run yet
        self._running = 0  # number of calls in progress
        self._is_exclusive = False  # the call in progress allows no other at the same time
        self._is_turn_taken = False
        self._is_started = False
        self._is_stopping = False  # the query is being stopped: ends of input are dropped
        self._is_over = False  # the node was disposed of, or is about to end: it takes nothing any more
        self._has_ended = False
        self._parked: CallbackReference | None = None  # the last reference, while inputs wait
        self._is_unparked = False  # that reference was released: only the stop follows
        self.finished_inputs = 0
        """Number of inputs that were executed, without barriers and ends of ports."""

    # Called by producers

    def referred(self, port: int) -> CallbackReference:
        """See `Consumer`."""
        self._gate.add(port)
        return self._first_reference.copy()

    def joined(self, port: int) -> tuple[CallbackReference, CallbackReference] | None:
        """Add a producer at a port while the query runs; return its references to this node and to the query's end.

        The node and the query cannot end before these references are released. Return None if the node is ending, or if
        all other producers of that port have ended.
        """
        with self._lock:
            if self._is_over or self._is_stopping or not self._gate.open_ports.get(port):
                return None
            # The port has a producer that has not ended, so neither the node nor the query can end while this lock is
            # held.
            self._gate.add(port)
            return self._owner.refer(), self._termination.copy()

    def built(self) -> None:
        """Release the node's own reference, as all producers have been added."""
        self._first_reference.release()

    def accept(self, entries: Sequence[Entry], *, is_hand_on: bool = False) -> None:
        """See `Consumer`."""
        planned = 0
        with self._lock:
            is_over = self._is_over
            if not is_over:
                for entry in entries:
                    self._inbox.add(entry)
                if self._concurrency > 1 or not (self._planned or self._running):
                    planned = self._due()
        if is_over:
            self.expire(entries)
        elif planned:
            self._plan(planned, is_hand_on=is_hand_on)

    def pass_barrier(self, edge: Edge, barrier: Barrier) -> None:
        """See `Consumer`."""
        with self._lock:
            if self._is_over or self.query.barrier is not barrier:
                return
            self._gate.passed(edge, barrier)
            planned = self._due()
        self._plan(planned)

    def producer_ended(self, edge: Edge) -> None:
        """See `Consumer`."""
        with self._lock:
            if self._gate.end(edge) and not (self._is_stopping or self._is_over):
                self._inbox.add_end(edge.port)
            planned = self._due()
            is_last = not self._gate.open
        self._plan(planned)
        if is_last:
            self.query.queue.put(PendingPipelineStopTask(self, edge.reference))
        else:
            edge.reference.release()

    # Barriers

    def begin_barrier(self, barrier: Barrier | None, payload: object) -> Barrier:
        """See `CalledNode`."""
        return self.query.begin_barrier(self, barrier, payload)

    def barrier_passed(self, barrier: Barrier) -> None:
        """See `CalledNode`."""
        self.query.barrier_passed(self, barrier)

    def want_barrier(self, barrier: Barrier) -> None:
        """Note at a cut point that a barrier was requested."""
        with self._lock:
            if not (self._is_over or self._is_unparked):
                self._gate.want(barrier)
            planned = self._due()
        self._plan(planned)

    def barrier_begun(self, barrier: Barrier) -> None:
        """Note that a cut point begins the barrier within the current call."""
        with self._lock:
            self._gate.begun(barrier)

    def barrier_over(self) -> None:
        """Resume after the barrier has completed or was aborted."""
        with self._lock:
            self._gate.over()
            planned = self._due()
            parked = self._unpark()
        self._plan(planned)
        _release(parked)

    # Due calls

    def _due(self) -> int:
        """Return the number of further tasks that are needed now; they count as planned from now on."""
        if self._is_over or self._is_exclusive or self._gate.is_resting:
            return 0
        most = self._concurrency - self._running - self._planned
        if most <= 0:
            return 0
        if self._is_drain_due() or (self._inbox.is_at_end and self._is_alone()):
            wanted = 1
        elif not self._inbox or self._inbox.is_at_end or self._is_turn_taken:
            return 0
        else:
            wanted = 1 if self._takes_turns or self._concurrency == 1 else self._inbox.calls
        planned = max(0, min(most, wanted - self._planned))
        self._planned += planned
        return planned

    def _is_alone(self) -> bool:
        """Return True if all inputs that were taken are executed."""
        return not (self._running or self._inbox.has_repeats)

    def _is_drain_due(self) -> bool:
        if self._gate.barrier is None:
            return False
        return self._gate.is_due(is_running=bool(self._running), is_empty=not len(self._inbox))

    def _plan(self, count: int, *, is_hand_on: bool = False) -> None:
        plan_task = self.query.queue.hand_on if is_hand_on else self._plan_task
        for _ in range(count):
            plan_task(WorkTask(self._weak))

    def take(self) -> Call | None:
        """Take and return the call that a worker is to make; return None if none is due any more."""
        with self._lock:
            self._planned -= 1
            call = self._next_call()
            if call is not None:
                self._running += 1
                self._is_exclusive = call.kind != INPUTS
            planned = self._due() if self._concurrency > 1 or call is None else 0
            parked = self._unpark() if self._parked is not None else None
        if planned:
            self._plan(planned)
        _release(parked)
        return call

    def _next_call(self) -> Call | None:
        if self._is_over or self._is_exclusive or self._gate.is_resting or self._running >= self._concurrency:
            return None
        if self._is_drain_due():
            self._gate.is_asked = self.is_cut_point
            return Call(self, DRAIN, -1, self._gate.barrier)
        inbox = self._inbox
        if inbox.is_at_end:
            return Call(self, END, inbox.take_end()) if self._is_alone() else None
        if not inbox or self._is_turn_taken:
            return None
        call = Call(self, INPUTS)
        call.entries, call.size = inbox.take()
        call.port = call.entries[0][0]
        call.has_turn = self._is_turn_taken = self._takes_turns
        return call

    def give_turn(self, call: Call) -> None:
        """End the turn of a call, so that another worker may take the next inputs."""
        with self._lock:
            call.has_turn = self._is_turn_taken = False
            planned = self._due()
        self._plan(planned)

    def wake(self) -> None:
        """Return the delayed inputs whose time has come."""
        now_s = self.query.now_s()
        with self._lock:
            self._inbox.return_due(now_s)
            planned = self._due()
        self._plan(planned)

    def settle(self, call: Call, again: Sequence[Entry] = (), later: Sequence[tuple[float, Entry]] = ()) -> None:
        """See `CalledNode`."""
        with self._lock:
            self._running -= 1
            if call.kind != INPUTS:
                self._is_exclusive = False
            elif call.has_turn:
                self._is_turn_taken = False
            executed = len(call.entries) - len(again) - len(later)
            self.finished_inputs += max(0, executed)
            self._gate.called(call.barrier)
            is_over = self._is_over
            if not is_over:
                if again or later:
                    self._inbox.repeat(again, later)
                if self._inbox.has_repeats and (executed > 0 or not self._running):
                    self._inbox.return_aside()
            is_ending = is_over and not self._running
            planned = self._due()
            parked = self._unpark() if self._parked is not None else None
        if planned and again and executed <= 0:  # the call waits for other nodes: queue it after their tasks
            for _ in range(planned):
                self.query.queue.admit(WorkTask(self._weak))
        elif planned:
            self._plan(planned)
        _release(parked)
        if is_over:
            self.expire([*again, *[entry for _, entry in later]])
        else:
            for due_s, _ in later:
                self.query.queue.put_at(WakeTask(self._weak), due_s)
        if is_ending:
            self._end()

    # Beginning and end

    def start(self) -> bool:
        """See `TaskNode`."""
        return call_start(self)

    def stop(self) -> bool:
        """See `TaskNode`."""
        return call_stop(self)

    def enter(self, call: Call) -> bool:
        """See `CalledNode`."""
        with self._lock:
            if self._is_over or (call.kind == START and self._is_stopping):
                return False
            self._running += 1
            self._is_exclusive = True
            return True

    @property
    def is_started(self) -> bool:
        """True if `Pipeline.start` has returned, and neither `stop` nor `discard` was called."""
        return self._is_started

    def set_started(self, *, is_started: bool) -> None:
        """Note that the call of `start` has returned, or that the call of `stop` is about to be made."""
        with self._lock:
            self._is_started = is_started

    def park(self, reference: CallbackReference) -> None:
        """Keep the last reference until no input waits here any more, then release it."""
        with self._lock:
            self._parked = reference
            parked = self._unpark()
        _release(parked)

    def _unpark(self) -> CallbackReference | None:
        """Return the last reference if it can be released now, else None."""
        if self._parked is None or self._running or self._planned or self._gate.is_resting:
            return None
        if len(self._inbox) and not self._is_over:
            return None
        parked, self._parked = self._parked, None
        self._is_unparked = True
        return parked

    def _unreferenced(self) -> None:
        """Queue the stop of the pipeline, as the last reference was released."""
        self.query.queue.put(StopPipelineTask(self))

    def quiesce(self) -> None:
        """Prepare for the stop of the query: nodes that only sources feed skip their inputs, others execute theirs."""
        with self._lock:
            self._is_stopping = True
            skipped = self._inbox.clear() if self.is_first else []
            self._inbox.clear_ends()
            planned = self._due()
            parked = self._unpark()
        self._plan(planned)
        _release(parked)
        self.expire(skipped)

    def dispose(self) -> None:
        """End at once, or when the current calls have returned; skip the inputs that wait."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            skipped = self._inbox.clear()
            parked, self._parked = self._parked, None
            is_ending = not self._running
        self._owner.release()
        _release(parked)
        self.expire(skipped)
        if is_ending:
            self._end()

    def expire(self, entries: Sequence[Entry]) -> None:
        """Skip these inputs."""
        if entries:
            self.query.admission.leave([entry[3] for entry in entries if entry[3] is not None])
            self.query.expired(self.name, len(entries))

    def end(self) -> None:
        """End the node, whose pipeline was stopped or never started."""
        with self._lock:
            self._is_over = True
            self._running = 0
            skipped = self._inbox.clear()
        self.expire(skipped)
        self._end()

    def _end(self) -> None:
        with self._lock:
            if self._has_ended:
                return
            self._has_ended = True
            is_started, self._is_started = self._is_started, False
        self.contexts.clear()
        if is_started:
            call_discard(self)
        edges, self.edges = self.edges, ()
        for edge in edges:
            edge.node.producer_ended(edge)
        self.query.node_ended(self)
        self._termination.release()

    def check(self) -> None:
        """Assert the invariants."""
        with self._lock:
            self._inbox.check()
            assert 0 <= self._running <= self._concurrency
            assert self._planned >= 0
            assert self._is_over or self._planned + self._running <= self._concurrency
            self._gate.check()
            assert not (self._is_exclusive and self._running != 1)
            assert not (self._has_ended and (self._running or len(self._inbox) or not self._is_over))
            if not (self._is_over or self._gate.is_resting or self._planned or self._running or self._is_turn_taken):
                is_waiting = self._inbox.is_at_end and self._inbox.has_repeats
                assert is_waiting or not self._inbox, "inputs wait and no task is planned"
                assert not self._is_drain_due(), "the drain is due and no task is planned"
            assert self._parked is None or not self._gate.open


def _release(reference: CallbackReference | None) -> None:
    if reference is not None:
        reference.release()
