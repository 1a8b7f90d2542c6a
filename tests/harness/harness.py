"""An engine with controlled queries, on threads or on a stepper."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.listeners import QueryStatus
from runtime.engine.plan import Node, Pipeline, Plan
from tests.harness.controls import ControlledPipeline, ControlledSource
from tests.harness.listening import RecordedStatistics, RecordedStatus
from tests.harness.stepper import ManualClock, Stepper
from tests.harness.watch import SteppedWatch, ThreadedWatch, Watch

__all__ = ["WAIT_S", "Harness", "QueryBuilder"]

WAIT_S = 30.0
"""Time that a test waits for an expected event before it fails, in seconds."""


class QueryBuilder:
    """Plan of controls: by name, `sources` and `pipelines`, which include the sinks."""

    def __init__(self, query_id: str, watch: Watch) -> None:
        self.plan = Plan(query_id)
        self.sources: dict[str, ControlledSource] = {}
        self.pipelines: dict[str, ControlledPipeline] = {}
        self._watch = watch

    @property
    def query_id(self) -> str:
        """Id of the plan's query."""
        return self.plan.query_id

    def source(self, name: str = "source") -> Node:
        """Add a source under this name."""
        self.sources[name] = ControlledSource(name, self._watch)
        return self.plan.add_source(name, self.sources[name])

    def pipeline(
        self,
        name: str,
        inputs: Sequence[Node | tuple[Node, int]],
        *,
        concurrency: int = 1,
        most_inputs: int = 1,
        is_cut_point: bool = False,
    ) -> Node:
        """Add a pipeline under this name."""
        pipeline = ControlledPipeline(name, self._watch, concurrency=concurrency, most_inputs=most_inputs)
        pipeline.is_cut_point = is_cut_point
        return self.own(name, pipeline, inputs)

    def sink(self, name: str, inputs: Sequence[Node | tuple[Node, int]]) -> Node:
        """Add a pipeline without successors."""
        return self.pipeline(name, inputs)

    def own(self, name: str, pipeline: Pipeline, inputs: Sequence[Node | tuple[Node, int]]) -> Node:
        """Add a pipeline of the test's own."""
        if isinstance(pipeline, ControlledPipeline):
            self.pipelines[name] = pipeline
        return self.plan.add(name, pipeline, inputs)


class Harness:
    """Engine with controlled queries, as the package describes.

    A context manager: at its end the engine is shut down, and no thread is left.
    """

    def __init__(
        self, seed: int | None = None, *, has_statistics: bool = False, checks: bool = True, **config: int
    ) -> None:
        """Create an engine.

        With a ``seed`` a stepper runs the engine, on a clock that stands still; ``config`` are fields of
        `EngineConfig`. With ``checks``, all invariants are asserted after each step of `until`.
        """
        self._threads = set(threading.enumerate())
        self._is_down = False
        self._checks = checks
        self.clock = ManualClock()
        self.stepper = None if seed is None else Stepper(seed)
        self.watch: Watch = ThreadedWatch(WAIT_S) if self.stepper is None else SteppedWatch(self.stepper, self.check)
        self.status = RecordedStatus(self.watch.changed)
        self.statistics = RecordedStatistics(self.watch.changed) if has_statistics else None
        self.engine = QueryEngine(
            EngineConfig(**config),
            self.status,
            self.statistics,
            now_s=time.monotonic if self.stepper is None else self.clock,
            workers=self.stepper,
        )
        self.clock.when_set(self.engine.queue.wake)

    def check(self) -> None:
        """Assert all invariants of an engine on a stepper."""
        if self._checks:
            self.engine.check()
            self.status.check()

    def query(self, query_id: str = "query") -> QueryBuilder:
        """Return a new plan."""
        return QueryBuilder(query_id, self.watch)

    def chain(self, query_id: str = "query", pipelines: int = 1) -> QueryBuilder:
        """Return the plan of source → pipeline 1 → … → sink."""
        query = self.query(query_id)
        node = query.source()
        for number in range(1, pipelines + 1):
            node = query.pipeline(f"pipeline {number}", [node])
        query.sink("sink", [node])
        return query

    def start(self, query: QueryBuilder) -> None:
        """Start a query."""
        self.engine.start(query.plan)

    def run(self, query: QueryBuilder) -> QueryBuilder:
        """Start a query and wait until it runs."""
        self.start(query)
        self.until(lambda: QueryStatus.RUNNING in self.status.of(query.query_id), f"{query.query_id} to run")
        return query

    def stop(self, query_id: str = "query") -> None:
        """Stop a query."""
        self.engine.stop(query_id)

    def until(self, condition: Callable[[], object], what: str = "the condition to hold") -> None:
        """Wait until a condition holds, as `Watch.until`."""
        self.watch.until(condition, what)

    def until_ended(self, *query_ids: str) -> list[QueryStatus]:
        """Wait for the final statuses, and return them."""
        for query_id in query_ids or ("query",):
            self.until(lambda q=query_id: self.status.has_ended(q), f"{query_id} to end")  # type: ignore[misc]
        return [self.status.of(query_id)[-1] for query_id in query_ids or ("query",)]

    def barrier(self, query_id: str = "query", payload: object = None) -> None:
        """Request a barrier and wait until it is over."""
        future = self.engine.request_barrier(query_id, payload)
        future.when_done(lambda _: self.watch.changed())
        self.until(lambda: future.outcome is not None, "the barrier to be over")

    def shutdown(self) -> None:
        """Shut the engine down; assert that it leaves nothing behind."""
        self._is_down = True
        self.engine.shutdown(WAIT_S)
        assert self.engine.faults == 0
        self.status.check()
        assert all(self.status.has_ended(query_id) for query_id in self.status.statuses)
        assert self.engine.admission.inputs == 0
        assert self.engine.admission.size == 0
        left = {thread for thread in threading.enumerate() if thread.name.startswith("worker-")} - self._threads
        assert not left, f"expected no thread of the engine's to be left, was {left}"

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_down:
            return
        if kind is None:
            self.shutdown()
        else:
            self.engine.shutdown(WAIT_S)
