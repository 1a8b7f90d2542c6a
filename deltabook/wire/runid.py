"""The run id: one name for all processes that were started together."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import Final

from deltabook.wire.errors import RunIdError

__all__ = ["check_run_id", "new_run_id"]

_FORM: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def new_run_id(now: datetime, suffix: str = "") -> str:
    """A run id of its own: when it began, and four digits that tell apart what began in the same second.

    >>> new_run_id(datetime(2026, 11, 21, 9, 30), "07ff")
    '20261121-093000-07ff'
    """
    return f"{now:%Y%m%d-%H%M%S}-{suffix or secrets.token_hex(2)}"


def check_run_id(run_id: str) -> str:
    """The same; raises `RunIdError` for what could break a log line, a label or a path."""
    if not _FORM.fullmatch(run_id):
        raise RunIdError(
            f"expected a run id of 1 to 64 letters, digits, dots, dashes and underscores, was {run_id[:80]!r}"
        )
    return run_id
