"""Python interpreter of Spark's processes.

Spark puts zip archives of its own packages first on the path of each Python that it starts. Modules in an archive are
not stored compiled, so each process would compile some 100 of them before its first line: 0.6 s, in a start that
begins seven processes one after the other. The installed packages are the same ones. Executors on other machines read
the script where the driver has written it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["quick_python"]

_VARIABLE: Final = "PYTHONPATH"
_PROBE_S: Final = 30.0


def quick_python(script: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Write a script that runs this Python with the path of this process, and return the command for Spark to start.

    The command is this Python itself if a script cannot be run, as on a file system for data alone.
    """
    path = environ.get(_VARIABLE)
    setting = f"unset {_VARIABLE}" if path is None else f"export {_VARIABLE}={shlex.quote(path)}"
    script.write_text(f'#!/bin/sh\n{setting}\nexec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o755)
    try:
        subprocess.run([str(script), "-c", ""], check=True, timeout=_PROBE_S, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return sys.executable
    return str(script)
