"""Messages inside the ingest: from origins through formatters and adaptors to views, streams and the epoch.

```
apply ──Deltas──▶ derived streams ──Deltas──▶ express view ──Sections──▶ epoch sink
      ──────────────Deltas──────────────────▶       ┌───────────────────▶
      ──────────────Deltas──────────────────────────┘
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec
import pyarrow as pa

from runtime.epochs import Cut
from runtime.formats import DeadLetter, FormattedBatch

__all__ = ["Completed", "Deltas", "Mark", "MarkKind", "Sections"]


class Deltas(msgspec.Struct, frozen=True, eq=False):
    """Changes that some messages made, in the order in which they are to be applied; never empty of everything.

    The step that applies emits the deltas of an epoch one after another, and at last one that `closes` it, directly
    before its barrier. An epoch without content is not closed: then a barrier comes without such deltas, and there is
    nothing to save. The rows of derived streams may follow after that, in `Deltas` that do not close.
    """

    relations: Mapping[str, pa.RecordBatch]
    """By relation: rows with their column ``weight``; none of them is empty. Relations that do not change are left
    out."""
    messages: int = 0
    """Number of well-formed messages in these deltas."""
    cuts: Mapping[str, Cut] = {}
    """Origin → the last message inside; of those origins that have moved, at the end of an epoch of all of them."""
    letters: tuple[DeadLetter, ...] = ()
    """Descriptions of malformed tuples that the cuts have passed; not every tuple has one."""
    malformed: int = 0
    """Number of malformed tuples that the cuts have passed."""
    closes: int = -1
    """Number of the epoch that these deltas are the last of; -1 if more may follow."""
    applied_s: float = 0.0
    """Time at which the last of the messages was applied, on the ingest's clock."""
    sealed_watermarks: Mapping[str, int] = {}
    """Watermarks that are sealed, see `Footer.watermarks`; only with the last deltas of an epoch."""
    watermarks: Mapping[str, int] = {}
    """Relation → the time, in nanoseconds, before which no further row of it will come, for derived streams; only with
    the last deltas of an epoch. A relation without rows yet is left out."""
    ended: frozenset[str] = frozenset()
    """Relations of which no further row comes while the runtime runs, for derived streams; only with the last deltas of
    an epoch."""


class Sections(msgspec.Struct, frozen=True, eq=False):
    """Output of a view's pipeline for the epoch that closes: emitted once, while it drains, after its last `Deltas`.

    It becomes part of the epoch's segment, and is committed with the edits that the pipeline's objects in the object
    space have until then.
    """

    epoch: int
    """`Deltas.closes` of the epoch."""
    batches: Callable[[], Mapping[str, tuple[pa.RecordBatch, ...]]] = dict
    """Gives by name of the section, ``view/NAME``, its rows; called once, when the epoch is committed, on the thread
    that does it. A section without rows is left out."""
    checksums: Callable[[], Mapping[str, int]] | None = None
    """Gives by view the checksum of its rows at the end of the epoch; called after ``batches``, on the same thread."""
    attributes: Mapping[str, str] = {}
    """Further attributes of the segment's footer, such as the reason for a view's failure; their names are unique."""


class MarkKind(Enum):
    """State of an origin that a mark reports."""

    ENDED = "ended"
    """Its stream is over."""
    LOST = "lost"
    """Its connection broke; it waits for the position to resume at."""
    FAILED = "failed"
    """It has failed."""


class Mark(msgspec.Struct, frozen=True):
    """Marker in a stream, after everything of its origin that is formatted and applied."""

    origin_id: int
    """Number of the origin."""
    kind: MarkKind
    """State of the origin."""
    reason: str = ""
    """Reason for its failure."""


class Completed(msgspec.Struct, frozen=True, eq=False):
    """Result of one call of a formatter on inputs of any origins."""

    batches: list[FormattedBatch]
    """The parts of streams that it completed."""
    tuples: int = 0
    """Number of tuples in them."""
    failed: tuple[tuple[int, str], ...] = ()
    """Origins whose bytes could not be formatted, each with the reason."""
    marks: tuple[Mark, ...] = ()
    """Marks that have come; what the end of a stream has completed is among the batches."""
