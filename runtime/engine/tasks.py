"""Tasks of the engine: the eight kinds that change the state of a query, and the wake-up of a node.

| task | what it does |
|---|---|
| start query | builds the running query; its pipelines are started by tasks of their own |
| stop query | begins a stop that was requested from outside |
| start pipeline | calls `Pipeline.start`; the last of these tasks opens the sources |
| work | calls `Pipeline.execute`, `end_of_input` or `start_drain` |
| pending pipeline stop | keeps a node's last reference until no input waits at the node |
| stop pipeline | calls `Pipeline.stop`; releases the node's references to its successors |
| stop source | calls `Source.close`; releases the source's references to its successors |
| fail source | fails the query of a source that has failed |

Workers run the tasks. A wake-up changes no state of a query: it puts a node's delayed inputs back into the inbox when
they are due.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from runtime.engine.lifetime import CallbackReference
from runtime.engine.queue import Task

__all__ = [
    "EngineTask",
    "FailSourceTask",
    "PendingPipelineStopTask",
    "StartPipelineTask",
    "StartQueryTask",
    "StopPipelineTask",
    "StopQueryTask",
    "StopSourceTask",
    "TaskCallbacks",
    "TaskNode",
    "TaskQuery",
    "TaskSource",
    "WakeTask",
    "WorkTask",
]


class TaskCallbacks:
    """Callbacks for the end of a task: success or failure, then completion; each is called at most once."""

    __slots__ = ("_on_complete", "_on_failure", "_on_success")

    def __init__(
        self,
        on_complete: Callable[[], None] | None = None,
        on_success: Callable[[], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """Set the callbacks.

        ``on_complete`` is called last. If the task was skipped, it is the only callback that is called.
        """
        self._on_complete = on_complete
        self._on_success = on_success
        self._on_failure = on_failure

    def succeeded(self) -> None:
        """Call the callback of success."""
        call, self._on_success, self._on_failure = self._on_success, None, None
        if call is not None:
            call()

    def failed(self, error: Exception) -> bool:
        """Call the callback of failure with an error that the task raised; return False if there is none."""
        call, self._on_success, self._on_failure = self._on_failure, None, None
        if call is not None:
            call(error)
        return call is not None

    def completed(self) -> None:
        """Call the callback of completion, after success or failure."""
        call, self._on_complete = self._on_complete, None
        self._on_success, self._on_failure = None, None
        if call is not None:
            call()


class TaskQuery(Protocol):
    """Interface of a query for tasks."""

    def start(self) -> None:
        """Build the nodes and have workers start them."""


class TaskNode(Protocol):
    """Interface of a node for tasks."""

    def start(self) -> bool:
        """Start the pipeline; return False if the query has ended before."""

    def take(self) -> Task | None:
        """Take the call that a worker is to make, which is made by calling it; return None if none is due any more."""

    def wake(self) -> None:
        """Return the delayed inputs whose time has come."""

    def park(self, reference: CallbackReference) -> None:
        """Keep the last reference until no input waits at the node any more, then release it."""

    def stop(self) -> bool:
        """Stop the pipeline, and end; return False if the node was disposed of before."""


class TaskSource(Protocol):
    """Interface of a source for tasks."""

    def terminate(self) -> bool:
        """Close the source, now or when it is open; return False if that was done before."""

    def fail(self, reason: str) -> bool:
        """Fail the query, as the source has failed; return False if its input is not taken any more."""


class EngineTask(ABC):
    """Task of a query; run once, by the worker that has taken the task and owns it from then on."""

    __slots__ = ("callbacks",)

    def __init__(self, callbacks: TaskCallbacks | None = None) -> None:
        self.callbacks = callbacks or TaskCallbacks()

    def __call__(self) -> None:
        """Run the task; pass an exception to the callback of failure, or raise it to the worker if there is none."""
        try:
            ran = self.run()
        except Exception as error:
            if not self.callbacks.failed(error):
                raise
        else:
            if ran:
                self.callbacks.succeeded()
        finally:
            self.callbacks.completed()

    @abstractmethod
    def run(self) -> bool:
        """Do the task's work; return False if it was skipped, because its node or source has ended."""


