"""Base of the strategies that lean against the shape of the book: its distances from the last price."""

from __future__ import annotations

import abc
from typing import TypeVar

from algo_engine.contents import ViewChange
from algo_engine.order import Side
from algo_engine.strategies._distances import (
    LAST_VIEW,
    NEAR_VIEW,
    WHOLE_VIEW,
    BookSums,
    Distances,
    LastPrices,
    NearBooks,
    whole_sums,
)
from algo_engine.strategies._sizing import AtLeastZero
from algo_engine.strategies._taking import Taker, TakerParameters
from algo_engine.strategy import Context

__all__ = ["ShapeParameters", "ShapeTaker"]


class ShapeParameters(TakerParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters of every strategy that leans against the shape of the book."""

    depth_bps: AtLeastZero = 0
    """Orders farther from the last price than so many hundredths of a percent are left out; 0 counts all."""


S = TypeVar("S", bound=ShapeParameters)


class ShapeTaker(Taker[S], abc.ABC):
    """Takes when `leaning` finds that the buyers or the sellers mean it more."""

    def __init__(self, parameters: S) -> None:
        super().__init__(parameters)
        self._near = NearBooks(parameters.depth_bps) if parameters.depth_bps else None
        self._last = LastPrices()
        self._book_view = WHOLE_VIEW if self._near is None else NEAR_VIEW
        self.views = (self._book_view, LAST_VIEW)

    @abc.abstractmethod
    def leaning(self, symbol: str, distances: Distances) -> Side | None:
        """The side that means it more, if one does."""

    def on_start(self, context: Context) -> None:
        """Learn the last prices and the levels."""
        self._last.learn(context.view(LAST_VIEW).rows())
        if self._near is not None:
            self._near.learn(context.view(NEAR_VIEW).rows())

    def on_view_change(self, change: ViewChange) -> None:
        """Look again at every symbol whose book or last price changed."""
        if change.view == LAST_VIEW:
            self._last.learn(change.added)
        elif change.view == self._book_view and self._near is not None:
            self._near.apply(change)
        self.look(sorted({str(row["symbol"]) for row in (*change.added, *change.removed)}))

    def side_of(self, symbol: str) -> Side | None:
        """As the book leans; nothing before the first trade and while a side is empty."""
        last_ticks = self._last.get(symbol)
        sums = None if last_ticks is None else self._sums(symbol, last_ticks)
        distances = None if last_ticks is None or sums is None else sums.distances(last_ticks)
        return None if distances is None else self.leaning(symbol, distances)

    def _sums(self, symbol: str, last_ticks: int) -> BookSums | None:
        if self._near is not None:
            return self._near.sums(symbol, last_ticks)
        return whole_sums(self.context.view(WHOLE_VIEW), symbol)
