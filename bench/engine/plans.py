"""Plans without work: a source, and pipelines that pass on their input."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from runtime.engine import (
    Context,
    Emitter,
    EngineConfig,
    Node,
    Pipeline,
    Plan,
    QueryEngine,
    QueryStatus,
    Source,
    StatusListener,
)

__all__ = ["PATIENCE_S", "QUERY", "Counted", "ItemSource", "PassOn", "chain", "running"]

QUERY: Final = "bench"
PATIENCE_S: Final = 300.0


class PassOn(Pipeline):
    """Pipeline that emits its input."""

    def __init__(self, concurrency: int = 1) -> None:
        self.concurrency = concurrency

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Pass the input on."""
        for item in inputs:
            context.emit(item)


class Counted(PassOn):
    """Pipeline that counts the items that it passes on; only the worker that executes the pipeline changes the
    count."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0
        self._awaited = 0
        self._came = threading.Event()

    @property
    def passed(self) -> int:
        """Number of items so far."""
        return self._passed

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Count the input and pass it on."""
        super().execute(inputs, context)
        self._passed += len(inputs)
        if self._passed >= self._awaited:
            self._came.set()

    def wait_for(self, more: int) -> None:
        """Wait until ``more`` further items have come; raise `RuntimeError` if they do not. Only one thread may call
        this method.
        """
        self._came.clear()
        self._awaited = self._passed + more
        if not self._came.wait(PATIENCE_S):
            raise RuntimeError(f"expected {more} items within {PATIENCE_S:.0f} s, was {self._passed} in all")


class ItemSource(Source):
    """Source that emits a number of items at full speed, on a thread of its own, and ends afterwards only if ``ends``
    is true."""

    def __init__(self, items: int, *, ends: bool) -> None:
        self._items = items
        self._ends = ends
        self._thread: threading.Thread | None = None

    def open(self, emit: Emitter) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, args=(emit,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Do nothing: the thread ends with the query, which refuses further items."""

    def _run(self, emit: Emitter) -> None:
        for item in range(self._items):
            if not emit.put(item):
                return
        if self._ends:
            emit.end_of_stream()


def chain(source: Source, pipelines: Sequence[Pipeline]) -> Plan:
    """Return a plan of the source followed by pipelines in a row."""
    plan = Plan(QUERY)
    node: Node = plan.add_source("source", source)
    for number, pipeline in enumerate(pipelines):
        node = plan.add(f"operator {number}", pipeline, [node])
    return plan


class _Status(StatusListener):
    def __init__(self) -> None:
        self.running, self.ended = threading.Event(), threading.Event()
        self.reason = ""

    def on_status(self, query_id: str, status: QueryStatus, reason: str) -> None:
        """Record the status; see `StatusListener`."""
        if status is QueryStatus.RUNNING:
            self.running.set()
        elif status in {QueryStatus.STOPPED, QueryStatus.FAILED}:
            self.reason = reason if status is QueryStatus.FAILED else ""
            self.running.set()
            self.ended.set()


@contextmanager
def running(plan: Plan, workers: int) -> Iterator[tuple[QueryEngine, threading.Event]]:
    """Yield an engine that runs the plan, and an event that is set at its end; raise `RuntimeError` if the query
    failed.
    """
    status = _Status()
    engine = QueryEngine(EngineConfig(workers=workers), status)
    try:
        engine.start(plan)
        if not status.running.wait(PATIENCE_S):
            raise RuntimeError(f"expected the query to run within {PATIENCE_S:.0f} s, it does not")
        yield engine, status.ended
    finally:
        engine.shutdown(PATIENCE_S)
    if status.reason and status.reason != "the engine was shut down":
        raise RuntimeError(status.reason)
