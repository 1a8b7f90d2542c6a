"""Messages over HTTP that add readers to a running runtime; a reader fills relations that views may use.

``GET /v1/readers`` answers with `Readers`, ``POST /v1/readers`` takes a `NewReader` and ``DELETE
/v1/readers/NAME?rows=leave`` takes no body; the latter two answer with a `ChangedReader`. A reader is described by data
only: an adaptor is named, and its code is never sent. From the epoch of the answer on, views of both lanes can use its
relations.
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
    """A file that the runtime reads from beginning to end; after a restart the runtime continues at its last offset."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    """Path below a ``--reader-dir`` of the runtime: absolute, or relative to the first of these directories."""


class SocketConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="socket"):
    """A server to which the runtime connects; the runtime tries again until the server answers."""

    host: Annotated[str, Meta(min_length=1, max_length=255)]
    """Name or address of the server."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    """Port of the server."""
    delivery: Literal["", "at-most-once"] = ""
    """Delivery: ``at-most-once`` for a plain stream, whose server cannot send data again; empty for a feed."""


Connection = FileConnection | SocketConnection


class NewColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a relation."""

    name: Identifier
    """Name of the column in SQL."""
    type: Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
    """Type of the column, as in `GET /v1/views`."""
    nullable: bool = False
    """True if the column may contain NULL."""
    scale: Annotated[int, Meta(ge=0, le=18)] = 0
    """Number of digits after the decimal point, for integers only."""


class RowsKept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on how long rows stay in a relation."""

    rows: Annotated[int, Meta(ge=1, le=100_000_000)]
    """Largest number of rows; the newest rows stay."""
    time_column: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    """Integer column with the time of a row."""
    time: Annotated[int, Meta(ge=0, le=1 << 62)] = 1 << 62
    """Age, relative to the newest row and in the column's unit, above which a row is removed."""


class NewReader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reader to be added."""

    name: Identifier
    """Name of the reader."""
    connection: Connection
    """Source of the bytes."""
    adaptor: Annotated[str, Meta(pattern="^[a-z_][a-z0-9_-]*$", max_length=LONGEST_NAME)] = "rows"
    """Adaptor that makes rows: ``rows`` for a relation of its own, ``orderbook`` for a market's feed, or the name of an
    adaptor that is installed where the runtime runs.
    """
    format: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    """Format of the tuples, as in CREATE STREAM, by default ``csv``; for a feed ``text`` or ``itch``."""
    options: Annotated[dict[_Text, _Text], Meta(max_length=100)] = {}
    """Options of the format and of the adaptor, as in CREATE STREAM."""
    relation: Annotated[str, Meta(pattern="^([a-z_][a-z0-9_]*)?$", max_length=LONGEST_NAME)] = ""
    """Name of the relation in SQL; by default the reader's name. A feed has its three relations."""
    columns: Annotated[tuple[NewColumn, ...], Meta(max_length=1000)] = ()
    """Columns of the relation; empty for a feed."""
    keep: RowsKept | None = None
    """Limits on how long rows stay; None: no limits, and for a feed those of the runtime's own feed."""


class ReaderStatus(msgspec.Struct, frozen=True):
    """State and position of a reader."""

    name: str
    """Name of the reader."""
    adaptor: str
    """Adaptor that makes rows of the reader's bytes."""
    source: str
    """File or server from which the bytes come."""
    delivery: Literal["exactly-once", "at-most-once"]
    """Delivery: exactly-once if data that was sent while the runtime did not read is read later."""
    relations: tuple[str, ...]
    """Relations that the reader fills."""
    since: int
    """Epoch from which on the reader exists."""
    state: Literal["reading", "ended", "failed", "leaving"]
    """State of the reader. ``ended``: everything is read. ``failed``: see ``reason``; rows that it has read stay.
    ``leaving``: it was dropped, and its rows are about to be removed.
    """
    reason: str = ""
    """Reason of the reader's failure."""
    sequence: int = 0
    """Number of messages of a feed, or rows, up to the last cut."""
    offset: int = 0
    """Number of bytes up to the last cut."""
    malformed: int = 0
    """Number of malformed tuples since the runtime started."""
    views: tuple[str, ...] = ()
    """Views that must be dropped before the reader."""


class Readers(msgspec.Struct, frozen=True):
    """Everything that a runtime reads."""

    readers: tuple[ReaderStatus, ...]
    """Readers, the runtime's own feed first."""


class ChangedReader(msgspec.Struct, frozen=True):
    """A reader that was added or dropped."""

    epoch: int
    """First epoch with the reader, or without its rows."""
    reader: ReaderStatus
    """State of the reader at that epoch."""
