"""Settings of the Python interpreter for low latency.

The worker that steps over deltas and the reactor share the interpreter lock. A thread that needs the lock waits for the
switch interval until the other releases it: Python's 5 ms would be most of a version's latency. Nearly all objects of a
runtime live until its end: they are frozen after the start, so that no collection walks through the state, and the
collector visits short-lived objects less often.
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
    """Apply the settings to the whole process; to be called once its initial state is in memory."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else extension modules report frozen objects as leaks
    gc.set_threshold(*_THRESHOLDS)
