"""Interfaces of a running query for its nodes and sources."""

from __future__ import annotations

from typing import Protocol, TypeVar

from runtime.engine.admission import Admission
from runtime.engine.barriers import Barrier
from runtime.engine.listeners import Publisher
from runtime.engine.queue import TaskQueue

__all__ = ["Host", "NodeHost", "SourceHost"]

_Part_contra = TypeVar("_Part_contra", contravariant=True)
"""Class of the nodes or of the sources."""


class Host(Protocol):
    """Query as its nodes and sources see it. Its methods are called without the locks of nodes and sources."""

    @property
    def query_id(self) -> str:
        """Id of the query."""

    @property
    def queue(self) -> TaskQueue:
        """Queue of the engine, for tasks."""

    @property
    def admission(self) -> Admission:
        """Bounds of the input that is in flight."""

    @property
    def publisher(self) -> Publisher:
        """Publisher of events to the listeners."""

    @property
    def barrier(self) -> Barrier | None:
        """Barrier that is in progress; None if there is none."""

    def now_s(self) -> float:
        """Return the time of the engine's clock, in seconds."""

    def fail(self, reason: str) -> None:
        """Fail the query with this reason; only the first reason counts."""

    def node_failed(self, name: str, error: Exception) -> None:
        """Fail the query, as a call of a node has raised."""

    def expired(self, name: str, inputs: int) -> None:
        """Publish that this number of inputs was skipped; 0 for a start or a stop that was skipped."""


class NodeHost(Host, Protocol[_Part_contra]):
    """Query as a node sees it."""

    def begin_barrier(self, node: _Part_contra, barrier: Barrier | None, payload: object) -> Barrier:
        """Begin the requested barrier, or a new one, at a cut point; return the barrier."""

    def barrier_passed(self, node: _Part_contra, barrier: Barrier) -> None:
        """Note that a node has drained and passed the barrier on."""

    def node_ended(self, node: _Part_contra) -> None:
        """Remove a node that was stopped or discarded, or never started."""


class SourceHost(Host, Protocol[_Part_contra]):
    """Query as a source sees it."""

    def source_ended(self, source: _Part_contra) -> None:
        """Remove a source that was closed or never opened."""
