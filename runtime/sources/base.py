"""Interfaces of sources and of the sinks to which sources offer raw buffers, and errors of a source before it runs.

While a source runs, its failures are reported to its sink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import msgspec

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec

__all__ = ["BufferSink", "LoginRefusedError", "Position", "Source", "SourceError", "SourceStateError"]


class SourceError(RuntimeError):
    """Base of all errors of sources."""


class SourceStateError(SourceError):
    """A source was opened twice, or used after it was closed."""


class LoginRefusedError(SourceError):
    """A feed rejected the login, or does not speak its protocol; another attempt would not help."""


class Position(msgspec.Struct, frozen=True):
    """Place in an origin at which reading begins; a feed uses session and sequence, a file uses the offset."""

    session: str = ""
    """Session of the feed; empty for the current session."""
    sequence: int = 0
    """Number of the first feed message to be read; 0 for the next message."""
    offset: int = 0
    """Offset of the first byte to be read; for a feed, the offset that the first raw buffer gets."""
    tuples: int = 0
    """Number of tuples before the position, if the engine has counted them; sources ignore it."""


class BufferSink(Protocol):
    """Sink of a source's raw buffers: the engine's bounded admission queue.

    A source calls its sink from one thread at a time (the reactor's, or the source's own). No call blocks.
    """

    def offer(self, raw: RawBuffer) -> bool:
        """Accept a buffer and return True, or refuse it and return False.

        After False the source pauses, and offers the buffer again when `Source.resume` is called. Another thread may
        call `Source.resume` before `offer` has returned; the source must then offer the buffer again, too.
        """

    def end_of_stream(self, origin_id: int) -> None:
        """Note that every buffer of the origin was accepted, and that no other buffer will follow."""

    def failed(self, origin_id: int, reason: str) -> None:
        """Note that the origin has failed permanently; all accepted buffers stay valid."""

    def lost(self, origin_id: int, reason: str) -> None:
        """Note that the connection broke; the source waits for a call of `Source.reconnect`."""


class Source(ABC):
    """Reader of bytes from outside; a source neither decodes nor formats the bytes.

    Raw buffers have the source's origin id and consecutive numbers, from 1 after each `open` or reconnection. A source
    on the reactor never blocks the reactor: when the sink refuses a buffer, the source pauses its transport. A source
    holds a bounded number of bytes. `resume` and `close` may be called from any thread. The sink is not called any more
    after `close`.
    """

    __slots__ = ()

    session: str = ""
    """Session of a feed, as the server named it at the last login; empty for other sources."""

    @abstractmethod
    def open(self, sink: BufferSink, position: Position) -> None:
        """Start to read at the position, and return at once; failures are reported to the sink."""

    @abstractmethod
    def resume(self) -> None:
        """Offer the refused buffer again, because the sink has room."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading and release everything; may be called twice."""

    @property
    def replays(self) -> bool:
        """True if input that is not in an epoch yet can be read again; False if it is lost with the connection."""
        return True

    @property
    def is_connected(self) -> bool:
        """True if the source is connected to its server; always True for a file. Read on the source's thread."""
        return True

    def reconnect(self, position: Position) -> None:
        """Connect again and read from the position; called after the source has reported a loss (`BufferSink.lost`).

        Raises `SourceStateError` for a source that has no connection, such as a file.
        """
        raise SourceStateError(f"expected a source that connects, was {type(self).__name__} at {position}")

    def codec_at(self, position: Position) -> Codec | None:
        """Return the codec of the buffers after an `open` at this position; None if they are not compressed."""
        del position
        return None
