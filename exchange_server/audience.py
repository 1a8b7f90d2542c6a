"""Followers of a stream: all that is appended in a turn of the reactor is one burst, the same bytes for everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from exchange_server.tail import Records

__all__ = ["Audience", "SequencedStream"]

C = TypeVar("C")


class SequencedStream(Protocol):
    """Numbered records, from 1, and the listeners for new ones."""

    @property
    def records(self) -> Records:
        """The records."""

    @property
    def on_append(self) -> list[Callable[[bytes], None]]:
        """Called with what was just appended to the records."""


class Audience(Generic[C]):
    """The connections that follow one stream, and what was appended to it in this turn of the reactor."""

    __slots__ = ("_announce", "_burst", "connections", "heartbeat", "stream")

    def __init__(
        self, stream: SequencedStream, announce: Callable[[Audience[C]], None], heartbeat: Callable[[], bytes]
    ) -> None:
        """``announce`` is called when there is something to take, once until it is taken."""
        self.stream = stream
        """Stream that they follow."""
        self.connections: set[C] = set()
        """Connections that follow the stream."""
        self.heartbeat = heartbeat
        """Makes the heartbeat, which says that there is nothing new."""
        self._burst: list[bytes] = []
        self._announce = announce
        stream.on_append.append(self._collect)

    def _collect(self, data: bytes) -> None:
        if not self._burst:
            self._announce(self)
        self._burst.append(data)

    def take(self) -> bytes:
        """Return the bytes appended since the last call."""
        burst, self._burst = self._burst, []
        return burst[0] if len(burst) == 1 else b"".join(burst)

    def close(self) -> None:
        """Hear no more."""
        self.stream.on_append.remove(self._collect)
