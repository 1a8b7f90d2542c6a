"""Messages over HTTP that make a running runtime read more: readers, which fill relations that views may use.

``GET /v1/readers`` answers with `Readers`, ``POST /v1/readers`` takes a `NewReader` and ``DELETE
/v1/readers/NAME?rows=leave`` nothing; these two answer with a `ChangedReader`. A reader is data: an adaptor is named,
never sent. From the epoch of the answer on its relations can be used by views of both lanes.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "ChangedReader",
    "Connection",
    "FileConnection",
    "NewColumn",
    "NewReader",
    "ReaderStatus",
    "Readers",
    "RowsKept",
    "SocketConnection",
]

LONGEST_NAME: Final = 50
Identifier = Annotated[str, Meta(pattern="^[a-z_][a-z0-9_]*$", max_length=LONGEST_NAME)]
_Text = Annotated[str, Meta(max_length=1000)]


class FileConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="file"):
    """A file that the runtime reads from its beginning to its end; a restart goes on at its offset."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    """Below one of the runtime's ``--reader-dir``, relative to the first or absolute."""


class SocketConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="socket"):
    """A server that the runtime connects to, again and again until it answers."""

    host: Annotated[str, Meta(min_length=1, max_length=255)]
    """Its name or address."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    """Its port."""
    delivery: Literal["", "at-most-once"] = ""
    """``at-most-once`` accepts that a plain stream sends nothing again; a feed leaves this empty."""


Connection = FileConnection | SocketConnection


class NewColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a relation."""

    name: Identifier
    """What SQL calls it."""
    type: Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
    """As `GET /v1/views` says it."""
    nullable: bool = False
    """True if NULL may stand in it."""
    scale: Annotated[int, Meta(ge=0, le=18)] = 0
    """Integers only: digits behind the decimal point."""


class RowsKept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long rows stay in a relation."""

    rows: Annotated[int, Meta(ge=1, le=100_000_000)]
    """At most so many, the newest."""
    time_column: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    """An integer column that says when a row is of."""
    time: Annotated[int, Meta(ge=0, le=1 << 62)] = 1 << 62
    """None older than this against the newest row, in the column's unit."""


class NewReader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reader to be added."""

    name: Identifier
    """What it is called."""
    connection: Connection
    """Where the bytes come from."""
    adaptor: Annotated[str, Meta(pattern="^[a-z_][a-z0-9_-]*$", max_length=LONGEST_NAME)] = "rows"
    """What makes rows of them: ``rows`` for a relation of its own, ``orderbook`` for a market's feed, or the name of
    one that is installed where the runtime runs."""
    format: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    """How tuples are written: a format as in CREATE STREAM, by default ``csv``; of a feed ``text`` or ``itch``."""
    options: Annotated[dict[_Text, _Text], Meta(max_length=100)] = {}
    """The format's and the adaptor's options, as in CREATE STREAM."""
    relation: Annotated[str, Meta(pattern="^([a-z_][a-z0-9_]*)?$", max_length=LONGEST_NAME)] = ""
    """What SQL calls the relation; by default as the reader is called. A feed has its three."""
    columns: Annotated[tuple[NewColumn, ...], Meta(max_length=1000)] = ()
    """Those of the relation; of a feed none."""
    keep: RowsKept | None = None
    """How long rows stay; None: for ever, and of a feed as those of the runtime's own."""


class ReaderStatus(msgspec.Struct, frozen=True):
    """A reader and how far it has come."""

    name: str
    """What it is called."""
    adaptor: str
    """What makes rows of its bytes."""
    source: str
    """The file, or the server."""
    delivery: Literal["exactly-once", "at-most-once"]
    """True if what was sent while the runtime did not read is read later."""
    relations: tuple[str, ...]
    """What it fills."""
    since: int
    """The epoch from which on it is there."""
    state: Literal["reading", "ended", "failed", "leaving"]
    """``ended``: all is read. ``failed``: see ``reason``; what it has read stays. ``leaving``: it was dropped, and its
    rows are about to go."""
    reason: str = ""
    """Why it has failed."""
    sequence: int = 0
    """Messages of a feed, or rows, up to the last cut."""
    offset: int = 0
    """The same in bytes."""
    malformed: int = 0
    """Tuples since the runtime started that were none."""
    views: tuple[str, ...] = ()
    """Views that it cannot be dropped before."""


class Readers(msgspec.Struct, frozen=True):
    """What a runtime reads."""

    readers: tuple[ReaderStatus, ...]
    """Its own feed first."""


class ChangedReader(msgspec.Struct, frozen=True):
    """A reader that was added or dropped."""

    epoch: int
    """The first epoch with it, or without its rows."""
    reader: ReaderStatus
    """As it was then."""
