"""How soon a micro-batch follows the one before: at once while somebody listens, else at rest in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["BatchPace"]

_MOST_WAITING: Final = 16
"""Epochs; a query that has so many before it is catching up, and does not rest."""


class BatchPace:
    """A batch has a fixed cost, 0.2 s of processor time and more however few rows there are; on a machine that it
    shares, answers that nobody reads would be paid by those who wait for the feed.

    `rest` is called by the thread that runs batches, the others on any thread.
    """

    def __init__(self, quiet_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """``quiet_s``: from the beginning of a batch to that of the next, at least, while nobody listens."""
        self._quiet_s, self._now_s = quiet_s, now_s
        self._changed = threading.Condition()
        self._is_listened_to = True
        self._is_over = False

    def listened_to(self, is_listened_to: bool) -> None:
        """Whether somebody listens; at first it is taken for granted."""
        with self._changed:
            self._is_listened_to = is_listened_to
            self._changed.notify_all()

    def end(self) -> None:
        """Nobody rests any more."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def rest(self, begun_s: float, waiting: int) -> None:
        """Wait until the next batch may begin: the last one began then, and so many epochs wait for the next."""
        if waiting >= _MOST_WAITING:
            return
        with self._changed:
            left_s = begun_s + self._quiet_s - self._now_s()
            self._changed.wait_for(lambda: self._is_listened_to or self._is_over, max(0.0, left_s))
