"""What a source is, and what it hands its bytes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import msgspec

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec

__all__ = ["BufferSink", "Position", "Source"]


class Position(msgspec.Struct, frozen=True):
    """Where to read on in an origin; a feed uses session and sequence, a file uses the offset."""

    session: str = ""
    """Session of the feed, empty for the current one."""
    sequence: int = 0
    """Number of the first feed message wanted, 0 for from now."""
    offset: int = 0
    """Byte offset of the first byte wanted; of a feed: what the first raw buffer's offset shall be."""
    tuples: int = 0
    """Tuples before it, as far as the engine knows; a source has no use for it."""


class BufferSink(Protocol):
    """Who takes a source's raw buffers: the engine's bounded admission queue.

    A source calls it from one thread at a time (the reactor's, or the source's own). None of the calls blocks.
    """

    def offer(self, raw: RawBuffer) -> bool:
        """Take a buffer, or return False: it was not taken, the source pauses and offers the same one after `resume`.

        `resume` may come before this call has returned, from another thread: a source must not lose it.
        """

    def end_of_stream(self, origin_id: int) -> None:
        """Every buffer of the origin has been taken and no more will come."""

    def failed(self, origin_id: int, reason: str) -> None:
        """The origin gives up; what was taken before stays good."""

    def lost(self, origin_id: int, reason: str) -> None:
        """The connection broke; the source waits for `reconnect` with the position to go on from."""


class Source(ABC):
    """Brings bytes in and does nothing else: no decoding, no formatting, no waiting.

    Raw buffers carry the source's origin id and numbers from 1 without holes, anew after each `open` or reconnection.
    A source on the reactor never blocks it: when the sink refuses a buffer it pauses its transport. It holds a bounded
    number of bytes. `resume` and `close` may be called from any thread; after `close` the sink hears nothing more.
    """

    __slots__ = ()

    @abstractmethod
    def open(self, sink: BufferSink, position: Position) -> None:
        """Start to read at the position; returns at once, failures go to the sink."""

    @abstractmethod
    def resume(self) -> None:
        """The sink has room again."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading and release everything; may be called twice."""

    @property
    def replays(self) -> bool:
        """Whether it can read again what no epoch holds yet; else what came before a break has come for good."""
        return True

    def codec_at(self, position: Position) -> Codec | None:
        """How the buffers are compressed that come after an `open` at this position; None if they are not."""
        del position
        return None
