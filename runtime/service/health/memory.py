"""Memory of this process, as the operating system counts it."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

__all__ = ["resident_bytes"]


def resident_bytes() -> int:
    """Return the memory of this process without its children, in bytes; its peak if the system reports nothing else."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
