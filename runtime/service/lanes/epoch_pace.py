"""Pace at which epochs are closed: the configured interval, or a longer one if Spark or the closing takes longer."""

from __future__ import annotations

from typing import Final

__all__ = ["EpochPace"]

_LONGEST_INTERVALS: Final = 10
"""Number of intervals after which an epoch is closed although Spark is busy or closing takes long, unless more epochs
than this are pending on Spark."""
_COST_SHARE: Final = 5
"""Least duration of an epoch without Spark, as a multiple of the time that closing the last one took."""


class EpochPace:
    """Decision whether the open epoch is closed now. Belongs to the reactor's thread.

    A batch of Spark takes all epochs that are sealed when it begins. More than one epoch for each batch costs barriers
    and commits, and makes no result fresher. The freshest results come from an epoch that is closed when Spark becomes
    free. Therefore, while Spark has an epoch to publish, the open epoch is not closed before ten intervals have passed.
    While Spark starts or hangs, more than ten epochs become pending. Then the open epoch is closed after as many
    intervals as there are pending epochs. The number of pending epochs thus grows only with the square root of the
    time, and the feed is still committed.

    Without Spark no result waits for an epoch except those of derived streams: views are published step by step, and an
    epoch only reduces what is read again after a crash. A barrier delays the feed, and a commit takes processor time.
    Therefore the open epoch is closed only after five times the duration of the last barrier and commit, but at the
    latest after ten intervals. Longer epochs would not help: the work of a commit grows with the epoch, and so does the
    delay of steps that run at the same time.
    """

    def __init__(self, interval_s: float) -> None:
        """Start without epochs; ``interval_s`` is the shortest time between two epochs, in seconds."""
        self._interval_s = interval_s
        self._closed_s = float("-inf")
        self._spent_s = 0.0

    def is_due(self, now_s: float, sealed: int, published: int | None, spent_s: float = 0.0) -> bool:
        """Return True if the epoch is to be closed now; it then counts as closed.

        ``sealed`` is the newest epoch of the log; ``published`` is the newest that Spark has published, None without
        Spark; ``spent_s`` is the total duration of all barriers and commits so far, in seconds.
        """
        waited_s = now_s - self._closed_s
        if waited_s < self._interval_s * 0.999:  # a timer may be early by a rounding error
            return False
        if published is None:
            is_late = waited_s >= _LONGEST_INTERVALS * self._interval_s * 0.999
            if not is_late and waited_s < _COST_SHARE * (spent_s - self._spent_s):
                return False
        elif published < sealed:
            intervals = max(_LONGEST_INTERVALS, sealed - published)
            if waited_s < intervals * self._interval_s * 0.999:
                return False
        self._closed_s, self._spent_s = now_s, spent_s
        return True
