"""What flows inside the ingest, from the origins through the formatters to the step that applies it."""

from __future__ import annotations

from enum import Enum

import msgspec

from runtime.formats import FormattedBatch, RawBuffer

__all__ = ["Completed", "Mark", "MarkKind"]


class MarkKind(Enum):
    """What has become of an origin."""

    ENDED = "ended"
    """Its stream is over."""
    LOST = "lost"
    """Its connection broke; it waits for the position to go on from."""
    FAILED = "failed"
    """It gives up."""


class Mark(msgspec.Struct, frozen=True):
    """Stands in a stream behind everything that its origin has brought and that is formatted and applied."""

    origin_id: int
    """Which origin."""
    kind: MarkKind
    """What has become of it."""
    reason: str = ""
    """Why it gives up."""


class Completed(msgspec.Struct, frozen=True, eq=False):
    """What one call of a formatter has made of its inputs, of any origins."""

    batches: list[FormattedBatch]
    """The parts of streams that it completed."""
    raws: list[RawBuffer]
    """The raw buffers that are done with."""
    failed: tuple[tuple[int, str], ...] = ()
    """Origins whose bytes could not be formatted, and why."""
    marks: tuple[Mark, ...] = ()
    """Marks that have come; what the end of a stream has completed is among the batches."""
