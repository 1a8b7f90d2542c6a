"""Files that are believed when they are read: nobody but their owner may write them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

__all__ = ["misuse_of_trusted"]

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def misuse_of_trusted(path: Path) -> str:
    """Return what a file with secrets should be and what it is, if others than its owner may write it; else nothing.

    A user who can write such a file can grant themselves access. The owner's private group, which has the number of
    this user, counts as the owner. Owners are not compared: in a container a mounted file keeps the number that its
    owner has outside.
    Raises `OSError` for a file that is not there.
    """
    status = path.stat()
    mode = status.st_mode
    is_private = status.st_gid == os.getegid() == os.geteuid()
    if not mode & (stat.S_IWOTH if is_private else _OTHERS_WRITE):
        return ""
    return f"expected {path} to be writable by its owner alone (chmod go-w), was mode {stat.S_IMODE(mode):04o}"
