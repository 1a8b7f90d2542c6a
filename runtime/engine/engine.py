"""The query engine: starts and stops plans, and passes barriers through them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import msgspec
from twisted.logger import Logger

from runtime.engine.admission import Admission
from runtime.engine.barriers import BarrierFuture, BarrierOutcome
from runtime.engine.errors import EngineError
from runtime.engine.listeners import Publisher, StatisticsListener, StatusListener
from runtime.engine.plan import Plan
from runtime.engine.queue import TaskQueue
from runtime.engine.running import QueryCounters, RunningQuery, barrier_places
from runtime.engine.tasks import StartQueryTask, StopQueryTask
from runtime.engine.workers import Crew, Workers

__all__ = ["EngineConfig", "QueryEngine"]


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of an engine."""

    workers: int = 2
    """Threads that run tasks."""
    admitted: int = 1000
    """Greatest number of inputs of all sources in flight. An input is in flight from its admission until it and all
    items derived from it are executed."""
    admitted_size: int = 32 << 20
    """Greatest sum of the sizes of all inputs in flight, in the unit of their sources: bytes if the input is raw."""
    in_flight: int = 64
    """Greatest number of inputs of one source in flight."""
    in_flight_size: int = 16 << 20
    """Greatest sum of the sizes of the inputs of one source in flight."""

    def __post_init__(self) -> None:
        for name, size in msgspec.structs.asdict(self).items():
            if size < 1:
                raise ValueError(f"expected {name} of at least 1, was {size}")


