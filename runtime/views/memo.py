"""What was derived from parts of a program, by identity: to hash a map or a program takes longer than to look it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Memo"]

T = TypeVar("T")
R = TypeVar("R")

_MOST: Final = 1024


class Memo(Generic[T, R]):
    """A function of an object that never changes, computed once for each; it keeps the last objects alive."""

    def __init__(self, function: Callable[[T], R]) -> None:
        self._function = function
        self._held: dict[int, tuple[T, R]] = {}

    def __call__(self, thing: T) -> R:
        held = self._held.get(id(thing))
        if held is None:
            if len(self._held) >= _MOST:
                self._held.clear()
            held = self._held[id(thing)] = thing, self._function(thing)
        return held[1]
