"""Messages over HTTP that add views to a running runtime, and drop them.

``POST /v1/views`` takes an `AddViews`, ``DELETE /v1/views/NAME?timeout_s=N`` nothing; both answer with a `Changed` once
the change is published (200), or when the time is over (202): it will be published all the same. A refusal is one line
of text.
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
"""How long an answer waits for the first version, if nothing else is said."""
LONGEST_TIMEOUT_SECONDS: Final = 3600.0
MOST_NEW_VIEWS: Final = 1_000

TimeoutSeconds = Annotated[float, Meta(ge=0, le=LONGEST_TIMEOUT_SECONDS)]


class NewView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to be added."""

    name: str
    """What it is called; lower case."""
    sql: str
    """Its SELECT."""
    file: str = ""
    """Where the SELECT stands, for messages."""
    line: int = 1
    """Where it starts, from 1."""
    column: int = 1
    """Where it starts, from 1."""
    lane: Literal["spark", "express", ""] = ""
    """Where its versions come from; empty: Spark, or the one lane of a runtime that has no other. Where Spark runs, it
    keeps the views of the express lane too."""
    readers: tuple[str, ...] = ()
    """Readers whose relations are all that it may read; none: it reads what it likes."""


class NewStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A derived stream to be added: CREATE STREAM … AS SELECT."""

    name: str
    """What it is called; lower case."""
    sql: str
    """Its SELECT."""
    file: str = ""
    """Where the SELECT stands, for messages."""
    line: int = 1
    """Where it starts, from 1."""
    column: int = 1
    """Where it starts, from 1."""
    retain_rows: Annotated[int, Meta(ge=1, le=10_000_000)] = 20_000
    """At most so many rows stay, the newest."""
    retain_ns: Annotated[int, Meta(ge=0, le=1 << 62)] = 300_000_000_000
    """No row stays that is older than this against the newest."""
    lateness_ns: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    """How much later than the watermark a row may come."""


class AddViews(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Views and derived streams to be added together, at one epoch; all of them or none, and at least one."""

    views: Annotated[tuple[NewView, ...], Meta(max_length=MOST_NEW_VIEWS)] = ()
    """They may read the streams."""
    timeout_s: TimeoutSeconds = TIMEOUT_SECONDS
    """How long to wait for their first version."""
    streams: Annotated[tuple[NewStream, ...], Meta(max_length=MOST_NEW_VIEWS)] = ()
    """Each may read those before it."""


class ChangedView(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """A view that was added or dropped."""

    name: str
    """What it is called."""
    view_class: str
    """linear, multilinear, ordered or reevaluated; ``stream`` for a derived stream."""
    reason: str
    """Why it is in this class."""
    lane: Literal["spark", "express", "stream"] = "spark"
    """What keeps it, or did; ``stream`` for a derived stream."""


class Changed(msgspec.Struct, frozen=True):
    """A change of the catalogue."""

    epoch: int
    """The first epoch of the new catalogue."""
    version: int
    """The newest epoch that the views' lanes have published; the change is in it if it is not below ``epoch``."""
    views: tuple[ChangedView, ...]
    """What was added or dropped, streams first."""
