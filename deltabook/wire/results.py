"""Frames that carry the changes of views from the runtime to programs.

A frame is ``u32 header length, u32 body length`` (big-endian), a JSON header and an Arrow IPC stream whose columns are
the view's columns and ``weight``: +n for rows added, -n for rows removed. A snapshot frame replaces the subscriber's
rows; a changes frame is added to them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
import pyarrow as pa

__all__ = [
    "CONTENT_TYPE",
    "FRAME_LIMIT_BYTES",
    "WEIGHT",
    "Frame",
    "FrameDecoder",
    "FrameError",
    "FrameHeader",
    "encode_frame",
    "encode_rows",
]

CONTENT_TYPE: Final = "application/vnd.deltabook.frames"
FRAME_LIMIT_BYTES: Final = 256 * 1024 * 1024
WEIGHT: Final = "weight"
_PREFIX: Final = struct.Struct("!II")
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class FrameError(ValueError):
    """Bytes are not a valid frame; the message has the expected and the actual value."""


class FrameHeader(msgspec.Struct, frozen=True, rename={"from_epoch": "from", "to_epoch": "to"}):
    """Header of a frame."""

    kind: Literal["snapshot", "changes", "progress", "heartbeat", "error"]
    """Kind of the frame. snapshot: replaces all rows; changes: adds and removes rows; progress: epochs in which the
    view did not change, only sent to subscribers of epochs; heartbeat: the service lives; error: the view has ended.
    """
    view: str
    """Name of the view, empty in a heartbeat."""
    from_epoch: int = 0
    """Version of the view before the changes."""
    to_epoch: int = 0
    """Version of the view after the changes."""
    feed: dict[str, tuple[str, int]] = {}
    """Session and sequence that the version covers, by origin."""
    time_ns: int = 0
    """Time at which the version was published, in nanoseconds since the UTC epoch."""
    reason: str = ""
    """Reason of an error, or of a snapshot that replaces changes."""
    step: int = 0
    """Version of a view of the express lane: a number that rises until the runtime is restarted. An epoch has many such
    versions, and ``to`` is the latest epoch that the version contains completely. 0: the epoch is the version.
    """


class Frame(msgspec.Struct, frozen=True):
    """A header and its rows."""

    header: FrameHeader
    """Header of the frame."""
    rows: pa.Table | None
    """The view's columns and ``weight``; None in heartbeats, progress and errors."""


_header_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(FrameHeader)


def encode_rows(rows: pa.Table) -> bytes:
    """Return the rows of a frame as an Arrow stream."""
    # The stream is assembled by hand, since an Arrow writer takes twice as long as all the rest of a small frame.
    messages = [rows.schema.serialize(), *(batch.serialize() for batch in rows.to_batches() if batch.num_rows)]
    return b"".join([*(message.to_pybytes() for message in messages), _END_OF_STREAM])


def encode_frame(header: FrameHeader, rows: pa.Table | None = None, *, body: bytes = b"") -> bytes:
    """Return a frame as bytes; ``body`` has the rows if `encode_rows` has already encoded them."""
    head = _header_encoder.encode(header)
    if rows is not None and not body:
        body = encode_rows(rows)
    return _PREFIX.pack(len(head), len(body)) + head + body


class FrameDecoder:
    """Decoder of a stream of frames; it takes bytes as they arrive, and stores at most one incomplete frame.

    >>> decoder = FrameDecoder()
    >>> data = encode_frame(FrameHeader("heartbeat", ""))
    >>> [frame.header.kind for frame in decoder.feed(data[:5])]
    []
    >>> [frame.header.kind for frame in decoder.feed(data[5:])]
    ['heartbeat']
    """

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete; raise `FrameError` for a broken frame and for a frame above the
        size limit.
        """
        self._buffer += data
        while len(self._buffer) >= _PREFIX.size:
            head_bytes, body_bytes = _PREFIX.unpack_from(self._buffer)
            if head_bytes + body_bytes > self._limit_bytes:
                raise FrameError(
                    f"expected a frame of at most {self._limit_bytes} bytes, was {head_bytes + body_bytes}"
                )
            end = _PREFIX.size + head_bytes + body_bytes
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as whole:  # a slice of the array itself would be one more copy
                head = bytes(whole[_PREFIX.size : _PREFIX.size + head_bytes])
                body = bytes(whole[_PREFIX.size + head_bytes : end])
            del self._buffer[:end]
            yield _decode(head, body)


def _decode(head: bytes, body: bytes) -> Frame:
    try:
        header = _header_decoder.decode(head)
        rows = pa.ipc.open_stream(body).read_all() if body else None
    except (ValueError, OSError, pa.ArrowException) as error:  # pyarrow reports damage by errors of several classes
        raise FrameError(f"expected a JSON header and an Arrow stream, was {head[:80]!r}: {error}") from None
    return Frame(header, rows)