class QueryEngine:
    """Executor of plans, each as a query with an id, on workers that all queries share.

    All methods except `shutdown` may be called from any thread and do not wait; workers do the work and notify the
    listeners. `_queries` and `_delayed` are accessed with `_lock` held.
    """

    _log = Logger()

    def __init__(
        self,
        config: EngineConfig,
        status: StatusListener,
        statistics: StatisticsListener | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        workers: Callable[[TaskQueue, int, Callable[[BaseException], None]], Crew] | None = None,
    ) -> None:
        """Start the workers.

        ``workers`` makes the crew that runs the tasks; by default the crew is threads.
        """
        self._publisher = Publisher(status, statistics)
        self._now_s = now_s
        self._lock = threading.Lock()
        self._queries: dict[str, RunningQuery] = {}
        # Query id → starts that wait until the end of the earlier query with this id is published.
        self._delayed: dict[str, list[StartQueryTask]] = {}
        self._is_shut_down = False
        self.queue = TaskQueue(now_s)
        """Tasks that wait for workers."""
        self.admission = Admission(config.admitted, config.admitted_size, config.in_flight, config.in_flight_size)
        """Inputs in flight."""
        self.faults = 0
        """Number of errors outside queries; if it is not 0, the engine is broken."""
        self._workers = (workers or Workers)(self.queue, config.workers, self._on_fault)
        self._workers.start()

    def start(self, plan: Plan) -> None:
        """Start a plan; if a query with its id has not ended, ignore the start and notify the listeners.

        Raises PlanError if the plan cannot be executed. A plan can be started only once, because its pipelines have
        state; another start needs a new plan.
        """
        places = barrier_places(plan)
        query = RunningQuery(
            plan,
            places,
            queue=self.queue,
            admission=self.admission,
            publisher=self._publisher,
            now_s=self._now_s,
            on_ended=self._ended,
            on_published=self._start_delayed,
        )
        with self._lock:
            is_shut_down = self._is_shut_down
            is_free = not is_shut_down and self._queries.setdefault(plan.query_id, query) is query
            if is_free and plan.query_id in self._delayed:
                self._delayed[plan.query_id].append(StartQueryTask(query))
            elif is_free:
                self.queue.put(StartQueryTask(query))  # lock held: the stop task of a shutdown is put later
        if is_shut_down:
            self._publisher.ignored(plan.query_id, "start", "the engine is shut down")
        elif not is_free:
            ignored = partial(self._publisher.ignored, plan.query_id, "start", "a query with this id has not ended")
            self.queue.put(ignored)

    def stop(self, query_id: str) -> None:
        """Stop a query once all input that its pipelines have begun to execute is executed.

        If no query has this id, or it is ending already, ignore the stop and notify the listeners.
        """
        with self._lock:
            query = self._queries.get(query_id)
        self.queue.put(StopQueryTask(partial(self._stop, query_id, query)))

    def _stop(self, query_id: str, query: RunningQuery | None) -> None:
        if query is None:
            self._publisher.ignored(query_id, "stop", "no query has this id")
        elif not query.stop():
            self._publisher.ignored(query_id, "stop", "the query is ending already")

    def request_barrier(self, query_id: str, payload: object = None) -> BarrierFuture:
        """Request a barrier, which executes all earlier input and drains all pipelines; return its future.

        During the barrier, later input waits at the sources, or at the plan's cut points. Requests without a payload
        share a barrier; see `BarrierCycle`. The future is done at once if the query is not running. Raises BarrierError
        if a pipeline cannot drain (the error names its node), if all sources have ended, or if too many requests wait.
        """
        with self._lock:
            query = self._queries.get(query_id)
        if query is not None:
            return query.request_barrier(payload)
        future = BarrierFuture()
        future.settle(BarrierOutcome.NOT_RUNNING, None)
        return future

    def hold(self, is_held: bool) -> None:
        """Start or end a hold, during which no source's input is admitted, even if there is room.

        The end of the hold resumes the sources that were refused.
        """
        self.admission.hold(is_held)
        if not is_held:
            self.queue.put(self.admission.resume_held)

    def grow(self, query_id: str, part: Plan, into: str) -> bool:
        """Add sources and pipelines to a running query; their output goes to port 0 of one of its cut points.

        The added parts are started and opened like those of the plan, and a part ends when the sources that feed it
        end. Adding parts needs no barrier: the items of the parts come after the last completed barrier. Return False
        if the query is not running, or has no cut point of this name with open input; raise PlanError for a part that
        cannot be executed.
        """
        with self._lock:
            query = self._queries.get(query_id)
        return query is not None and query.grow(part, into)

    def counters(self, query_id: str) -> QueryCounters | None:
        """Return the counters of a query; None if there is none."""
        with self._lock:
            query = self._queries.get(query_id)
        return None if query is None else query.counters()

    def shutdown(self, timeout_s: float) -> None:
        """End every query at once, without `Pipeline.stop`, and end the workers.

        It may be called twice, but not by a worker. Raises EngineError if a worker has not ended in time because a call
        of a source or a pipeline has not returned.
        """
        with self._lock:
            self._is_shut_down = True
            queries = list(self._queries.values())
        for query in queries:
            self.queue.put(StopQueryTask(partial(query.dispose, "the engine was shut down")))
        self.queue.finish()
        if not self._workers.join(timeout_s):
            self.queue.close()
            raise EngineError(f"expected the workers to end within {timeout_s} s, one still runs")
        self.queue.close()

    def _ended(self, query: RunningQuery) -> None:
        """Free the id; delay a query that starts under the same id until the listeners were notified of this end."""
        with self._lock:
            del self._queries[query.query_id]
            self._delayed[query.query_id] = []

    def _start_delayed(self, query: RunningQuery) -> None:
        """Start the queries that waited until the listeners were notified of this query's end."""
        with self._lock:
            for task in self._delayed.pop(query.query_id):
                self.queue.put(task)

    def _on_fault(self, error: BaseException) -> None:
        self.faults += 1
        self._log.critical("a task of the engine failed: {error!r}", error=error)

    def check(self) -> None:
        """Assert the invariants; for tests that run one task at a time."""
        assert not self.faults
        self.admission.check()
        with self._lock:
            queries = list(self._queries.values())
        for query in queries:
            query.check()
