"""Exclusion of a Python worker's long-lived objects from the garbage collections between its tasks.

Spark has a reused worker collect all garbage after every task. The worker has some 250,000 objects, nearly all of which
belong to modules, so that a collection takes 80 ms of processor time. There are four collections per batch, during the
tasks of the next stage.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Hashable, Mapping
from typing import Final

__all__ = ["Garbage"]

_REUSED: Final = "SPARK_REUSE_WORKER"
"""Environment variable that reused workers have."""


class Garbage:
    """Garbage collections of this process. Not thread-safe."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._is_reused = bool(environ.get(_REUSED))
        self._kept: Hashable = None

    def keep(self, key: Hashable) -> None:
        """Exclude the present objects from collections, unless the last call had the same key.

        Objects that were excluded for another key are included in one collection first, so that garbage among them is
        freed.
        """
        if self._is_reused and key != self._kept:
            self._kept = key
            gc.unfreeze()
            gc.collect()
            gc.freeze()
