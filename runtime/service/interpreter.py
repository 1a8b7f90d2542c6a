"""What a process whose views are to be quick sets for all of Python.

The worker that steps over deltas and the reactor share the interpreter lock. A thread that wants it waits for the
switch interval until the other gives it up: with Python's 5 ms that is what most of a version's latency would be.
Nearly everything that a runtime keeps lives until its end: it is taken out of the collector's sight once it is there,
and what comes and goes with each message is looked at less often, so that no collection walks through the state.
"""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Final

__all__ = ["quicken"]

_SWITCH_SECONDS: Final = 0.0002
_THRESHOLDS: Final = (20_000, 20, 100)


def quicken() -> None:
    """For the whole process, once what it begins with is there."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else extension modules report what they see no end of as leaked
    gc.set_threshold(*_THRESHOLDS)
