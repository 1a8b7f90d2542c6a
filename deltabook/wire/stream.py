"""Messages between a page and a runtime over the WebSocket ``/v1/stream``: JSON, a message a text frame.

The page sends a `Request`, the runtime an `Event`; ``type`` says which. A page subscribes under a name of its own
choice, ``id``. Every `Frames` that it is sent costs one credit: with the credit of 1 that it begins with it gets one,
and the next when it asks for it by `Next`, after drawing the last. What happened in between comes as one change of each
view.

Exact numbers are JSON numbers up to 2^53 - 1 and text beyond, and text where there are digits after the point.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from deltabook.wire.service import ColumnLine

__all__ = [
    "BAD_DATA",
    "GOING_AWAY",
    "LONGEST_REQUEST_BYTES",
    "MOST_CREDIT",
    "MOST_SUBSCRIPTIONS",
    "NOT_TEXT",
    "STREAM_PATH",
    "TOO_BUSY",
    "TOO_LARGE",
    "Ended",
    "Event",
    "Failed",
    "Frames",
    "Hello",
    "Next",
    "Ping",
    "Pong",
    "Request",
    "StreamChange",
    "StreamHeartbeat",
    "StreamView",
    "Subscribe",
    "Subscribed",
    "Unsubscribe",
]

STREAM_PATH: Final = "/v1/stream"
LONGEST_REQUEST_BYTES: Final = 16 * 1024
MOST_SUBSCRIPTIONS: Final = 16
"""Largest number of subscriptions of one connection."""
MOST_CREDIT: Final = 1000

GOING_AWAY: Final = 1001
"""Close code: nothing was heard of the page for too long."""
NOT_TEXT: Final = 1003
"""Close code: a binary message."""
BAD_DATA: Final = 1007
"""Close code: what is no JSON, or no request; the `Failed` before it says why."""
TOO_BUSY: Final = 1008
"""Close code: more requests than are allowed."""
TOO_LARGE: Final = 1009
"""Close code: a request that is too long."""

_Id = Annotated[str, Meta(min_length=1, max_length=64)]
_Epoch = Annotated[int, Meta(ge=0, le=2**53 - 1)]
_Credit = Annotated[int, Meta(ge=1, le=MOST_CREDIT)]


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag=str.lower):
    pass


class Subscribe(_Request, frozen=True, rename={"from_epoch": "from"}):
    """Follow views from now on; also how one resumes."""

    id: _Id
    """What the answers are to name; free, or the subscription of that name ends."""
    views: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    """Names."""
    by: Literal["version", "epoch"] = "version"
    """version: what is newest; epoch: committed epochs, each exactly once."""
    from_epoch: _Epoch | dict[str, _Epoch] | None = None
    """by epoch: the newest that is known, of all views or of each; without it a snapshot comes first."""
    run: Annotated[str, Meta(max_length=64)] = ""
    """by epoch: what `Hello` said when that epoch was sent."""
    credit: _Credit = 1
    """So many `Frames` may be sent without being asked for."""


class Next(_Request, frozen=True):
    """So many more `Frames` may be sent."""

    id: _Id
    credit: _Credit = 1


class Unsubscribe(_Request, frozen=True):
    """Follow no longer."""

    id: _Id


class Ping(_Request, frozen=True):
    """Is somebody there?"""


Request = Subscribe | Next | Unsubscribe | Ping


class _Event(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    pass


class Hello(_Event, frozen=True):
    """The first message."""

    run: str
    """Tells the run directory from others, whose epochs mean something else; empty if there are no epochs to follow."""
    time_ns: int
    """The runtime's clock, nanoseconds since the UTC epoch; a page that reads it as a float loses the last digits."""


class StreamView(msgspec.Struct, frozen=True):
    """A view that is followed."""

    name: str
    columns: tuple[ColumnLine, ...]


class Subscribed(_Event, frozen=True):
    """A subscription has begun."""

    id: str
    views: tuple[StreamView, ...]


class StreamChange(msgspec.Struct, frozen=True, rename={"from_epoch": "from", "to_epoch": "to"}):
    """What became of a view."""

    view: str
    kind: Literal["snapshot", "changes", "progress", "error"]
    """snapshot: forget what was there; changes: add to it; progress: nothing changed up to ``to``; error: the end."""
    from_epoch: int
    to_epoch: int
    step: int
    """See `deltabook.wire.results.FrameHeader`."""
    time_ns: int
    feed: dict[str, tuple[str, int]]
    """Origin → session and number of the last message inside."""
    rows: tuple[tuple[str | bool | int | float | None, ...], ...]
    """Values in the order of the columns."""
    weights: tuple[int, ...]
    """Weight of each row: +n times added, -n times removed."""
    reason: str = ""
    """Reason of an error, or of a snapshot that comes in place of changes."""


class Frames(_Event, frozen=True, tag="frame"):
    """What has happened since the last one."""

    id: str
    changes: tuple[StreamChange, ...]
    """At most two of a view, in order."""


class StreamHeartbeat(_Event, frozen=True, tag="heartbeat"):
    """The views of a subscription are fresh, and nothing was sent; about every second, and costs no credit."""

    id: str
    epoch: int
    time_ns: int


class Ended(_Event, frozen=True):
    """A subscription is over: it was asked for, or all of its views are gone."""

    id: str


class Failed(_Event, frozen=True, tag="error"):
    """What was asked for cannot be done."""

    reason: str
    id: str = ""
    """Id of the subscription that it is about."""


class Pong(_Event, frozen=True):
    """Somebody is there."""

    time_ns: int


Event = Hello | Subscribed | Frames | StreamHeartbeat | Ended | Failed | Pong
