"""Gate of a pipeline for barriers: tracks which of its producers have passed the barrier on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime.engine.barriers import Barrier
from runtime.engine.lifetime import CallbackReference
from runtime.engine.running.inbox import Entry

__all__ = ["Consumer", "Edge", "Gate"]


class Consumer(Protocol):
    """Interface of a running node for the producers that feed it."""

    def referred(self, port: int) -> CallbackReference:
        """Add a producer at a port before the query starts; return its reference."""

    def accept(self, entries: Sequence[Entry], *, is_hand_on: bool = False) -> None:
        """Add the entries that a producer has emitted.

        ``is_hand_on`` is True if a worker calls this at the end of its task.
        """

    def pass_barrier(self, edge: Edge, barrier: Barrier) -> None:
        """Note that a producer has emitted all items before the barrier."""

    def producer_ended(self, edge: Edge) -> None:
        """Remove a producer that emits nothing any more, and release its reference."""


class Edge:
    """Edge from a source or a node to a successor, with a reference that keeps the successor from ending.

    `passed` is accessed with the consumer's lock held; all other attributes are immutable.
    """

    __slots__ = ("node", "passed", "port", "reference")

    def __init__(self, node: Consumer, port: int, reference: CallbackReference | None = None) -> None:
        """Create an edge; if ``reference`` is None, a new one is requested from the node."""
        self.node = node
        self.port = port
        self.reference = reference or node.referred(port)
        self.passed = 0
        """Number of the last barrier that the producer passed on."""


class Gate:
    """Gate of a node, which calls all methods with its lock held.

    A pipeline drains when every producer that has not ended has passed the barrier on, and the inbox is empty. No
    producer emits anything more until the barrier is over, so all inputs that wait come before the barrier. A cut point
    does not wait for producers: its `start_drain` is called once for each barrier. From the beginning of the barrier to
    its end, the cut point *rests*: it takes no input.
    """

    __slots__ = ("barrier", "is_asked", "is_cut_point", "is_resting", "open", "open_ports", "tokens")

    def __init__(self, *, is_cut_point: bool) -> None:
        self.is_cut_point = is_cut_point
        self.open = 0
        """Number of producers that have not ended."""
        self.open_ports: dict[int, int] = {}
        """Number of the producers of each port that have not ended."""
        self.barrier: Barrier | None = None
        self.tokens = 0
        """Number of open producers that have passed the barrier on."""
        self.is_asked = False
        """True if a worker has taken the call of a cut point's `start_drain`."""
        self.is_resting = False
        """True if the barrier has begun at a cut point."""

    def add(self, port: int) -> None:
        """Add a producer."""
        self.open += 1
        self.open_ports[port] = self.open_ports.get(port, 0) + 1

    def end(self, edge: Edge) -> bool:
        """Remove a producer that has ended; return True if it was the last one of its port."""
        self.open -= 1
        self.open_ports[edge.port] -= 1
        if self.barrier is not None and edge.passed == self.barrier.number:
            self.tokens -= 1
        return not self.open_ports[edge.port]

    def passed(self, edge: Edge, barrier: Barrier) -> None:
        """Note that a producer has passed the barrier on."""
        edge.passed = barrier.number
        self.barrier = barrier
        self.tokens += 1

    def want(self, barrier: Barrier) -> None:
        """Note at a cut point that the barrier was requested."""
        self.barrier, self.is_asked = barrier, False

    def begun(self, barrier: Barrier) -> None:
        """Note that a cut point begins the barrier within the current call."""
        self.barrier, self.is_asked = barrier, True

    def called(self, barrier: Barrier | None) -> None:
        """Note the return of a call that drained for this barrier or began the barrier."""
        if barrier is None or self.barrier is not barrier:
            return
        if self.is_cut_point:
            self.is_resting = True
        else:
            self.barrier, self.tokens = None, 0

    def over(self) -> None:
        """Forget the barrier, which has completed or was aborted."""
        self.barrier, self.tokens = None, 0
        self.is_asked = self.is_resting = False

    def is_due(self, *, is_running: bool, is_empty: bool) -> bool:
        """Return True if `start_drain` should be called now."""
        if self.barrier is None or is_running:
            return False
        if self.is_cut_point:
            return not self.is_asked
        return 0 < self.tokens == self.open and is_empty

    def check(self) -> None:
        """Assert the invariants."""
        assert self.open == sum(self.open_ports.values())
        assert 0 <= self.tokens <= self.open
        assert self.is_cut_point or not (self.is_resting or self.is_asked)
        assert self.barrier is not None or not (self.tokens or self.is_resting)
