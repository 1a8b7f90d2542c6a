"""Messages between a page and a runtime over the WebSocket ``/v1/stream``: JSON, one message per text frame.

The page sends a `Request`, the runtime an `Event`; ``type`` distinguishes them. A page subscribes under an ``id`` of
its own choice. Each `Frames` costs one credit. A page that begins with a credit of 1 gets one `Frames`, draws it, and
requests another one by `Next`. The changes that happen meanwhile are added up to one change for each view.

An exact number is a JSON number if it is an integer of at most 2^53 - 1 in size; any other exact number is text.
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
    "PROTOCOL_ERROR",
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
"""Close code: the page has sent nothing for too long."""
PROTOCOL_ERROR: Final = 1002
"""Close code: the page has violated RFC 6455, or has closed its side of the connection without a close frame."""
NOT_TEXT: Final = 1003
"""Close code: a binary message."""
BAD_DATA: Final = 1007
"""Close code: invalid JSON or an invalid request; the preceding `Failed` has the reason."""
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
    """Request to follow views from now on; also used to resume."""

    id: _Id
    """Id that the answers carry; a subscription with the same id is replaced."""
    views: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    """Names of the views."""
    by: Literal["version", "epoch"] = "version"
    """Unit of delivery. version: the newest version; epoch: committed epochs, each exactly once."""
    from_epoch: _Epoch | dict[str, _Epoch] | None = None
    """Newest known epoch of all views or of each, if ``by`` is epoch; without ``from`` a snapshot comes first."""
    run: Annotated[str, Meta(max_length=64)] = ""
    """Value of `Hello.run` on the connection that sent the epochs of ``from``, if ``by`` is epoch."""
    credit: _Credit = 1
    """Number of `Frames` that may be sent before the first `Next`."""


class Next(_Request, frozen=True):
    """Request for this many more `Frames`."""

    id: _Id
    credit: _Credit = 1


class Unsubscribe(_Request, frozen=True):
    """Request to end a subscription."""

    id: _Id


class Ping(_Request, frozen=True):
    """Request for a `Pong`."""


Request = Subscribe | Next | Unsubscribe | Ping


class _Event(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    pass


class Hello(_Event, frozen=True):
    """The first message of a connection."""

    run: str
    """Identity of the run directory: epoch numbers are only comparable within one directory. Empty if there are no
    epochs to follow.
    """
    time_ns: int
    """The runtime's clock in nanoseconds since the UTC epoch; a page that reads it as a float loses the last digits."""


class StreamView(msgspec.Struct, frozen=True):
    """A view that is followed."""

    name: str
    columns: tuple[ColumnLine, ...]


class Subscribed(_Event, frozen=True):
    """A subscription has begun."""

    id: str
    views: tuple[StreamView, ...]


class StreamChange(msgspec.Struct, frozen=True, rename={"from_epoch": "from", "to_epoch": "to"}):
    """Change of a view."""

    view: str
    kind: Literal["snapshot", "changes", "progress", "error"]
    """Kind. snapshot: replaces all rows; changes: adds to them; progress: nothing changed up to ``to``; error:
    the view has failed or was dropped, and no more changes follow.
    """
    from_epoch: int
    to_epoch: int
    step: int
    """Version of the express lane, see `deltabook.wire.results.FrameHeader`."""
    time_ns: int
    feed: dict[str, tuple[str, int]]
    """Session and number of the last message that the version contains, by origin."""
    rows: tuple[tuple[str | bool | int | float | None, ...], ...]
    """Rows, with values in the order of the columns."""
    weights: tuple[int, ...]
    """Weight of each row: +n times added, -n times removed."""
    reason: str = ""
    """Reason of an error, or of a snapshot that replaces changes."""


class Frames(_Event, frozen=True, tag="frame"):
    """Changes since the last frame."""

    id: str
    changes: tuple[StreamChange, ...]
    """Changes in order, at most two for each view."""


class StreamHeartbeat(_Event, frozen=True, tag="heartbeat"):
    """Heartbeat, sent about every second at no credit: the views of a subscription are up to date, and nothing else was
    sent.
    """

    id: str
    epoch: int
    time_ns: int


class Ended(_Event, frozen=True):
    """A subscription is over, by request or because all of its views have ended."""

    id: str


class Failed(_Event, frozen=True, tag="error"):
    """A request cannot be carried out."""

    reason: str
    id: str = ""
    """Id of the subscription that the request concerns."""


class Pong(_Event, frozen=True):
    """Answer to a `Ping`."""

    time_ns: int


Event = Hello | Subscribed | Frames | StreamHeartbeat | Ended | Failed | Pong
