"""Calls of a pipeline: inputs, context, and execution without locks by the worker that took the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime.engine.admission import Ticket
from runtime.engine.barriers import Barrier
from runtime.engine.errors import BarrierError, EngineError, cause_of
from runtime.engine.listeners import (
    PipelineStarted,
    PipelineStopped,
    TaskCompleted,
    TaskEmitted,
    TaskStarted,
)
from runtime.engine.plan import Context, Pipeline
from runtime.engine.running.gate import Edge
from runtime.engine.running.host import Host
from runtime.engine.running.inbox import Entry
from runtime.engine.workers import current_worker

__all__ = [
    "DRAIN",
    "END",
    "INPUTS",
    "START",
    "STOP",
    "Call",
    "CalledNode",
    "RunningContext",
    "call_discard",
    "call_start",
    "call_stop",
]


class CalledNode(Protocol):
    """Running node as its calls see it.

    The properties do not change during a call; `contexts` is thread-safe.
    """

    @property
    def query(self) -> Host:
        """Query of the node."""

    @property
    def name(self) -> str:
        """Name of the node."""

    @property
    def pipeline(self) -> Pipeline:
        """Pipeline that is called."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Edges to the successors."""

    @property
    def contexts(self) -> list[RunningContext]:
        """Contexts that no call uses at the moment."""

    @property
    def is_cut_point(self) -> bool:
        """True if barriers begin at the node."""

    @property
    def is_one_of_cut_points(self) -> bool:
        """True if the node is one of several cut points."""

    @property
    def is_started(self) -> bool:
        """True if `Pipeline.start` has returned, and neither `stop` nor `discard` was called."""

    def enter(self, call: Call) -> bool:
        """Begin a call of `start` or `stop`; return False if the call is no longer needed."""

    def set_started(self, *, is_started: bool) -> None:
        """Note that the call of `start` has returned, or that the call of `stop` is about to be made."""

    def give_turn(self, call: Call) -> None:
        """End the turn of a call, so that another worker may take the next inputs."""

    def begin_barrier(self, barrier: Barrier | None, payload: object) -> Barrier:
        """Begin the requested barrier, or a new one, at this cut point; return the barrier."""

    def barrier_passed(self, barrier: Barrier) -> None:
        """Note that the node has drained and passed the barrier on."""

    def settle(self, call: Call, again: Sequence[Entry] = (), later: Sequence[tuple[float, Entry]] = ()) -> None:
        """Note that a call has returned and its output was delivered.

        Put back its inputs ``again`` now, and ``later`` at their times.
        """

    def end(self) -> None:
        """End the node, whose pipeline was stopped or never started."""


def _context(node: CalledNode, call: Call) -> RunningContext:
    try:
        context = node.contexts.pop()
    except IndexError:
        context = RunningContext(node)
    context.begin(call, current_worker())
    return context


def call_start(node: CalledNode) -> bool:
    """Make a call of `start`; return False if the query has ended before."""
    call = Call(node, START)
    if not node.enter(call):
        node.query.expired(node.name, 0)
        return False
    context = RunningContext(node)
    context.begin(call, current_worker())
    try:
        node.pipeline.start(context)
        context.end()
        node.set_started(is_started=True)
    finally:
        node.settle(call)
    node.query.publisher.event(PipelineStarted(node.query.query_id, node.query.now_s(), node.name))
    return True


def call_stop(node: CalledNode) -> bool:
    """Make a call of `stop`, after which the node ends; return False if the node was disposed of before."""
    call = Call(node, STOP)
    if not node.enter(call):
        node.query.expired(node.name, 0)
        return False
    if node.is_started:
        node.set_started(is_started=False)
        context = _context(node, call)
        try:
            node.pipeline.stop(context)
        except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
            node.query.node_failed(node.name, error)
        else:
            context.deliver(())
        node.query.publisher.event(PipelineStopped(node.query.query_id, node.query.now_s(), node.name))
    node.end()
    return True


