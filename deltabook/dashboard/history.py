"""Prices of the last minutes and our own fills on them, for charts: everything is encoded once, when it is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["MOST_MARKS", "MOST_POINTS", "MOST_SYMBOLS", "History", "Mark", "Point"]

MOST_POINTS: Final = 600
"""Of one symbol: ten minutes of a point a second."""
MOST_MARKS: Final = 600
"""Of one symbol."""
MOST_SYMBOLS: Final = 200
"""With a history; those seen first."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """The prices at a moment, for drawing; None where there is none."""

    time_s: float
    """Seconds since the UTC epoch, of the dashboard's clock."""
    mid: float | None
    vwap: float | None
    """Of recent trades."""
    vwap_bid: float | None
    """Of all bids."""
    vwap_ask: float | None


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """Own fills at one price within a second."""

    time_s: float
    price: float
    side: str
    """B or S."""
    words: str
    """Whose, how much, at what price exactly."""


class _Charted:
    """One symbol. What is new has the number of the frame that is the first to carry it."""

    def __init__(self) -> None:
        self.points: deque[tuple[int, bytes]] = deque(maxlen=MOST_POINTS)
        self.marks: deque[tuple[int, bytes]] = deque(maxlen=MOST_MARKS)


class History:
    """All symbols."""

    def __init__(self) -> None:
        self.begun = 0
        """Number of the first frame without what was forgotten: a page with an older one begins anew."""
        self._symbols: dict[str, _Charted] = {}
        self._encoder = msgspec.json.Encoder()

    def add(self, symbol: str, number: int, point: Point) -> None:
        """Enter the newest point of a symbol; beyond `MOST_SYMBOLS` it is dropped."""
        charted = self._charted(symbol)
        if charted is not None:
            charted.points.append((number, self._encoder.encode(point)))

    def mark(self, symbol: str, number: int, marks: Iterable[Mark]) -> None:
        """Enter the newest marks of a symbol, oldest first; the same holds."""
        charted = self._charted(symbol)
        if charted is not None:
            charted.marks.extend((number, self._encoder.encode(mark)) for mark in marks)

    def after(self, symbol: str, number: int) -> list[bytes]:
        """``points`` and ``marks`` of later frames as JSON, oldest first, where there are any; O(what is given)."""
        charted = self._symbols.get(symbol)
        if charted is None:
            return []
        lists = {b"points": charted.points, b"marks": charted.marks}
        found = [(name, _later(held, number)) for name, held in lists.items()]
        return [b'"%b":[%b]' % (name, b",".join(news)) for name, news in found if news]

    def forget(self, number: int) -> None:
        """Begin anew with a frame: what a price is worth has changed."""
        self.begun = number
        self._symbols.clear()

    def _charted(self, symbol: str) -> _Charted | None:
        found = self._symbols.get(symbol)
        if found is None and len(self._symbols) < MOST_SYMBOLS:
            found = self._symbols[symbol] = _Charted()
        return found


def _later(held: Iterable[tuple[int, bytes]], number: int) -> list[bytes]:
    found: list[bytes] = []
    for at, data in reversed(tuple(held)):
        if at <= number:
            break
        found.append(data)
    found.reverse()
    return found
