"""Every part of a directory in turn."""

from __future__ import annotations

from pathlib import Path

from deltabook.backup.parts import find_parts
from deltabook.repair._algo import repair_algo
from deltabook.repair._exchange import repair_exchange
from deltabook.repair._runtime import repair_runtime
from deltabook.repair.findings import PartFindings

__all__ = ["repair"]

_REPAIRS = {"algo": repair_algo, "exchange": repair_exchange, "runtime": repair_runtime}


def repair(directory: Path, *, is_dry: bool = False) -> list[PartFindings]:
    """Check a run directory, or those right below a directory, and make again what follows from something else.

    ``is_dry``: change nothing, and say what would be done. The processes must have ended; raises the error of the part
    whose process runs, and `deltabook.backup.BackupError` where there is no run directory.
    """
    return [
        PartFindings(part.kind, str(part.directory), tuple(_REPAIRS[part.kind](part.directory, is_dry)))
        for part in find_parts(directory)
    ]
