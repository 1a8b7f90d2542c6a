"""Keeps what a Python worker holds for long out of the garbage collections between its tasks.

A worker that Spark uses again collects all garbage after every task. It has some 250,000 objects, nearly all of them
modules: 80 ms of processor time, four times a batch, beside the tasks of the next stage.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Hashable, Mapping
from typing import Final

__all__ = ["Garbage"]

_REUSED: Final = "SPARK_REUSE_WORKER"
"""Variable of workers that are used again."""


class Garbage:
    """The garbage collections of this process. Not thread-safe."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._is_reused = bool(environ.get(_REUSED))
        self._kept: Hashable = None

    def keep(self, what: Hashable) -> None:
        """Look no more at what there is now, unless this was said of the same thing before.

        What was kept for another thing is looked at once more, so that nothing of it stays for good.
        """
        if self._is_reused and what != self._kept:
            self._kept = what
            gc.unfreeze()
            gc.collect()
            gc.freeze()
