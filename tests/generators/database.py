"""What is made once for all tests and let go before Python ends, as DuckDB's binding complains of what is left."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import TypeVar

__all__ = ["kept"]

T = TypeVar("T")


def kept(make: Callable[[], T]) -> Callable[[], T]:
    """What a function makes, made once and let go when Python ends."""
    once = cache(make)
    atexit.register(once.cache_clear)
    return once
