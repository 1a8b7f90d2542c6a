"""Interfaces for users of the engine: sources, pipelines, and the plan that joins them.

```
Plan:  Source ──▶ Pipeline ──▶ Pipeline (sink: no successors)
          └──────────▲ port 1
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from runtime.engine.errors import PlanError

if TYPE_CHECKING:
    from runtime.engine.barriers import Barrier

__all__ = ["Context", "Emitter", "Input", "Node", "Pipeline", "Plan", "Source"]

_MOST_FEEDERS: Final = 8
"""Greatest number of names in a line of a printed plan."""


class Emitter(Protocol):
    """Interface through which a source offers its input. Thread-safe; does nothing after `Source.close`."""

    def offer(self, item: object, size: int = 1) -> bool:
        """Offer an input and return True if it was admitted; never blocks.

        Returns False if there is no room or a barrier holds input back. The source then offers the input again after
        `Source.resume`, which another thread may call before this call has returned. After the end of the query the
        result is False, too, and no `resume` follows. ``size`` counts towards the bounds on size; it is in bytes if the
        input is raw.
        """

    def put(self, item: object, size: int = 1) -> bool:
        """Wait until an input is admitted and return True.

        Return False once the query stops, which wakes all waiting threads. Only a source with a thread of its own may
        call this method, and only on that thread.
        """

    @property
    def in_flight(self) -> int:
        """Number of inputs in flight; each counts until it and all items derived from it are executed."""

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call ``call`` once no input is in flight: at once, or on the worker that executes the last one."""

    def end_of_stream(self) -> None:
        """End the input; earlier input reaches the sinks. The source is closed afterwards, on a worker."""

    def failed(self, reason: str) -> None:
        """Fail the query with this reason, as the source cannot continue."""


class Source(ABC):
    """Source of a query's input, with its own thread or on a reactor.

    Workers call `open`, `resume` and `close` without a lock of the engine held. None of them is called on the source's
    own thread, except `resume`, which may be called there within a call of the emitter.
    """

    @abstractmethod
    def open(self, emit: Emitter) -> None:
        """Start offering input, and return soon, since a worker waits. All pipelines of the plan have been started.

        If this raises, the query fails and `close` is not called.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop and release everything; called once, after `open` has returned. If this raises, the query fails."""

    def resume(self) -> None:  # noqa: B027 (sources that only `put` have no use for it)
        """Offer input again, as there is room after a refused `offer`; must not block."""


class Context(ABC):
    """Context of a pipeline's call; valid during the call only, and on its thread only.

    Emitted items become visible to the successors all together when the call returns; if the call raises, they are
    dropped.
    """

    query_id: str
    """Id of the query."""
    name: str
    """Name of the node."""
    worker: int
    """Number of the worker, from 0."""
    port: int
    """Input port of the call; -1 if the call has none."""
    successors: int
    """Number of successors, which are in the order in which they were added to the plan."""

    @abstractmethod
    def now_s(self) -> float:
        """Return the time of the engine's clock, in seconds."""

    @abstractmethod
    def emit(self, item: object, successor: int | None = None, size: int = 1) -> None:
        """Emit an item to all successors, or to one of them; never blocks.

        ``size`` is the number of tuples in the item. The method may be called in every call but `Pipeline.start`. Items
        that a sink emits are dropped.
        """

    @abstractmethod
    def repeat(self, inputs: Sequence[object], after_s: float = 0.0) -> None:
        """Pass these objects as inputs to a later call, at least ``after_s`` seconds later.

        The objects are inputs of this call, or the rest of such an input. The method may be called in `execute` and
        `end_of_input`. If one call is made at a time (`Pipeline.concurrency` of 1), the repeated inputs precede all
        other input, which preserves the order. Otherwise they are put after the waiting inputs as soon as another call
        has executed something, or no other call is running. The repetition of a call that has executed nothing is
        queued after the input of other sources.
        """

    @abstractmethod
    def begin_barrier(self, barrier: Barrier | None = None, payload: object = None) -> Barrier:
        """Begin a barrier at a cut point, in `execute`, `end_of_input` or `start_drain`, and return it.

        When the call returns, the barrier follows everything that was emitted up to then; the pipeline gets no input
        until the barrier has completed. If ``barrier`` is None, the next requested barrier begins; if none was
        requested, a new one with this payload begins.
        """

    @abstractmethod
    def give_turn(self) -> None:
        """Give up the turn of a pipeline with `takes_turns`; another worker may then take the next inputs."""


