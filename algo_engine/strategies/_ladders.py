"""Rows of a view by price level, in the order of prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sortedcontainers import SortedDict

from algo_engine.desk.order import Side
from algo_engine.views.contents import Row, ViewChange

__all__ = ["Ladders"]

Key = tuple[Any, ...]
Cells = tuple[int, ...]


class Ladders:
    """One ladder of prices for each key, updated by the changes of a view with one row for each key and price.

    >>> ladders = Ladders(("symbol", "side"), ("volume",))
    >>> ladders.add([{"symbol": "ACME", "side": "B", "price": price, "volume": 5} for price in (98, 99, 97)])
    >>> list(ladders.best(("ACME", "B"), Side.BUY))
    [(99, (5,)), (98, (5,)), (97, (5,))]
    """

    def __init__(self, key: tuple[str, ...], cells: tuple[str, ...]) -> None:
        self._key, self._cells = key, cells
        self._ladders: dict[Key, Any] = {}  # key → SortedDict of price → cells

    def apply(self, change: ViewChange) -> None:
        """Apply a change of the view."""
        if change.is_snapshot:
            self._ladders.clear()
        for row in change.removed:
            key = tuple(row[name] for name in self._key)
            ladder = self._ladders.get(key)
            if ladder is not None:
                ladder.pop(row["price"], None)
                if not ladder:
                    del self._ladders[key]
        self.add(change.added)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows; a row replaces the row with its key and price."""
        for row in rows:
            key = tuple(row[name] for name in self._key)
            ladder = self._ladders.get(key)
            if ladder is None:
                ladder = self._ladders[key] = SortedDict()
            ladder[row["price"]] = tuple(int(row[name]) for name in self._cells)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of all non-empty ladders, in the order of their appearance."""
        return iter(self._ladders)

    def best(self, key: Key, side: Side, worst_ticks: int | None = None) -> Iterator[tuple[int, Cells]]:
        """Yield the levels of this side from the best price to the worst, or to ``worst_ticks``."""
        ladder = self._ladders.get(key)
        if ladder is None:
            return
        bounds = (worst_ticks, None) if side is Side.BUY else (None, worst_ticks)
        for price_ticks in ladder.irange(*bounds, reverse=side is Side.BUY):
            yield price_ticks, ladder[price_ticks]
