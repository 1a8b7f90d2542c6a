"""The secret that a cluster's processes have in common: read from a file, given on in files and environments alone.

A command line can be read by every user of a machine, so the secret is never in one. Spark's daemons take it from
their environment; a driver wants it among its settings, and gets them as a file that only its user can read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from deltabook.wire.trusted import misuse_of_trusted
from runtime.spark.errors import SparkLaneError

__all__ = ["SECRET_VARIABLE", "authentication", "read_secret", "write_private"]

SECRET_VARIABLE: Final = "_SPARK_AUTH_SECRET"
"""Where Spark's processes look for the secret before they look at their settings."""
_SHORTEST: Final = 16
_LONGEST: Final = 1024


def read_secret(path: Path) -> str:
    """The secret that a file holds; raises `SparkLaneError`, which says nothing of what is in the file."""
    try:
        misuse = misuse_of_trusted(path)
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise SparkLaneError(f"expected a secret in {path}, was {error.strerror}") from None
    if misuse:
        raise SparkLaneError(misuse)
    secret = data.strip().decode("ascii", "replace")
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise SparkLaneError(f"expected a secret as the only word of {path}, was something else")
    if not _SHORTEST <= len(secret) <= _LONGEST:
        raise SparkLaneError(f"expected a secret of {_SHORTEST} to {_LONGEST} characters in {path}, was {len(secret)}")
    return secret


def authentication() -> dict[str, str]:
    """Settings of a process that has the secret: who does not know it is refused, and what is said is encrypted."""
    return {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.authEngineVersion": "2",
    }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; one that is there is replaced."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