def call_discard(node: CalledNode) -> None:
    """Make a call of `discard`; log an exception that it raises, since the query has already failed."""
    try:
        node.pipeline.discard()
    except Exception as error:  # noqa: BLE001 (whatever user code raises must not keep the query from ending)
        node.query.publisher.broke(node.query.query_id, f"discarding node {node.name}", cause_of(error))
    node.query.publisher.event(PipelineStopped(node.query.query_id, node.query.now_s(), node.name))


START, INPUTS, END, DRAIN, STOP = range(5)
"""Kinds of calls, by the method that is called."""


class Call:
    """Call that a worker is about to make or is making; owned by that worker, which makes the call by calling it."""

    __slots__ = ("barrier", "entries", "has_turn", "kind", "node", "port", "size")

    def __init__(self, node: CalledNode, kind: int, port: int = -1, barrier: Barrier | None = None) -> None:
        self.node = node
        self.kind = kind
        """Kind of the call: `START`, `INPUTS`, `END`, `DRAIN` or `STOP`."""
        self.port = port
        """Port of the inputs or the end; -1 for other kinds."""
        self.barrier = barrier
        """Barrier that the call drains for or begins; None if there is none."""
        self.entries: list[Entry] = []
        """Inputs of the call."""
        self.size = 0
        """Sum of the sizes of the inputs."""
        self.has_turn = False
        """True if no other call of the pipeline may take inputs until this one has returned or given up its turn."""

    def __call__(self) -> None:
        """Make the call, of any kind but `START` and `STOP`; an exception that it raises fails the query."""
        node = self.node
        query = node.query
        context = _context(node, self)
        is_reported = query.publisher.has_statistics and self.kind == INPUTS
        started_s = query.now_s() if is_reported else 0.0
        if is_reported and query.publisher.has_starts:
            query.publisher.event(
                TaskStarted(query.query_id, started_s, node.name, context.worker, len(self.entries), self.size)
            )
        try:
            if self.kind == INPUTS:
                node.pipeline.execute([entry[1] for entry in self.entries], context)
            elif self.kind == END:
                node.pipeline.end_of_input(self.port, context)
            else:
                assert self.barrier is not None
                node.pipeline.start_drain(self.barrier, context)
                if node.is_one_of_cut_points and context.begun is None:
                    raise BarrierError("expected a cut point that is one of several to begin barriers in start_drain")
        except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
            query.node_failed(node.name, error)
            query.admission.leave([entry[3] for entry in self.entries if entry[3] is not None])
            self.barrier = None
            node.settle(self)
            return
        items, size = len(context.emitted), sum([size for _, _, size in context.emitted]) if is_reported else 0
        again, later = context.deliver(self.entries)
        if context.begun is not None or (node.is_cut_point and self.kind == DRAIN):
            self.barrier = context.begun
        barrier = self.barrier
        if barrier is not None:
            for edge in node.edges:
                edge.node.pass_barrier(edge, barrier)
        context.end()
        node.contexts.append(context)
        if is_reported:
            now_s = query.now_s()
            if items:
                query.publisher.event(TaskEmitted(query.query_id, now_s, node.name, items, size))
            inputs = len(self.entries) - len(again) - len(later)
            query.publisher.event(
                TaskCompleted(query.query_id, now_s, node.name, context.worker, inputs, self.size, now_s - started_s)
            )
        node.settle(self, again, later)
        if barrier is not None:
            node.barrier_passed(barrier)


