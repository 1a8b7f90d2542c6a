"""The folder of a run: a fresh one each time, old ones removed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

from deltabook.demo.errors import DemoError

__all__ = ["KEPT_RUNS", "make_run_folder"]

KEPT_RUNS: Final = 5
"""How many runs stay under the default folder, the new one included."""
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(\d+)")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _prune(base: Path, kept: int) -> None:
    """Remove the oldest runs; never anything else that lies there, nor a run whose supervisor is alive."""
    runs = sorted(path for path in base.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
    for path in runs[: max(0, len(runs) - kept)]:
        match = _NAME.fullmatch(path.name)
        if match and not _is_running(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)


def make_run_folder(given: Path | None, *, now: datetime, base: Path = Path("runs"), pid: int | None = None) -> Path:
    """The folder `given`, which must be empty or not there yet, else a fresh one ``BASE/UTC-PID``.

    Where `base` cannot be written to, the system's temporary folder serves. Raises `DemoError`.
    """
    if given is not None:
        try:
            given.mkdir(parents=True, exist_ok=True)
            if any(given.iterdir()):
                raise DemoError(f"expected an empty folder for the run, was {given} with something in it")
        except OSError as error:
            raise DemoError(f"expected a folder for the run, was {given}: {error.strerror}") from error
        return given.resolve()
    name = f"{now:%Y%m%dT%H%M%SZ}-{os.getpid() if pid is None else pid}"
    for parent in (base, Path(tempfile.gettempdir()) / "deltabook-runs"):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _prune(parent, KEPT_RUNS - 1)
            (parent / name).mkdir()
        except OSError:
            continue
        return (parent / name).resolve()
    raise DemoError(f"expected a folder to write to, was neither {base} nor {tempfile.gettempdir()}; name one: --dir")
