"""Runs a program that is signalled to end when its parent has ended: ``python tied.py PROGRAM ARGUMENT…``.

A process that is killed cannot stop its children, but Linux can signal a child at the end of its parent, even after the
child has executed another program. On other systems this script only executes the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

__all__ = ["main"]

_SET_PARENT_DEATH_SIGNAL: Final = 1
"""Option of ``prctl``: the signal that this process gets when its parent ends."""


def main() -> None:
    """Ask Linux for the signal and execute the program; never return."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the request took effect
            sys.exit(1)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
