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
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs import Cut
from runtime.formats import DeadLetter, FormattedBatch

__all__ = ["MOST_LETTERS", "Completed", "Deltas", "Mark", "MarkKind", "Sections"]

MOST_LETTERS: Final = 10_000
"""Greatest number of malformed tuples of an epoch that have a description."""


class Deltas(msgspec.Struct, frozen=True, eq=False):
    """Changes made by some messages, in the order in which they are to be applied; at least one field has content.

    The applying step emits the deltas of an epoch one after another; the last of them `closes` the epoch, directly
    before its barrier. An epoch without content is not closed: the barrier then comes without such deltas, and there is
    nothing to save. The rows of derived streams may follow after that, in `Deltas` that do not close.
    """

    relations: Mapping[str, pa.RecordBatch]
    """Changed rows (at least one) of each relation, with their column ``weight``; unchanged relations are left out."""
    messages: int = 0
    """Number of well-formed messages in these deltas."""
    cuts: Mapping[str, Cut] = {}
    """Cut of each origin after these deltas. The last deltas of an epoch include all origins, other deltas only those
    with input in the deltas."""
    letters: tuple[DeadLetter, ...] = ()
    """Descriptions of malformed tuples that the cuts have passed; not every tuple has one."""
    malformed: int = 0
    """Number of malformed tuples that the cuts have passed."""
    closes: int = -1
    """Number of the epoch that these deltas close; -1 if more may follow."""
    applied_s: float = 0.0
    """Time at which the last of the messages was applied, in seconds of the ingest's clock."""
    sealed_watermarks: Mapping[str, int] = {}
    """Watermarks that are sealed, see `Footer.watermarks`; only in the last deltas of an epoch."""
    watermarks: Mapping[str, int] = {}
    """For derived streams: the time of each relation, in nanoseconds, before which the relation will have no further
    row; only in the last deltas of an epoch. A relation that has had no row is left out."""
    ended: frozenset[str] = frozenset()
    """For derived streams: the relations that will have no further row while the runtime runs; only in the last deltas
    of an epoch."""


class Sections(msgspec.Struct, frozen=True, eq=False):
    """Output of a view's pipeline for the epoch that closes, emitted once, in the drain after the last `Deltas`.

    The sections become part of the epoch's segment, and are committed with the edits that the pipeline has made to its
    objects in the object space until then.
    """

    epoch: int
    """Number of the epoch, as in `Deltas.closes`."""
    batches: Callable[[], Mapping[str, tuple[pa.RecordBatch, ...]]] = dict
    """Function that returns the rows of each section, by its name ``view/NAME``; called once, when the epoch is
    committed, on the thread that commits. A section without rows is left out."""
    checksums: Callable[[], Mapping[str, int]] | None = None
    """Function that returns the checksum of each view's rows at the end of the epoch; called after ``batches``, on the
    same thread. None if there are no checksums."""
    attributes: Mapping[str, str] = {}
    """Further attributes of the segment's footer, such as the reason for a view's failure; their names are unique."""


class MarkKind(Enum):
    """State of an origin that a mark reports."""

    ENDED = "ended"
    """The stream has ended."""
    LOST = "lost"
    """The connection broke; the origin waits for the position at which to resume."""
    FAILED = "failed"
    """The origin has failed."""


class Mark(msgspec.Struct, frozen=True):
    """Marker in an origin's stream, delivered after all earlier input of the stream is formatted and applied."""

    origin_id: int
    """Number of the origin."""
    kind: MarkKind
    """State of the origin."""
    reason: str = ""
    """Reason for the failure; empty for other states."""


class Completed(msgspec.Struct, frozen=True, eq=False):
    """Result of one call of a formatter on inputs of any number of origins."""

    batches: list[FormattedBatch]
    """Completed parts of streams."""
    tuples: int = 0
    """Number of tuples in the batches."""
    failed: tuple[tuple[int, str], ...] = ()
    """Origins whose bytes could not be formatted, each with the reason."""
    marks: tuple[Mark, ...] = ()
    """Marks among the inputs; a tuple that the end of a stream completes is in the batches."""
