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
"""Names in a line of a printed plan."""


class Emitter(Protocol):
    """Interface through which a source brings in its input; thread-safe; after `Source.close` it does nothing."""

    def offer(self, item: object, size: int = 1) -> bool:
        """Bring in an input; never blocks.

        False: it was not admitted, or is held back by a barrier, and the source offers it again after `Source.resume`,
        which may come before this call has returned, from another thread. After the end of the query it is False too,
        and no `resume` follows. ``size`` counts for the bounds on size: bytes if the input is raw.
        """

    def put(self, item: object, size: int = 1) -> bool:
        """Bring in an input and wait until it is admitted; False once the query stops, which wakes all waiting threads.

        For sources with a thread of their own, never on a reactor or in `Source.open`.
        """

    @property
    def in_flight(self) -> int:
        """Number of inputs that were admitted and are not executed yet, with all that came of them."""

    def when_drained(self, call: Callable[[], None]) -> None:
        """Make a call once no input is in flight any more: at once, or on the worker that executes the last one."""

    def end_of_stream(self) -> None:
        """End the input; earlier input reaches the sinks. The source is closed afterwards, on a worker."""

    def failed(self, reason: str) -> None:
        """Fail the query with this reason, as the source cannot continue."""


class Source(ABC):
    """Source of a query's input; it has a thread of its own or runs on a reactor.

    `open`, `resume` and `close` are called by workers, never while a lock of the engine is held, and never on the
    source's own thread unless that thread is itself within a call of the emitter (`resume` only).
    """

    @abstractmethod
    def open(self, emit: Emitter) -> None:
        """Begin; return soon, since a worker waits for it. All pipelines of the plan have been started.

        If it raises, the query fails and `close` is not called.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop and release everything; called once, after `open` has returned. If it raises, the query fails."""

    def resume(self) -> None:  # noqa: B027 (sources that only `put` have no use for it)
        """Offer input again, as there is room after a refused `offer`; must not block."""


class Context(ABC):
    """Context of a pipeline's call; valid during the call only, and on its thread only.

    Emitted items become visible to the successors when the call returns, all together, and not at all if it raises.
    """

    query_id: str
    """The query."""
    name: str
    """The node's name."""
    worker: int
    """The worker's number, from 0."""
    port: int
    """The input port of the call; -1 if it has none."""
    successors: int
    """Number of successors, which are in the order in which they were added to the plan."""

    @abstractmethod
    def now_s(self) -> float:
        """Return the time of the engine's clock, in seconds."""

    @abstractmethod
    def emit(self, item: object, successor: int | None = None, size: int = 1) -> None:
        """Give an item to all successors, or to one of them; never blocks. ``size``: its tuples.

        Allowed in every call but `Pipeline.start`. A sink's items go nowhere.
        """

    @abstractmethod
    def repeat(self, inputs: Sequence[object], after_s: float = 0.0) -> None:
        """Repeat inputs of this call, or the rest of them, in a later call. Allowed in `execute` and `end_of_input`.

        If one call is made at a time (`Pipeline.concurrency` of 1), they come before all other input, so that the order
        stays. In parallel, they come after the inputs that wait, once another call has executed something or no other
        is running. A call that has executed nothing is repeated after the input of other sources.
        ``after_s``: least delay in seconds.
        """

    @abstractmethod
    def begin_barrier(self, barrier: Barrier | None = None, payload: object = None) -> Barrier:
        """Begin a barrier at a cut point, in `execute`, `end_of_input` or `start_drain`; it is passed on afterwards.

        It comes after everything that was emitted so far, this call included, and the pipeline is given no input until
        the barrier has completed. None: the one that was requested, or else a new one with this payload.
        """

    @abstractmethod
    def give_turn(self) -> None:
        """Give up the turn of a pipeline with `takes_turns`: another worker may take the next inputs meanwhile."""


