"""Configuration of an ingest, and the listener that it notifies."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.engine.ingest.origin import IN_ORDER_CAPACITY

__all__ = ["IngestConfig", "IngestListener"]

_MOST_IN_FLIGHT: Final = IN_ORDER_CAPACITY // 2  # each may complete two batches that wait: a spanning tuple and a body


class IngestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the ingest."""

    workers: int = 2
    """Threads that format."""
    admitted_bytes: int = 32 << 20
    """Bytes of raw buffers, over all origins, between their sources and the epochs."""
    in_flight_bytes: int = 16 << 20
    """The same of one origin; bytes that have yet to be decoded count several times."""
    in_flight: int = 1024
    """Raw buffers of one origin that are queued, being formatted or waiting for an earlier one; at most 32768."""
    admitted: int = 65_536
    """Raw buffers of all origins."""
    epoch_messages: int = 0
    """Messages at which an epoch is closed, or at the next place where it may be cut; 0 for no such limit."""
    epoch_most_messages: int = 1_000_000
    """Messages after which an epoch is closed at the first place where it may be cut, whatever the time."""

    def __post_init__(self) -> None:
        if self.workers < 1 or not 1 <= self.in_flight <= _MOST_IN_FLIGHT:
            raise ValueError(
                f"expected workers of at least 1 and in_flight from 1 to {_MOST_IN_FLIGHT}, "
                f"was {self.workers} and {self.in_flight}"
            )


class IngestListener:
    """Listener of an ingest, called on a worker's thread; every method does nothing unless it is overridden."""

    def on_running(self) -> None:
        """Called when everything is started, and the origins that are read first are open."""

    def on_finished(self) -> None:
        """Called when every origin has ended and all input is in an epoch."""

    def on_failed(self, reason: str) -> None:
        """Called when the ingest cannot continue, or has not read all input; the last committed epoch is valid."""

    def on_failed_origin(self, origin_id: int, reason: str) -> None:
        """Called when an origin has failed; the ingest continues with the others, and fails once they have ended."""

    def on_failed_view(self, name: str, reason: str) -> None:
        """Called when a view's pipeline has raised; the ingest continues without it."""

    def on_lost(self, origin_id: int, reason: str) -> None:
        """Called when an origin's connection broke; the ingest has asked it to reconnect."""
