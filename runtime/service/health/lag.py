"""How far results are behind: how long sealed epochs wait for Spark, and how old each lane's newest version is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from deltabook.wire.durations import Durations

__all__ = ["Freshness", "Lags"]

_MOST_MARKS: Final = 4096


class Lags:
    """From an epoch's end to its results on Spark; from a message's arrival to the express lane's version with it.

    A lag is forgotten when nothing was published for a while: a market at rest has none. Belongs to the reactor's
    thread.
    """

    def __init__(self, longest_s: float) -> None:
        """A lag counts for so many seconds."""
        self._longest_s = longest_s
        self._spark: tuple[float, float] | None = None  # when, and how many milliseconds
        self._express: tuple[float, float] | None = None
        self._marks: deque[tuple[int, float]] = deque()  # of buffers: offset in the stream, when they came
        self.express = Durations()
        """From the arrival of a buffer's first byte until the express lane's version with it; of more buffers than
        there are marks, every second one counts."""
        self.applied = Durations()
        """The first part of that: until the last message of the version is applied."""
        self.step = Durations()
        """The second part, once for each version: until the views have taken them in."""
        self.publish = Durations()
        """The last part, once for each version: until it is handed to subscribers."""

    def published(self, lag_ms: float, now_s: float) -> None:
        """The Spark lane has published an epoch that ended so long ago."""
        self._spark = now_s, lag_ms

    def spark_ms(self, now_s: float, waited_s: float | None) -> float | None:
        """Of the newest version; of who waits instead if that was long ago. ``waited_s``: since when one does."""
        if (known := self._recent(self._spark, now_s)) is not None:
            return known
        return None if waited_s is None else round(waited_s * 1000, 1)

    def arrived(self, offset: int, now_s: float) -> None:
        """Bytes that stand there in the feed's stream were let in; -1: that is not known."""
        if offset < 0:
            return
        if len(self._marks) >= _MOST_MARKS:  # every second one is left: what is told becomes coarser, not wrong
            self._marks = deque(islice(self._marks, 0, None, 2))
        self._marks.append((offset, now_s))

    def stepped(self, offset: int, now_s: float, applied_s: float = 0.0, stepped_s: float = 0.0) -> None:
        """The express lane has published a version that covers the stream up to there.

        Its lag is that of the newest bytes inside: heartbeats change nothing, and wait for what does. Its last message
        was applied, and its views had taken it in, at the times given; 0 for a version that no message made.
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
        """Of the newest version."""
        return self._recent(self._express, now_s)

    def stages(self) -> Iterator[tuple[str, str, Durations]]:
        """Stages of the express lane: name, what it is, and how long it took."""
        yield "express", "From a buffer's arrival until the express lane's version with it.", self.express
        yield "applied", "From a buffer's arrival until all messages of its version are applied.", self.applied
        yield "step", "From there until the views of the express lane have taken them in.", self.step
        yield "publish", "From there until the version is handed to the connections of subscribers.", self.publish

    def lost(self) -> None:
        """The connection broke: what was not taken comes again."""
        self._marks.clear()

    def _recent(self, lag: tuple[float, float] | None, now_s: float) -> float | None:
        return round(lag[1], 1) if lag is not None and now_s - lag[0] <= self._longest_s else None


class Freshness:
    """How long the oldest epoch has waited to be published. `sealed` may be called from another thread."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._waiting: deque[tuple[int, float]] = deque()

    def sealed(self, epoch: int, now_s: float) -> None:
        """There is a new epoch."""
        self._waiting.append((epoch, now_s))

    def waited_s(self, version: int, now_s: float) -> float | None:
        """With this version published, how long the oldest epoch has waited; None if none does."""
        while self._waiting and self._waiting[0][0] <= version:
            self._waiting.popleft()
        return now_s - self._waiting[0][1] if self._waiting else None

    def is_fresh(self, version: int, now_s: float) -> bool:
        """With this version published, no epoch waits too long."""
        waited_s = self.waited_s(version, now_s)
        return waited_s is None or waited_s <= self._longest_s
