"""How often a part of the demo that dies is started again."""

from __future__ import annotations

from typing import Final

__all__ = ["RestartLimit"]

_MOST_EARLY_DEATHS: Final = 3
_SETTLED_S: Final = 20.0


class RestartLimit:
    """Counts the early deaths of one part in a row.

    A part that has lived for a while is started again whenever it dies. One that dies soon after each start will not
    get better: it is given up.

    >>> limit = RestartLimit()
    >>> [limit.may_restart(lived_s) for lived_s in (1.0, 1.0, 60.0, 1.0, 1.0, 1.0, 1.0)]
    [True, True, True, True, True, True, False]
    """

    def __init__(self, most: int = _MOST_EARLY_DEATHS, settled_s: float = _SETTLED_S) -> None:
        """``most`` early deaths in a row are answered by a restart; one after ``settled_s`` seconds is not early."""
        self._most, self._settled_s = most, settled_s
        self._early = 0

    def may_restart(self, lived_s: float) -> bool:
        """Take in that the part has died at this age; return whether it is started again."""
        self._early = self._early + 1 if lived_s < self._settled_s else 0
        return self._early <= self._most
