"""Lag of results: the time that sealed epochs wait for Spark, and the age of each lane's newest version."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from deltabook.wire.durations import Durations

__all__ = ["Freshness", "Lags"]

_MOST_MARKS: Final = 4096
"""Greatest number of marks of buffers that wait for a version, and of marks of epochs that wait for Spark."""


class Lags:
    """Lags from an epoch's end to its results on Spark, and from a message's arrival to its express version.

    A lag expires if nothing is published for a while: in a quiet market there is nothing that could lag. Belongs to the
    reactor's thread.
    """

    def __init__(self, longest_s: float) -> None:
        """Start without lags; ``longest_s`` is the time in seconds after which a lag expires."""
        self._longest_s = longest_s
        self._spark: tuple[float, float] | None = None  # time of publication, lag in ms
        self._express: tuple[float, float] | None = None  # time of publication, lag in ms
        self._marks: deque[tuple[int, float]] = deque()  # offset in the stream and time of arrival of each buffer
        self.express = Durations()
        """Time from the arrival of a buffer's first byte until the express lane's version with this byte; if there are
        more buffers than marks, only every second buffer counts."""
        self.applied = Durations()
        """Time from the arrival of a buffer's first byte until the last message of that version is applied: the first
        part of ``express``."""
        self.step = Durations()
        """Time from the end of ``applied`` until the views are up to date, once for each version."""
        self.publish = Durations()
        """Time from the end of ``step`` until the version is handed to subscribers, once for each version."""

    def published(self, lag_ms: float, now_s: float) -> None:
        """Record that the Spark lane has published an epoch that ended ``lag_ms`` ago."""
        self._spark = now_s, lag_ms

    def spark_ms(self, now_s: float, waited_s: float | None) -> float | None:
        """Return the lag of the newest version in milliseconds, or ``waited_s`` in milliseconds once that lag has
        expired.

        ``waited_s`` is the time in seconds that the oldest epoch has waited, None if no epoch waits.
        """
        if (known := self._recent(self._spark, now_s)) is not None:
            return known
        return None if waited_s is None else round(waited_s * 1000, 1)

    def arrived(self, offset: int, now_s: float) -> None:
        """Record the arrival of bytes at this offset of the feed's stream; -1 for an unknown offset."""
        if offset < 0:
            return
        if len(self._marks) >= _MOST_MARKS:  # every second mark is kept: figures become coarser, not wrong
            self._marks = deque(islice(self._marks, 0, None, 2))
        self._marks.append((offset, now_s))

    def stepped(self, offset: int, now_s: float, applied_s: float = 0.0, stepped_s: float = 0.0) -> None:
        """Record that the express lane has published a version that covers the stream up to ``offset``.

        The lag of the version is that of its newest bytes. Older bytes may be heartbeats: a heartbeat changes no view,
        so that no version covers it before later bytes change a view. ``applied_s`` is the time at which the version's
        last message was applied, ``stepped_s`` the time at which the views were up to date; both are 0 for a version
        without a message.
        """
        arrived_s: float | None = None
        while self._marks and self._marks[0][0] < offset:
            arrived_s = self._marks.popleft()[1]
            self.express.add(now_s - arrived_s)
            if applied_s:
                self.applied.add(applied_s - arrived_s)
        if applied_s:
            self.step.add(stepped_s - applied_s)
            self.publish.add(now_s - stepped_s)
        if arrived_s is not None:
            self._express = now_s, (now_s - arrived_s) * 1000

    def express_ms(self, now_s: float) -> float | None:
        """Return the lag of the newest version in milliseconds; None if it has expired."""
        return self._recent(self._express, now_s)

    def stages(self) -> Iterator[tuple[str, str, Durations]]:
        """Yield the stages of the express lane: name, description, and durations."""
        yield "express", "Time from a buffer's arrival to the first express version that covers it.", self.express
        yield "applied", "Time from a buffer's arrival until the messages of that version are applied.", self.applied
        yield "step", "Time from the end of applied until express views contain its messages.", self.step
        yield (
            "publish",
            "Time from the end of step until the version is handed to subscribers' connections.",
            self.publish,
        )

    def lost(self) -> None:
        """Discard the marks after the loss of the feed's connection: bytes that were not applied arrive again."""
        self._marks.clear()

    def _recent(self, lag: tuple[float, float] | None, now_s: float) -> float | None:
        return round(lag[1], 1) if lag is not None and now_s - lag[0] <= self._longest_s else None


class Freshness:
    """Time that the oldest epoch has waited for its publication. May be called from any thread."""

    def __init__(self, longest_s: float) -> None:
        """Start without epochs; ``longest_s`` is the time in seconds after which an epoch has waited too long."""
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, float]] = deque()  # number and time of the end of each epoch

    def sealed(self, epoch: int, now_s: float) -> None:
        """Record a new epoch."""
        with self._lock:
            if len(self._waiting) >= _MOST_MARKS:  # every second mark is kept, the oldest included
                self._waiting = deque(islice(self._waiting, 0, None, 2))
            self._waiting.append((epoch, now_s))

    def waited_s(self, version: int, now_s: float) -> float | None:
        """Return how many seconds the oldest epoch after this published version has waited; None if there is none.

        If more epochs have waited than there are marks, the result may be the wait of a later epoch than the oldest.
        """
        with self._lock:
            while self._waiting and self._waiting[0][0] <= version:
                self._waiting.popleft()
            return now_s - self._waiting[0][1] if self._waiting else None

    def is_fresh(self, version: int, now_s: float) -> bool:
        """Return True if no epoch after this published version has waited too long."""
        waited_s = self.waited_s(version, now_s)
        return waited_s is None or waited_s <= self._longest_s
