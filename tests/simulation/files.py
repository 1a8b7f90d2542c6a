"""A file as a source without a thread: its bytes come in pieces at times that the world chooses."""

from __future__ import annotations

import random

from runtime.formats import RawBuffer
from runtime.sources import BufferSink, Position, Source
from tests.simulation.trace import Trace

__all__ = ["SimulatedFile"]


class SimulatedFile(Source):
    """Reads from an offset to the end; the world calls `read`."""

    def __init__(self, origin_id: int, name: str, data: bytes, chance: random.Random, trace: Trace) -> None:
        self._origin_id = origin_id
        self._name = name
        self._data = data
        self._chance = chance
        self._trace = trace
        self._sink: BufferSink | None = None
        self._offset = 0
        self._number = 1
        self._refused: RawBuffer | None = None
        self._is_waiting = False
        self.is_over = False
        """True once the end was offered, or the file has failed."""

    def open(self, sink: BufferSink, position: Position) -> None:
        """See `Source`."""
        assert self._sink is None, f"expected to open {self._name} once"
        self._sink = sink
        self._offset = position.offset

    def resume(self) -> None:
        """See `Source`."""
        self._is_waiting = False

    def close(self) -> None:
        """See `Source`."""
        self._sink = None

    @property
    def can_read(self) -> bool:
        """True if the world can let it read on."""
        return self._sink is not None and not self.is_over and not self._is_waiting

    def read(self) -> None:
        """Offer the next piece, or the end."""
        assert self._sink is not None
        raw = self._refused
        if raw is None and self._offset >= len(self._data):
            self.is_over = True
            self._trace.say("{} ends", self._name)
            self._sink.end_of_stream(self._origin_id)
            return
        if raw is None:
            end = min(len(self._data), self._offset + self._chance.choice((1, 5, 12, 1000)))
            raw = RawBuffer(self._origin_id, self._number, self._data[self._offset : end], self._offset)
            self._number += 1
            self._offset = end
        self._is_waiting, self._refused = True, raw  # a resume may come before the offer returns
        if self._sink.offer(raw):
            self._is_waiting, self._refused = False, None
            self._trace.say("{}: {} bytes up to {}", self._name, len(raw.data), self._offset)

    def fail(self) -> None:
        """Report that the file cannot be read any more."""
        if self._sink is not None and not self.is_over:
            self.is_over = True
            self._sink.failed(self._origin_id, "input/output error")
