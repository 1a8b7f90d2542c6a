"""Events of a run, in order, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Trace"]


class Trace:
    """Lines of events; formatted only if they are read, as a run has thousands."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write
        self.step = 0
        """Number of the world's step."""
        self.now_s: Callable[[], float] = float

    @property
    def is_read(self) -> bool:
        """True if lines are written."""
        return self._write is not None

    def say(self, text: str, *values: Any) -> None:
        """Write one line, `str.format` of the text."""
        if self._write is not None:
            self._write(f"{self.step:5} {self.now_s():9.3f}s  {text.format(*values)}")
