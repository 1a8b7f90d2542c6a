"""Feed without an end: the bytes of a market's messages, in pieces at times that the world chooses."""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.formats import RawBuffer
from runtime.sources import BufferSink, Position, Source

__all__ = ["SimulatedFeed"]


class SimulatedFeed(Source):
    """Reads from an offset as far as there are bytes; the world calls `read`."""

    def __init__(self, session: str, data: Callable[[], bytes], chance: random.Random) -> None:
        self.session = session
        """Session name in cuts."""
        self._data = data
        self._chance = chance
        self._sink: BufferSink | None = None
        self._offset = 0
        self._number = 1
        self._refused: RawBuffer | None = None

    def open(self, sink: BufferSink, position: Position) -> None:
        """See `Source`."""
        self._sink, self._offset = sink, position.offset

    def resume(self) -> None:
        """See `Source`; the world calls `read` by itself."""

    def close(self) -> None:
        """See `Source`."""
        self._sink = None

    def read(self) -> bool:
        """Offer the next piece; return False if there is none, or no room for it."""
        if self._sink is None:
            return False
        raw = self._refused
        if raw is None:
            data = self._data()
            end = min(len(data), self._offset + self._chance.choice((5, 40, 400, 10_000)))
            if end == self._offset:
                return False
            raw = RawBuffer(0, self._number, data[self._offset : end], self._offset)
            self._number += 1
            self._offset = end
        self._refused = None if self._sink.offer(raw) else raw
        return self._refused is None
