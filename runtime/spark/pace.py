"""How soon a micro-batch follows the one before: at once while somebody listens, else with a rest in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["BatchPace"]

_MOST_WAITING: Final = 16
"""Epochs; a query that has so many before it is catching up, and does not rest."""


class BatchPace:
    """Lets the streaming query rest between batches while nobody listens to its views.

    A batch has a fixed cost, 0.2 s of processor time and more however few rows there are; on a machine that Spark
    shares, those who wait for the feed would pay for answers that nobody reads.

    `rest` is called by the thread that runs batches, the others on any thread.
    """

    def __init__(self, quiet_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        """``quiet_s``: from the beginning of a batch to that of the next, at least, while nobody listens."""
        self._quiet_s, self._now_s = quiet_s, now_s
        self._changed = threading.Condition()
        self._is_listened_to = True
        self._is_over = False
        self._newest = -1
        self._urgent = -1

    def listened_to(self, is_listened_to: bool) -> None:
        """Say whether somebody listens; until then it is taken for granted."""
        with self._changed:
            self._is_listened_to = is_listened_to
            self._changed.notify_all()

    def sealed(self, epoch: int, *, is_awaited: bool) -> None:
        """Say that an epoch is sealed; ``is_awaited``: somebody waits for its version, as for that of a new view."""
        with self._changed:
            self._newest = epoch
            self._urgent = epoch if is_awaited else self._urgent
            self._changed.notify_all()

    def end(self) -> None:
        """Wake the thread that rests; later calls of `rest` return at once."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def rest(self, begun_s: float, version: int) -> None:
        """Wait until the next batch may begin: the last one began at ``begun_s`` and made this version."""
        with self._changed:
            left_s = begun_s + self._quiet_s - self._now_s()
            self._changed.wait_for(lambda: self._is_due(version), max(0.0, left_s))

    def _is_due(self, version: int) -> bool:
        is_behind = self._newest - version >= _MOST_WAITING or self._urgent > version
        return is_behind or self._is_listened_to or self._is_over