class Pipeline(ABC):
    """Takes inputs and emits items for its successors; one without successors is a sink.

    Calls: `start` once, before any source opens; `execute`, `end_of_input` and `start_drain`; then `stop`, or `discard`
    if the query fails or is disposed of. Only calls of `execute` ever overlap, up to `concurrency` of them. None may
    block for long: a worker waits. If one raises, its query fails and no other does.
    """

    concurrency: int = 1
    """Most workers in `execute` at a time; 1: one at a time, inputs in the order in which they were emitted."""
    most_inputs: int = 1
    """Most inputs of one call of `execute`: neighbours of one port that wait at the same time."""
    most_size: int = 0
    """Inputs of one call add up to no more than this, except that one always comes; 0 for no such bound."""
    takes_turns: bool = False
    """True if a call of a parallel pipeline begins only after the one before has returned or given up its turn."""
    cannot_drain: str = ""
    """Reason why a barrier on the plan is refused; empty if it is not."""
    is_cut_point: bool = False
    """Barriers begin here, and not at the sources before it: it knows where its input may be cut.

    For each barrier `start_drain` is called, as soon as no other call is under way and whatever input waits; the
    pipeline calls `Context.begin_barrier` there or in a later call, or without being asked. Of several cut points in a
    plan each begins it there: input that one waits for may never come while another rests. See `Plan`.
    """

    def start(self, context: Context) -> None:  # noqa: B027 (many have nothing to set up)
        """Set up; all pipelines of a plan are started before any of its sources is opened."""

    @abstractmethod
    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Take inputs of `Context.port`; at least one, at most `most_inputs`."""

    def end_of_input(self, port: int, context: Context) -> None:  # noqa: B027
        """Nothing new comes on this port: all that fed it have ended. Not called when the query is stopped."""

    def start_drain(self, barrier: Barrier, context: Context) -> None:  # noqa: B027
        """Emit all pending items; when this returns, the barrier is passed to the successors. See `is_cut_point`."""

    def stop(self, context: Context) -> None:  # noqa: B027
        """The end, after the end of all inputs or of the query's stop: emit what is held and release everything."""

    def discard(self) -> None:  # noqa: B027
        """The query has failed or was disposed of: release everything. Called instead of `stop` if it was started."""


class Input:
    """An edge of a plan: what a node emits goes to a port of another; written as a pair or a node for port 0."""

    __slots__ = ("node", "port")

    def __init__(self, node: Node, port: int = 0) -> None:
        self.node = node
        self.port = port


class Node:
    """A source or a pipeline in its place in a plan; made by the plan."""

    __slots__ = ("body", "index", "inputs", "name", "successors")

    def __init__(self, index: int, name: str, body: Source | Pipeline, inputs: tuple[Input, ...]) -> None:
        self.index = index
        self.name = name
        self.body = body
        self.inputs = inputs
        self.successors: list[tuple[int, int]] = []
        """Nodes that take its items, by index in the plan, each with a port, in the order in which they were added.

        They are not references: a plan has no reference cycles, so that no part of it outlives its last user.
        """

    @property
    def is_cut_point(self) -> bool:
        """True if barriers begin here."""
        return isinstance(self.body, Pipeline) and self.body.is_cut_point

    def __repr__(self) -> str:
        return f"Node({self.name})"


class Plan:
    """A DAG of sources and pipelines under a query's id. Built on one thread; the engine only reads it.

    Where barriers begin: at the sources, unless all ways from a source to a sink lead through a cut point; then at the
    cut points. A barrier begins at all of its sources and cut points and is complete when every node behind them has
    passed it on. Refused are plans in which some ways from a source lead through a cut point and others do not, and
    those in which one leads through two.
    """

    def __init__(self, query_id: str) -> None:
        self.query_id = query_id
        self.nodes: list[Node] = []
        """Nodes in an order in which every node follows those that feed it."""
        self._names: set[str] = set()

    def add_source(self, name: str, source: Source) -> Node:
        """Add a source with a unique name; raise PlanError if the name is taken."""
        return self._add(name, source, ())

    def add(self, name: str, pipeline: Pipeline, inputs: Sequence[Node | tuple[Node, int]]) -> Node:
        """Add a pipeline that takes the items of the inputs: nodes, for port 0, or nodes with a port.

        Raises PlanError if the name is taken, there is no input, or one is of another plan.
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
        """Return the plan as text: a line per node, indented by its distance from its first source."""
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