class StartQueryTask(EngineTask):
    """Task that starts a query."""

    __slots__ = ("_query",)

    def __init__(self, query: TaskQuery) -> None:
        super().__init__()
        self._query = query

    def run(self) -> bool:
        """Build the query."""
        self._query.start()
        return True


class StopQueryTask(EngineTask):
    """Task that stops a query on request from outside."""

    __slots__ = ("_stop",)

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__()
        self._stop = stop

    def run(self) -> bool:
        """Stop the query that the request named, or have the listeners notified that no such query exists."""
        self._stop()
        return True


class StartPipelineTask(EngineTask):
    """Task that starts a pipeline. Its completion releases a reference; the last such release opens the sources."""

    __slots__ = ("_node",)

    def __init__(self, node: TaskNode, callbacks: TaskCallbacks) -> None:
        super().__init__(callbacks)
        self._node = weakref.ref(node)

    def run(self) -> bool:
        """Start the pipeline."""
        node = self._node()
        return node is not None and node.start()


class WorkTask:
    """Task that makes one call of a pipeline.

    It takes inputs only when a worker runs it, so that all waiting inputs share the call. It does not keep its node
    alive, and is skipped if the node has ended. It has no callbacks, which would cost time in every call: the node
    handles errors itself.
    """

    __slots__ = ("_call", "_node", "is_prepared")

    def __init__(self, node: weakref.ref[TaskNode]) -> None:
        self._node = node
        self.is_prepared = False
        self._call: Task | None = None

    def prepare(self) -> None:
        """Take the inputs. Tests make the call later, as if the worker had been interrupted in between."""
        self.is_prepared = True
        node = self._node()
        self._call = None if node is None else node.take()

    def __call__(self) -> None:
        """Take the inputs, unless `prepare` has taken them, and make the call."""
        call = self._call
        if not self.is_prepared and (node := self._node()) is not None:
            call = node.take()
        if call is not None:
            call()


class WakeTask:
    """Task that puts a node's delayed inputs that are due back into its inbox; skipped if the node has ended."""

    __slots__ = ("_node",)

    def __init__(self, node: weakref.ref[TaskNode]) -> None:
        self._node = node

    def __call__(self) -> None:
        """Wake the node."""
        node = self._node()
        if node is not None:
            node.wake()


class PendingPipelineStopTask(EngineTask):
    """Task that has a node keep its last reference until no input waits at the node."""

    __slots__ = ("_node", "_reference")

    def __init__(self, node: TaskNode, reference: CallbackReference) -> None:
        super().__init__()
        self._node = node
        self._reference = reference

    def run(self) -> bool:
        """Have the node release the reference, now or when no input waits there any more."""
        self._node.park(self._reference)
        return True


class StopPipelineTask(EngineTask):
    """Task that stops a pipeline. The task owns the node, because no producer refers to the node any more."""

    __slots__ = ("_node",)

    def __init__(self, node: TaskNode) -> None:
        super().__init__()
        self._node = node

    def run(self) -> bool:
        """Stop the pipeline."""
        return self._node.stop()


class StopSourceTask(EngineTask):
    """Task that closes a source; if one source has several such tasks, all but the first are skipped."""

    __slots__ = ("_source",)

    def __init__(self, source: TaskSource) -> None:
        super().__init__()
        self._source = weakref.ref(source)

    def run(self) -> bool:
        """Close the source."""
        source = self._source()
        return source is not None and source.terminate()


class FailSourceTask(EngineTask):
    """Task that fails the query of a source that has failed."""

    __slots__ = ("_reason", "_source")

    def __init__(self, source: TaskSource, reason: str) -> None:
        super().__init__()
        self._source = weakref.ref(source)
        self._reason = reason

    def run(self) -> bool:
        """Fail the query."""
        source = self._source()
        return source is not None and source.fail(self._reason)