class Pipeline(ABC):
    """Step of a plan that takes inputs and emits items for its successors; a pipeline without successors is a sink.

    The engine calls `start` once, before any source opens; then `execute`, `end_of_input` and `start_drain`; at last
    `stop`, or `discard` if the query fails or is disposed of. Only calls of `execute` ever overlap, up to `concurrency`
    of them. No call may block for long, because a worker waits. If a call raises, its query fails, and no other query
    does.
    """

    concurrency: int = 1
    """Greatest number of workers in `execute` at a time; with 1, inputs come in the order in which they were
    emitted."""
    most_inputs: int = 1
    """Greatest number of inputs of one call of `execute`: adjacent inputs of one port that wait at the same time."""
    most_size: int = 0
    """Greatest sum of the sizes of the inputs of one call, unless the call has only one input; 0 for no bound."""
    takes_turns: bool = False
    """True if a call of a parallel pipeline begins only after the previous call has returned or given up its turn."""
    cannot_drain: str = ""
    """Reason why barriers of the plan are refused; empty if they are accepted."""
    is_cut_point: bool = False
    """True if barriers begin at this pipeline, which knows where to cut its input, instead of at the sources before it.

    For each barrier `start_drain` is called as soon as no other call is in progress, even if input waits. The pipeline
    calls `Context.begin_barrier` there or in a later call; it may also begin a barrier that was not requested. If a
    plan has several cut points, each must begin the barrier in `start_drain`: while the barrier pauses one cut point,
    input for which another one waits may never arrive. See `Plan`.
    """

    def start(self, context: Context) -> None:  # noqa: B027 (many have nothing to set up)
        """Set up; all pipelines of a plan are started before any of its sources is opened."""

    @abstractmethod
    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Process inputs of `Context.port`; at least one, at most `most_inputs`."""

    def end_of_input(self, port: int, context: Context) -> None:  # noqa: B027
        """Handle the end of a port, whose producers have all ended. Not called when the query is stopped."""

    def start_drain(self, barrier: Barrier, context: Context) -> None:  # noqa: B027
        """Emit all pending items; when this returns, the barrier is passed to the successors. See `is_cut_point`."""

    def stop(self, context: Context) -> None:  # noqa: B027
        """Emit pending items and release everything, at the end of all inputs or when the query is stopped."""

    def discard(self) -> None:  # noqa: B027
        """Release everything, as the query has failed or was disposed of.

        Called instead of `stop` if the pipeline was started.
        """


class Input:
    """Edge of a plan, from a node to a port of another node.

    Callers write a pair of node and port, or a node alone for port 0.
    """

    __slots__ = ("node", "port")

    def __init__(self, node: Node, port: int = 0) -> None:
        self.node = node
        self.port = port


class Node:
    """Source or pipeline with its edges in a plan; created by the plan."""

    __slots__ = ("body", "index", "inputs", "name", "successors")

    def __init__(self, index: int, name: str, body: Source | Pipeline, inputs: tuple[Input, ...]) -> None:
        self.index = index
        self.name = name
        self.body = body
        self.inputs = inputs
        self.successors: list[tuple[int, int]] = []
        """Pairs of the index in the plan and the port of each successor, in the order in which they were added.

        Indices instead of references avoid reference cycles in a plan, so that no part of the plan outlives its last
        user.
        """

    @property
    def is_cut_point(self) -> bool:
        """True if barriers begin here."""
        return isinstance(self.body, Pipeline) and self.body.is_cut_point

    def __repr__(self) -> str:
        return f"Node({self.name})"


class Plan:
    """DAG of sources and pipelines under a query's id. Built on one thread; the engine only reads it.

    Barriers begin at the sources, unless all paths from a source to a sink lead through a cut point; then they begin at
    the cut points. A barrier begins at all of these places, and completes when every node after them has passed it on.
    A plan is refused if some paths from a source lead through a cut point and others do not, or if a path leads through
    two cut points.
    """

    def __init__(self, query_id: str) -> None:
        self.query_id = query_id
        self.nodes: list[Node] = []
        """Nodes in an order in which every node follows the nodes that feed it."""
        self._names: set[str] = set()

    def add_source(self, name: str, source: Source) -> Node:
        """Add a source with a unique name; raise PlanError if the name is taken."""
        return self._add(name, source, ())

    def add(self, name: str, pipeline: Pipeline, inputs: Sequence[Node | tuple[Node, int]]) -> Node:
        """Add a pipeline that takes the items of the inputs: each is a node, for port 0, or a pair of node and port.

        Raises PlanError if the name is taken, there is no input, or an input is of another plan.
        """
        if not inputs:
            raise PlanError(f"expected an input of {name}, was none")
        edges = tuple(Input(*each) if isinstance(each, tuple) else Input(each) for each in inputs)
        for edge in edges:
            if edge.node.index >= len(self.nodes) or self.nodes[edge.node.index] is not edge.node:
                raise PlanError(f"expected inputs of {name} in plan {self.query_id}, was {edge.node.name}")
            if edge.port < 0:
                raise PlanError(f"expected a port of at least 0 at {name}, was {edge.port}")
        if pipeline.concurrency < 1 or pipeline.most_inputs < 1 or pipeline.most_size < 0:
            raise PlanError(
                f"expected concurrency and most_inputs of at least 1 and most_size of at least 0 at {name}, "
                f"was {pipeline.concurrency}, {pipeline.most_inputs} and {pipeline.most_size}"
            )
        if pipeline.is_cut_point and pipeline.concurrency > 1:
            raise PlanError(f"expected a concurrency of 1 at cut point {name}, was {pipeline.concurrency}")
        node = self._add(name, pipeline, edges)
        for edge in edges:
            edge.node.successors.append((node.index, edge.port))
        return node

    def _add(self, name: str, body: Source | Pipeline, inputs: tuple[Input, ...]) -> Node:
        if name in self._names:
            raise PlanError(f"expected names that differ in plan {self.query_id}, was {name} twice")
        node = Node(len(self.nodes), name, body, inputs)
        self.nodes.append(node)
        self._names.add(name)
        return node

    def __str__(self) -> str:
        """Return the plan as text: a line for each node, indented by its greatest distance from a source."""
        lines = [f"plan {self.query_id}"]
        depth: dict[int, int] = {}
        for node in self.nodes:
            depth[node.index] = max((depth[edge.node.index] + 1 for edge in node.inputs), default=0)
            feeders = [
                edge.node.name + (f" at {edge.port}" if edge.port else "") for edge in node.inputs[:_MOST_FEEDERS]
            ]
            more = len(node.inputs) - len(feeders)
            fed = ", ".join(feeders) + (f" and {more} more" if more else "")
            lines.append("  " * (depth[node.index] + 1) + _title(node) + (f" ◀── {fed}" if fed else ""))
        return "\n".join(lines)


def _title(node: Node) -> str:
    body = node.body
    title = str(body) if type(body).__str__ is not object.__str__ else type(body).__name__
    notes = [title]
    if isinstance(body, Pipeline):
        notes += [f"×{body.concurrency}"] if body.concurrency > 1 else []
        notes += ["cut point"] if body.is_cut_point else []
    return f"{node.name} ({', '.join(notes)})"
