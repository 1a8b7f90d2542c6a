"""Changes of views that follow from the market's feed, and quotes for the figures of a simulation.

`Publication` steps the views and passes their changes to all participants.
"""

from __future__ import annotations

from typing import Any, Protocol

from algo_engine.views.quotes import QUOTE_VIEW, Quote, Quotes
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.deltas import Delta, DeltaEncoder
from deltabook.backtest.views import BacktestViews
from exchange_server.matching import Market, Silence
from exchange_server.matching.levels import Levels
from exchange_server.matching.order import Order

__all__ = ["BookQuotes", "FeedCounter", "Publication", "PublishedQuotes", "Subscriber"]


class Subscriber(Protocol):
    """Receiver of the changes of views."""

    def view_changed(self, step: int, view: str, rows: list[tuple[Any, ...]], weights: list[int]) -> None:
        """Take a change of a view; ``step`` rises by one with each step of the views."""
        ...


class Publication:
    """Updates the views for all subscribers, with each batch of requests or on a grid of market time.

    The views follow the market without latency; a subscriber receives their changes after the latency of its own feed.
    """

    def __init__(self, views: BacktestViews, encoder: DeltaEncoder, clock: SimulatedClock, step_ns: int) -> None:
        self.views, self.encoder = views, encoder
        self.subscribers: list[Subscriber] = []
        self.step = 0
        """Number of steps so far."""
        self._clock, self._step_ns = clock, step_ns
        self._pending: list[Delta] = []

    @property
    def unseen(self) -> list[Delta]:
        """Deltas that the views have not taken yet."""
        return [*self._pending, *self.encoder.deltas]

    def publish(self) -> None:
        """Step the views with the feed since the last call: now, or at the next point of the grid if there is one."""
        deltas = self.encoder.deltas
        if not deltas:
            return
        self.encoder.end_epoch()
        given = deltas[:]
        deltas.clear()
        if not self._step_ns:
            self._take(given)
            return
        if not self._pending:
            now_ns = self._clock.now_ns
            self._clock.call_at(now_ns - now_ns % self._step_ns + self._step_ns, self._step_grid)
        self._pending += given

    def _step_grid(self) -> None:
        deltas, self._pending = self._pending, []
        self._take(deltas)

    def _take(self, deltas: list[Delta]) -> None:
        changes = self.views.step(deltas)
        if changes:
            self.step += 1
            for view, rows, weights in changes:
                for subscriber in self.subscribers:
                    subscriber.view_changed(self.step, view, rows, weights)


class FeedCounter(Silence):
    """Counts feed messages and trades as `DeltaEncoder` does, for a simulation without views."""

    __slots__ = ("messages", "trades")

    def __init__(self) -> None:
        self.messages = 0
        """Number of lines that the text feed would have."""
        self.trades = 0
        """Number of trades so far."""

    def added(self, order: Order) -> None:
        self.messages += 1

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1
        self.trades += 1

    def reduced(self, order: Order, volume: int) -> None:
        self.messages += 1

    def deleted(self, order: Order, volume: int) -> None:
        self.messages += 1

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1

    def replaced(self, old: Order, order: Order) -> None:
        self.messages += 2

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        self.messages += 1
        self.trades += 1

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1
        self.trades += 1

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        self.messages += 1
        self.trades += 1


class BookQuotes(Quotes):
    """Quotes of every symbol from the books, for a simulation without views."""

    def __init__(self, market: Market) -> None:
        super().__init__()
        self._books = market.books

    def get(self, symbol: str) -> Quote | None:
        """Return the current best prices; None for an empty book."""
        book = self._books[symbol]
        bid, ask = book.bids.best(), book.asks.best()
        if bid is None and ask is None:
            return None
        return Quote(symbol, bid, _lots(book.bids, bid), ask, _lots(book.asks, ask), 1)


def _lots(levels: Levels, price: int | None) -> int:
    return 0 if price is None else sum([order.volume for order in levels.queues[price].values()])


class PublishedQuotes(Quotes):
    """Quotes of every symbol from `Publication`, before any latency: for samples and figures.

    A symbol whose row was removed keeps its last prices, without sizes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, tuple[Any, ...]] = {}

    def view_changed(self, step: int, view: str, rows: list[tuple[Any, ...]], weights: list[int]) -> None:
        """See `Subscriber.view_changed`."""
        if view != QUOTE_VIEW:
            return
        known = self._rows
        for row, weight in zip(rows, weights, strict=True):
            if weight > 0:
                known[row[0]] = row
            elif known.get(row[0]) == row:
                symbol, bid, _, ask, _ = row
                known[symbol] = symbol, bid, None, ask, None

    def get(self, symbol: str) -> Quote | None:
        """Return the last best prices of a symbol."""
        row = self._rows.get(symbol)
        if row is None:
            return None
        _, bid, bid_lots, ask, ask_lots = row
        return Quote(symbol, bid, bid_lots or 0, ask, ask_lots or 0, 1)
