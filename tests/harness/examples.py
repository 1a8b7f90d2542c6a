"""Number of Hypothesis's examples: a quarter in `make test`, all of them in `make test-all`."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["EXAMPLES", "examples"]

_ALL: Final = os.environ.get("DELTABOOK_EXAMPLES") == "all"
EXAMPLES: Final = 100 if _ALL else 25
"""Number of examples of a test that states none."""


def examples(number: int) -> int:
    """Return the number of examples for a test that runs ``number`` of them in `make test-all`."""
    return number if _ALL else max(number // 4, min(number, 3))
