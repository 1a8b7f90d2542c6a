"""Figures computed from the engine's events: running queries, tasks and tuples a second, and the busiest node."""

from __future__ import annotations

import threading
from typing import Final, cast

import msgspec

from deltabook.wire.durations import Durations
from runtime.engine.listeners import (
    Event,
    QueryFailed,
    QueryStarted,
    QueryStopped,
    StatisticsListener,
    TaskCompleted,
    TaskEmitted,
    TaskExpired,
)

__all__ = ["Figures", "NodeFigures", "Statistics"]

_SLOTS: Final = 16
"""Number of parts into which the window of a rate is divided."""


class NodeFigures(msgspec.Struct, frozen=True):
    """Figures of a node since the start of its query."""

    query_id: str
    """Id of the query."""
    node: str
    """Name of the node."""
    tasks: int = 0
    """Number of calls of `Pipeline.execute`."""
    inputs: int = 0
    """Number of inputs that these calls took."""
    size: int = 0
    """Sum of the sizes of these inputs: tuples, or bytes if the input is raw."""
    emitted: int = 0
    """Number of tuples that the node emitted."""
    expired: int = 0
    """Number of inputs that were skipped."""
    busy_s: float = 0.0
    """Total duration of the node's tasks in seconds."""
    longest_s: float = 0.0
    """Duration of the longest task in seconds."""
    durations: Durations = msgspec.field(default_factory=Durations)
    """Durations of the calls of `Pipeline.execute`; the object is shared, so that later calls are added to it."""


class Figures(msgspec.Struct, frozen=True):
    """Figures of the engine at a moment."""

    running: int
    """Number of queries that run."""
    started: int
    """Number of queries that run or have run."""
    stopped: int
    """Number of queries that have stopped."""
    failed: int
    """Number of queries that have failed, including those that never ran."""
    tasks: int
    """Number of tasks of all queries so far."""
    tuples: int
    """Number of tuples that the pipelines of all queries have emitted so far."""
    expired: int
    """Number of inputs that were skipped so far."""
    tasks_per_s: float
    """Tasks a second over the window."""
    tuples_per_s: float
    """Tuples a second over the window."""
    busiest: NodeFigures | None
    """The node whose tasks took the most time, among the nodes of running queries; None if no query runs."""
    nodes: tuple[NodeFigures, ...]
    """Figures of the nodes of all queries that have not ended."""


class _Rate:
    """Rate over the last window: a ring of slots, each with the amount in a part of the window.

    Accessed with the listener's lock held.
    """

    def __init__(self, window_s: float) -> None:
        self._slot_s = window_s / _SLOTS
        self._slots = [0] * _SLOTS
        self._newest = 0

    def add(self, time_s: float, count: int) -> None:
        slot = int(time_s / self._slot_s)
        self._turn(slot)
        if slot > self._newest - _SLOTS:
            self._slots[slot % _SLOTS] += count

    def per_s(self, now_s: float) -> float:
        self._turn(int(now_s / self._slot_s))
        return sum(self._slots) / (self._slot_s * _SLOTS)

    def _turn(self, slot: int) -> None:
        if slot <= self._newest:
            return
        for each in range(max(self._newest + 1, slot - _SLOTS + 1), slot + 1):
            self._slots[each % _SLOTS] = 0
        self._newest = slot


class _NodeCounts:
    """Counters of a node, changed in place because every call has events; accessed with the listener's lock held."""

    __slots__ = ("busy_s", "durations", "emitted", "expired", "inputs", "longest_s", "size", "tasks")

    def __init__(self) -> None:
        self.tasks = self.inputs = self.size = self.emitted = self.expired = 0
        self.busy_s = self.longest_s = 0.0
        self.durations = Durations()

    def figures(self, query_id: str, node: str) -> NodeFigures:
        return NodeFigures(
            query_id,
            node,
            tasks=self.tasks,
            inputs=self.inputs,
            size=self.size,
            emitted=self.emitted,
            expired=self.expired,
            busy_s=self.busy_s,
            longest_s=self.longest_s,
            durations=self.durations,
        )


class Statistics(StatisticsListener):
    """Figures computed from events; all of its state is accessed with its lock held.

    The state is bounded by the nodes of at most ``most_queries`` queries that run: the figures of a query are dropped
    at its end.
    """

    reads_starts = False

    def __init__(self, window_s: float = 4.0, most_queries: int = 1000) -> None:
        """Create empty figures; rates are over the last ``window_s`` seconds."""
        self._lock = threading.Lock()
        self._most_queries = most_queries
        self._nodes: dict[str, dict[str, _NodeCounts]] = {}
        self._running: set[str] = set()
        self._counts = {QueryStarted: 0, QueryStopped: 0, QueryFailed: 0}
        self._tasks = self._tuples = self._expired = 0
        self._task_rate, self._tuple_rate = _Rate(window_s), _Rate(window_s)

    def on_event(self, event: Event) -> None:
        """See `StatisticsListener`."""
        kind = type(event)
        with self._lock:
            if kind is TaskCompleted:
                self._completed(cast("TaskCompleted", event))
            elif kind is TaskEmitted:
                self._emitted(cast("TaskEmitted", event))
            elif isinstance(event, TaskExpired):
                self._expired += event.inputs
                node = self._nodes.get(event.query_id, {}).get(event.node)  # an event may come after the query's end
                if node is not None:
                    node.expired += event.inputs
            elif isinstance(event, QueryStarted):
                self._counts[QueryStarted] += 1
                self._running.add(event.query_id)
            elif isinstance(event, QueryStopped | QueryFailed):
                self._counts[type(event)] += 1
                self._running.discard(event.query_id)
                self._nodes.pop(event.query_id, None)

    def _completed(self, event: TaskCompleted) -> None:
        self._tasks += 1
        self._task_rate.add(event.time_s, 1)
        node, duration_s = self._node(event.query_id, event.node), event.duration_s
        if node is not None:
            node.tasks += 1
            node.inputs += event.inputs
            node.size += event.size
            node.busy_s += duration_s
            node.longest_s = max(node.longest_s, duration_s)
            node.durations.add(duration_s)

    def _emitted(self, event: TaskEmitted) -> None:
        self._tuples += event.size
        self._tuple_rate.add(event.time_s, event.size)
        node = self._node(event.query_id, event.node)
        if node is not None:
            node.emitted += event.size

    def _node(self, query_id: str, node: str) -> _NodeCounts | None:
        nodes = self._nodes.get(query_id)
        if nodes is None:
            if len(self._nodes) >= self._most_queries:
                return None
            nodes = self._nodes[query_id] = {}
        counts = nodes.get(node)
        if counts is None:
            counts = nodes[node] = _NodeCounts()
        return counts

    def figures(self, now_s: float) -> Figures:
        """Return the figures at this time of the engine's clock."""
        with self._lock:
            nodes = tuple(
                counts.figures(query, node) for query, each in self._nodes.items() for node, counts in each.items()
            )
            return Figures(
                running=len(self._running),
                started=self._counts[QueryStarted],
                stopped=self._counts[QueryStopped],
                failed=self._counts[QueryFailed],
                tasks=self._tasks,
                tuples=self._tuples,
                expired=self._expired,
                tasks_per_s=self._task_rate.per_s(now_s),
                tuples_per_s=self._tuple_rate.per_s(now_s),
                busiest=max(nodes, key=lambda node: node.busy_s, default=None),
                nodes=nodes,
            )
