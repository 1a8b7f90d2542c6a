"""Prices of the last minutes, for charts: a point a second and symbol, each encoded once."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

__all__ = ["MOST_POINTS", "MOST_SYMBOLS", "History", "Point"]

MOST_POINTS: Final = 600
"""Of one symbol: ten minutes."""
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


class History:
    """Points by symbol, each with the number of the frame that is the first to carry it."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, bytes]]] = {}
        self._encoder = msgspec.json.Encoder()

    def add(self, symbol: str, number: int, point: Point) -> None:
        """Enter the newest point of a symbol; beyond `MOST_SYMBOLS` it is dropped."""
        points = self._points.get(symbol)
        if points is None:
            if len(self._points) >= MOST_SYMBOLS:
                return
            points = self._points[symbol] = deque(maxlen=MOST_POINTS)
        points.append((number, self._encoder.encode(point)))

    def after(self, symbol: str, number: int) -> bytes:
        """The points of later frames as a JSON list, oldest first; O(points that are given)."""
        found: list[bytes] = []
        for at, data in reversed(self._points.get(symbol, ())):
            if at <= number:
                break
            found.append(data)
        found.reverse()
        return b"[" + b",".join(found) + b"]"

    def forget(self) -> None:
        """Begin anew: what a price is worth has changed."""
        self._points.clear()
