"""Cached results of a pure function, shared by the seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["Memo"]

T = TypeVar("T")
_MOST = 2_000


class Memo(Generic[T]):
    """Function whose results are cached by argument, up to a limit."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        self._kept: dict[bytes, T] = {}

    def __call__(self, *arguments: Any, **options: Any) -> T:
        key = msgspec.msgpack.encode((arguments, options))
        if key not in self._kept:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[key] = self._function(*arguments, **options)
        return self._kept[key]
