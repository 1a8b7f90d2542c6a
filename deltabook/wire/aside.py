"""Files that are damaged and not removed: they get another name beside their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

__all__ = ["aside_name", "set_aside"]


def aside_name(path: Path, exists: Callable[[Path], bool] = Path.exists) -> Path:
    """The first free name among ``NAME.damaged-1``, ``NAME.damaged-2`` and so on; ``exists`` says which are not."""
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    return next(name for name in names if not exists(name))


def set_aside(path: Path) -> Path:
    """Rename a file or directory to its `aside_name`, durably; returns the new name. Raises `OSError`."""
    aside = aside_name(path)
    path.rename(aside)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return aside
