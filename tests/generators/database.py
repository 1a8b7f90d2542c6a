"""Objects that are made once for all tests and released before Python ends, since DuckDB's binding complains about
leaks.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import TypeVar

__all__ = ["kept"]

T = TypeVar("T")


def kept(make: Callable[[], T]) -> Callable[[], T]:
    """Return a function that makes an object once and releases it when Python ends."""
    once = cache(make)
    atexit.register(once.cache_clear)
    return once
