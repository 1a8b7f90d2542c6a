"""Messages over HTTP that add views to a running runtime, and drop them.

``POST /v1/views`` takes an `AddViews`, ``DELETE /v1/views/NAME?timeout_s=N`` takes no body. Both answer with a
`Changed`: with status 200 once the change is published, or with 202 after the timeout if the change is not published
yet, but will be. A refusal is one line of text.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "LONGEST_TIMEOUT_SECONDS",
    "MOST_NEW_VIEWS",
    "TIMEOUT_SECONDS",
    "AddViews",
    "Changed",
    "ChangedView",
    "NewStream",
    "NewView",
    "TimeoutSeconds",
]

TIMEOUT_SECONDS: Final = 60.0
"""Default time in seconds that an answer waits for the first version."""
LONGEST_TIMEOUT_SECONDS: Final = 3600.0
MOST_NEW_VIEWS: Final = 1_000

TimeoutSeconds = Annotated[float, Meta(ge=0, le=LONGEST_TIMEOUT_SECONDS)]


class NewView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to be added."""

    name: str
    """Name of the view, in lower case."""
    sql: str
    """SELECT of the view."""
    file: str = ""
    """Name of the file with the SELECT, for messages."""
    line: int = 1
    """Line at which the SELECT starts, from 1."""
    column: int = 1
    """Column at which the SELECT starts, from 1."""
    lane: Literal["spark", "express", ""] = ""
    """Lane that publishes its versions; empty: Spark, or the only lane of a runtime. If Spark runs, it also maintains
    the views of the express lane.
    """
    readers: tuple[str, ...] = ()
    """Readers to whose relations the view is restricted; empty: the view may read all relations."""


class NewStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A derived stream to be added: CREATE STREAM … AS SELECT."""

    name: str
    """Name of the stream, in lower case."""
    sql: str
    """SELECT of the stream."""
    file: str = ""
    """Name of the file with the SELECT, for messages."""
    line: int = 1
    """Line at which the SELECT starts, from 1."""
    column: int = 1
    """Column at which the SELECT starts, from 1."""
    retain_rows: Annotated[int, Meta(ge=1, le=10_000_000)] = 20_000
    """Largest number of rows that stay: the newest rows."""
    retain_ns: Annotated[int, Meta(ge=0, le=1 << 62)] = 300_000_000_000
    """Age in nanoseconds, relative to the newest row, above which a row is removed."""
    lateness_ns: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    """Nanoseconds by which a row may be later than the watermark."""


class AddViews(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Views and derived streams to be added together, at one epoch; all of them or none, and at least one."""

    views: Annotated[tuple[NewView, ...], Meta(max_length=MOST_NEW_VIEWS)] = ()
    """Views, which may read the streams."""
    timeout_s: TimeoutSeconds = TIMEOUT_SECONDS
    """Time in seconds to wait for their first version."""
    streams: Annotated[tuple[NewStream, ...], Meta(max_length=MOST_NEW_VIEWS)] = ()
    """Streams; each stream may read the streams before it."""


class ChangedView(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """A view that was added or dropped."""

    name: str
    """Name of the view."""
    view_class: str
    """Class: linear, multilinear, ordered or reevaluated; ``stream`` for a derived stream."""
    reason: str
    """Reason for the class."""
    lane: Literal["spark", "express", "stream"] = "spark"
    """Lane that maintains the view, or maintained it; ``stream`` for a derived stream."""


class Changed(msgspec.Struct, frozen=True):
    """A change of the catalogue."""

    epoch: int
    """First epoch of the new catalogue."""
    version: int
    """Newest epoch that the views' lanes have published; the change is published if ``version`` is not below ``epoch``.
    """
    views: tuple[ChangedView, ...]
    """Views and streams that were added or dropped, streams first."""
