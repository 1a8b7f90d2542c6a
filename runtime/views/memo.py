"""What was derived from parts of a program, by identity: to hash a map or a program takes longer than to look it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Memo"]

T = TypeVar("T")
R = TypeVar("R")


class Memo(Generic[T, R]):
    """A function of an object that never changes, computed once for each; it keeps the last objects alive."""

    def __init__(self, function: Callable[[T], R], most: int = 1024) -> None:
        """``most``: how many results are kept."""
        self._function, self._most = function, most
        self._held: dict[int, tuple[T, R]] = {}

    def __call__(self, thing: T) -> R:
        held = self._held.get(id(thing))
        if held is None:
            if len(self._held) >= self._most:
                self._held.clear()
            held = self._held[id(thing)] = thing, self._function(thing)
        return held[1]
