"""Plan that is being executed: its nodes and sources, its state, and its barriers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

import msgspec

from deltabook.wire.durations import Durations
from runtime.engine.admission import Admission
from runtime.engine.barriers import Barrier, BarrierCycle, BarrierFuture, BarrierOutcome
from runtime.engine.errors import BarrierError, cause_of
from runtime.engine.lifetime import CallbackOwner, CallbackReference, callback
from runtime.engine.listeners import (
    Publisher,
    QueryFailed,
    QueryStarted,
    QueryStatus,
    QueryStopped,
    QueryStopRequested,
    TaskExpired,
)
from runtime.engine.plan import Plan, Source
from runtime.engine.queue import TaskQueue
from runtime.engine.running.gate import Edge
from runtime.engine.running.node import RunningNode
from runtime.engine.running.places import BEFORE_CUT_POINT, BarrierPlaces, check_part
from runtime.engine.running.source import RunningSource
from runtime.engine.tasks import StartPipelineTask, TaskCallbacks

__all__ = ["QueryCounters", "RunningQuery"]


class _State(Enum):
    """State of a query; it changes only to a later one, and at last to ENDED."""

    REGISTERED = 0
    STARTING = 1
    RUNNING = 2
    STOPPING = 3
    FAILING = 4
    DISPOSING = 5
    ENDED = 6


_LIVE = frozenset({_State.STARTING, _State.RUNNING})


class QueryCounters(msgspec.Struct, frozen=True):
    """Counters of a query."""

    finished_inputs: int
    """Number of inputs that the pipelines have executed; barriers do not count."""
    barriers: int
    """Number of barriers that were reached."""
    barriers_aborted: int
    """Number of barriers that were aborted by the end of the query."""
    barrier_durations: Durations
    """Durations of the barriers that were reached."""


class RunningQuery:
    """Execution of a plan; one instance for each start. It ends once, and notifies the listeners once.

    Workers call its methods; any thread may call `request_barrier`, `grow` and `counters`. All mutable state is
    accessed with `_lock` held. The query's list of nodes that have not ended does not keep a node from ending: the
    producers that feed the node have references to it, and the node ends when the last of these references is released.
    """

    def __init__(
        self,
        plan: Plan,
        places: BarrierPlaces,
        *,
        queue: TaskQueue,
        admission: Admission,
        publisher: Publisher,
        now_s: Callable[[], float],
        on_ended: Callable[[RunningQuery], None],
        on_published: Callable[[RunningQuery], None],
    ) -> None:
        """Create a query that is not started.

        ``on_ended`` is called when all nodes and sources have ended, and ``on_published`` after the listeners were
        notified of the end.
        """
        self.query_id = plan.query_id
        self.queue = queue
        self.admission = admission
        self.publisher = publisher
        self.now_s = now_s
        self._places = places
        self._on_ended, self._on_published = on_ended, on_published
        self._lock = threading.Lock()
        self._plan: Plan | None = plan
        self._state = _State.REGISTERED
        self._reason = ""
        self._setup: CallbackOwner | None = None
        self._opening: CallbackReference | None = None  # keeps the query from ending before its sources are open
        # Nodes and sources that have not ended, each after those that feed it.
        self._nodes: dict[RunningNode, None] = {}
        self._sources: dict[RunningSource, None] = {}
        self._cycle = BarrierCycle(now_s, shares_begun=not places.cut_points)
        self._remaining: set[RunningNode] = set()  # nodes that have yet to pass the barrier on
        self._finished_inputs = 0  # inputs of nodes that have ended

    # Beginning and end

    def start(self) -> None:
        """Build the nodes and have workers start them."""
        self.publisher.status(self.query_id, QueryStatus.REGISTERED)
        owner, termination = callback(self._terminated)
        del owner  # not kept, because the release of the last reference ends the query in any state
        setup_owner, setup = callback(lambda: self._all_started(termination))
        with self._lock:
            plan, self._plan = self._plan, None
            is_wanted = self._state is _State.REGISTERED and plan is not None
            if is_wanted and plan is not None:
                self._state = _State.STARTING
                self._setup, self._opening = setup_owner, termination
                nodes, sources = _build(self, plan, termination, self._places)
                self._nodes, self._sources = dict.fromkeys(nodes), dict.fromkeys(sources)
            nodes = list(self._nodes)
        self._start_nodes(nodes, setup)
        if not is_wanted:
            setup_owner.release()
            termination.release()
        setup.release()

    def grow(self, part: Plan, into: str) -> bool:
        """See `QueryEngine.grow`."""
        check_part(part, self.query_id)
        with self._lock:
            target = next((node for node in self._nodes if node.name == into and node.is_cut_point), None)
            joined = target.joined(0) if target is not None and self._state is _State.RUNNING else None
            if target is None or joined is None:
                return False
            reference, termination = joined
            nodes, sources = _build(self, part, termination, end=Edge(target, 0, reference))
            self._nodes = dict.fromkeys([*nodes, *self._nodes])
            self._sources.update(dict.fromkeys(sources))
        owner, setup = callback(lambda: _open(sources))  # a source that has ended meanwhile is not opened
        del owner
        self._start_nodes(nodes, setup)
        setup.release()
        termination.release()
        return True

    def _start_nodes(self, nodes: Sequence[RunningNode], setup: CallbackReference) -> None:
        """Have workers start the nodes; each has a reference to the setup until it is started."""
        for node in nodes:
            callbacks = TaskCallbacks(setup.copy().release, None, partial(self.node_failed, node.name))
            self.queue.put(StartPipelineTask(node, callbacks))

    def _all_started(self, opening: CallbackReference) -> None:
        """Open the sources, as all pipelines have been started.

        The query cannot end before its status RUNNING is published.
        """
        with opening:
            with self._lock:
                sources = list(self._sources)
            _open(sources)
            with self._lock:
                is_running = self._state is _State.STARTING
                if is_running:
                    self._state = _State.RUNNING
            if is_running:
                self.publisher.status(self.query_id, QueryStatus.RUNNING)
                self.publisher.event(QueryStarted(self.query_id, self.now_s()))

    def stop(self) -> bool:
        """Stop the query; return False if it is already ending."""
        with self._lock:
            before = self._state
            if before is not _State.REGISTERED and before not in _LIVE:
                return False
            self._state = _State.STOPPING
            nodes, sources, futures = self._abort()
        self.publisher.event(QueryStopRequested(self.query_id, self.now_s()))
        for source in sources:
            source.silence()
        for node in nodes:
            node.quiesce()
        self._close_sources(sources, before)
        _settle(futures, BarrierOutcome.ABORTED)
        return True

    def fail(self, reason: str) -> None:
        """Fail the query with this reason; only the first reason counts."""
        self._tear_down(_State.FAILING, reason)

    def dispose(self, reason: str) -> None:
        """End the query at once: skip inputs that wait, and discard the pipelines."""
        self._tear_down(_State.DISPOSING, reason)

    def _tear_down(self, state: _State, reason: str) -> None:
        with self._lock:
            before = self._state
            if before in {_State.FAILING, _State.DISPOSING, _State.ENDED}:
                return
            self._state, self._reason = state, reason
            nodes, sources, futures = self._abort()
        if state is _State.FAILING:
            self.publisher.failing(self.query_id, reason)
        for source in sources:
            source.silence()
        for node in nodes:
            node.dispose()
        self._close_sources(sources, before)
        _settle(futures, BarrierOutcome.ABORTED)

    def _abort(self) -> tuple[list[RunningNode], list[RunningSource], list[BarrierFuture]]:
        """Abort all barriers; return the remaining nodes, sources and futures. The caller holds the lock."""
        futures = self._cycle.abort()
        self._lift()
        return list(self._nodes), list(self._sources), futures

    def _close_sources(self, sources: list[RunningSource], before: _State) -> None:
        """Have workers close the sources; a source that is not open yet is never opened."""
        with self._lock:
            setup, opening = self._setup, self._opening
        if setup is not None:
            setup.release()
        for source in sources:
            source.request_stop()
        if before is _State.STARTING and opening is not None:
            opening.release()

    def _terminated(self) -> None:
        """Publish the end of the query, as all nodes and sources have ended."""
        with self._lock:
            is_failed, reason = self._state is _State.FAILING, self._reason
            self._state = _State.ENDED
            self._setup = self._opening = None
            futures = self._cycle.abort()
        self._on_ended(self)
        _settle(futures, BarrierOutcome.ABORTED)
        if is_failed:
            self.publisher.event(QueryFailed(self.query_id, self.now_s(), reason))
            self.publisher.status(self.query_id, QueryStatus.FAILED, reason)
        else:
            self.publisher.event(QueryStopped(self.query_id, self.now_s()))
            self.publisher.status(self.query_id, QueryStatus.STOPPED, reason)
        self._on_published(self)

    # Called by nodes and sources

    def node_failed(self, name: str, error: Exception) -> None:
        """Fail the query, as a call of a node has raised."""
        self.fail(f"node {name}: {cause_of(error)}")

    def node_ended(self, node: RunningNode) -> None:
        """Remove a node that was stopped or discarded, or never started."""
        with self._lock:
            del self._nodes[node]
            self._finished_inputs += node.finished_inputs
            self._remaining.discard(node)
            futures, refused = self._complete()
        _settle(futures, BarrierOutcome.REACHED)
        for source in refused:
            source.resume()

    def source_ended(self, source: RunningSource) -> None:
        """Remove a source that was closed or never opened."""
        with self._lock:
            del self._sources[source]

    def expired(self, name: str, inputs: int) -> None:
        """Publish that this number of inputs was skipped; 0 for a start or a stop that was skipped."""
        if self.publisher.has_statistics:
            self.publisher.event(TaskExpired(self.query_id, self.now_s(), name, inputs))

    # Barriers

    @property
    def barrier(self) -> Barrier | None:
        """Barrier that is in progress; None if there is none."""
        return self._cycle.current

    def request_barrier(self, payload: object) -> BarrierFuture:
        """See `QueryEngine.request_barrier`."""
        if self._places.refusal:
            raise BarrierError(f"expected a plan that can drain, was query {self.query_id} with {self._places.refusal}")
        with self._lock:
            if self._state is not _State.RUNNING:
                future = BarrierFuture()
                future.settle(BarrierOutcome.NOT_RUNNING, None)
                return future
            if all(source.is_over for source in self._sources):
                raise BarrierError(f"expected input to come, was the end of all sources of query {self.query_id}")
            future = self._cycle.request(payload)
            barrier = self._cycle.begin()
            if barrier is not None:
                self._spread(barrier)
            return future

    def begin_barrier(self, node: RunningNode, barrier: Barrier | None, payload: object) -> Barrier:
        """Begin the requested barrier, or a new one, at a cut point; return the barrier.

        Raise `BarrierError` if the plan cannot drain.
        """
        if self._places.refusal:
            raise BarrierError(f"expected a plan that can drain, was query {self.query_id} with {self._places.refusal}")
        with self._lock:
            current = self._cycle.current
            if barrier is not None and current is not barrier:  # it was aborted meanwhile, so that no node takes it
                return barrier
            if current is None:
                if self._state in {_State.FAILING, _State.DISPOSING}:
                    return Barrier(0, payload)
                current = self._cycle.begin_at_once(payload)
                self._spread(current, node)
            node.barrier_begun(current)
            self._cycle.has_begun()
            return current

    def _spread(self, barrier: Barrier, beginner: RunningNode | None = None) -> None:
        """Begin the barrier at all places but ``beginner``, where it has begun already. The caller holds the lock."""
        self._remaining = {node for node in self._nodes if node.is_behind}
        for node in self._nodes:
            if node.is_cut_point and node is not beginner:
                node.want_barrier(barrier)
        for source in self._sources:
            if source.begins_barriers:
                source.hold(barrier)

    def barrier_passed(self, node: RunningNode, barrier: Barrier) -> None:
        """Note that a node has drained and passed the barrier on."""
        with self._lock:
            if self._cycle.current is not barrier:
                return
            self._remaining.discard(node)
            futures, refused = self._complete()
        _settle(futures, BarrierOutcome.REACHED, barrier)
        for source in refused:
            source.resume()

    def _complete(self) -> tuple[list[BarrierFuture], list[RunningSource]]:
        """Complete the barrier if all nodes have passed it on.

        Returns the futures to settle and the sources to resume. The caller holds the lock.
        """
        if self._cycle.current is None or self._remaining:
            return [], []
        futures = self._cycle.complete()
        refused = self._lift()
        barrier = self._cycle.begin() if self._nodes else None
        if barrier is not None:
            self._spread(barrier)
        return futures, refused

    def _lift(self) -> list[RunningSource]:
        """Let nodes and sources take input again; return the sources to resume. The caller holds the lock."""
        self._remaining = set()
        for node in self._nodes:
            node.barrier_over()
        return [source for source in self._sources if source.unhold()]

    # Called by observers

    def counters(self) -> QueryCounters:
        """Return the counters of the query."""
        with self._lock:
            durations = self._cycle.durations
            return QueryCounters(
                self._finished_inputs + sum([node.finished_inputs for node in self._nodes]),
                durations.count,
                self._cycle.aborted,
                durations,
            )

    def check(self) -> None:
        """Assert the invariants; for tests that run one task at a time."""
        with self._lock:
            nodes, sources, current = list(self._nodes), list(self._sources), self._cycle.current
            assert (current is not None) == bool(self._remaining)
            assert self._remaining <= set(nodes)
            assert current is None or self._state in _LIVE or self._state is _State.STOPPING
            assert self._state is not _State.ENDED or not (nodes or sources)
        for node in nodes:
            node.check()
        for source in sources:
            source.check(is_barrier=current is not None)


def _open(sources: Sequence[RunningSource]) -> None:
    for source in sources:
        source.open()


def _settle(futures: list[BarrierFuture], outcome: BarrierOutcome, barrier: Barrier | None = None) -> None:
    for future in futures:
        future.settle(outcome, barrier)


def _build(
    query: RunningQuery,
    plan: Plan,
    termination: CallbackReference,
    places: BarrierPlaces = BEFORE_CUT_POINT,
    end: Edge | None = None,
) -> tuple[list[RunningNode], list[RunningSource]]:
    """Return the nodes and sources of a plan, none of them started, each list in an order from producers to consumers.

    ``end`` is the edge to a cut point of the query, if the plan is added before it.
    """
    running: dict[int, RunningNode] = {}
    sources: list[RunningSource] = []
    for node in reversed(plan.nodes):
        edges = [Edge(running[index], port) for index, port in node.successors]
        if end is not None and not edges:
            edges.append(end)
        if isinstance(node.body, Source):
            begins = node.index in places.sources
            sources.append(RunningSource(query, node, edges, termination.copy(), begins_barriers=begins))
        else:
            running[node.index] = RunningNode(
                query,
                node,
                edges,
                termination.copy(),
                is_behind=node.index in places.behind,
                is_one_of_cut_points=node.is_cut_point and len(places.cut_points) > 1,
            )
    for each in running.values():
        each.built()
    return list(running.values())[::-1], sources[::-1]