class RunningContext(Context):
    """Context of one call at a time; owned by the worker that makes the call."""

    def __init__(self, node: CalledNode) -> None:
        self._node = node
        self.query_id = node.query.query_id
        self.name = node.name
        self.successors = len(node.edges)
        self.worker = -1
        self.port = -1
        self._call: Call | None = None
        self.emitted: list[tuple[int | None, object, int]] = []
        self.repeated: list[object] = []
        self.later: list[tuple[float, object]] = []
        self.begun: Barrier | None = None

    def begin(self, call: Call, worker: int) -> None:
        """Prepare the context for a call."""
        self._call = call
        self.worker = worker
        self.port = call.port

    def end(self) -> None:
        """Clear the context after a call whose results were taken."""
        self._call = None
        self.emitted = []
        self.begun = None
        if self.repeated or self.later:
            self.repeated, self.later = [], []

    def now_s(self) -> float:
        """See `Context`."""
        return self._node.query.now_s()

    def emit(self, item: object, successor: int | None = None, size: int = 1) -> None:
        """See `Context`."""
        if self._call is None or self._call.kind == START:
            raise EngineError(f"expected node {self.name} to emit within a call after start, was outside of a call")
        if successor is not None and not 0 <= successor < self.successors:
            last = self.successors - 1
            raise EngineError(f"expected a successor from 0 to {last} of node {self.name}, was {successor}")
        self.emitted.append((successor, item, size))

    def repeat(self, inputs: Sequence[object], after_s: float = 0.0) -> None:
        """See `Context`."""
        if self._call is None or self._call.kind not in {INPUTS, END}:
            raise EngineError(f"expected node {self.name} to repeat inputs within execute, was outside of it")
        if after_s > 0:
            due_s = self.now_s() + after_s
            self.later += [(due_s, each) for each in inputs]
        else:
            self.repeated += inputs

    def begin_barrier(self, barrier: Barrier | None = None, payload: object = None) -> Barrier:
        """See `Context`."""
        if not self._node.is_cut_point:
            raise EngineError(f"expected a cut point to begin a barrier, was node {self.name}")
        if self._call is None or self._call.kind not in {INPUTS, END, DRAIN}:
            raise EngineError(f"expected cut point {self.name} to begin a barrier within a call, was outside of one")
        if self.begun is not None:
            raise EngineError(f"expected one barrier in a call of cut point {self.name}, was a second one")
        self.begun = self._node.begin_barrier(barrier, payload)
        return self.begun

    def give_turn(self) -> None:
        """See `Context`."""
        if self._call is not None and self._call.has_turn:
            self._node.give_turn(self._call)

    # Results of the call

    def deliver(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[tuple[float, Entry]]]:
        """Pass emitted items to the successors; return the entries to repeat now, and those to repeat later."""
        node, emitted = self._node, self.emitted
        if not (emitted or self.repeated or self.later):
            node.query.admission.leave([entry[3] for entry in entries if entry[3] is not None])
            return [], []
        edges = node.edges
        many = len(edges)
        count = sum([many if successor is None else 1 for successor, _, _ in emitted]) if many else 0
        if not (self.repeated or self.later):
            tickets = [entry[3] for entry in entries if entry[3] is not None]
            ticket = node.query.admission.share(tickets, count)
            again: list[Entry] = []
            later: list[tuple[float, Entry]] = []
        else:
            ticket, again, later = self._again(entries, count)
        if count:
            for number, edge in enumerate(edges):
                port = edge.port
                taken = [(port, i, size, ticket) for to, i, size in emitted if to is None or to == number]
                edge.node.accept(taken, is_hand_on=True)
        return again, later

    def _again(
        self, entries: Sequence[Entry], count: int
    ) -> tuple[Ticket | None, list[Entry], list[tuple[float, Entry]]]:
        """Return the ticket of emitted items, and the inputs to repeat now and later.

        Repeated inputs of the call keep their tickets; other objects get the ticket of emitted items.
        """
        executed: dict[int, list[Entry]] = {}  # by identity, as one item may be among the inputs twice
        for entry in entries:
            executed.setdefault(id(entry[1]), []).append(entry)
        wanted = [(0.0, item) for item in self.repeated] + self.later
        matches = [executed[id(item)].pop() if executed.get(id(item)) else None for _, item in wanted]
        tickets = [entry[3] for each in executed.values() for entry in each if entry[3] is not None]
        ticket = self._node.query.admission.share(tickets, count + matches.count(None))
        all_again = [entry or (self.port, item, 1, ticket) for entry, (_, item) in zip(matches, wanted, strict=True)]
        many = len(self.repeated)
        later = [(due_s, entry) for entry, (due_s, _) in zip(all_again[many:], self.later, strict=True)]
        return ticket, all_again[:many], later
