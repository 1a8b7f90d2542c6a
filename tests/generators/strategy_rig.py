"""Strategy in its host, with views that tests write by hand and a desk at an exchange in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from algo_engine.desk.desk import Desk
from algo_engine.desk.order import Order, OrderEvent, Side
from algo_engine.desk.risk import RiskLimits
from algo_engine.host import StrategyHost
from algo_engine.loader import load_strategies
from algo_engine.views.mirror import ViewMirror
from deltabook.wire.results import FrameHeader
from tests.generators.order_lab import OrderLab

__all__ = ["SECOND", "StrategyRig"]

SECOND = 1_700_000_000
"""Second of market time."""

_COLUMNS = {
    "best_quote": ("symbol", "bid_price", "bid_volume", "ask_price", "ask_volume"),
    "vwap_book": ("symbol", "side", "price_volume", "volume"),
    "book_depth": ("symbol", "side", "price", "volume", "orders"),
    "book_ages": ("symbol", "side", "price", "arrived", "orders"),
    "broker_levels": ("symbol", "broker_id", "side", "price", "volume"),
    "trade_moments": ("symbol", "trades", "price_sum", "square_sum"),
    "trades_1s": ("symbol", "second", "open", "high", "low", "close", "volume", "trades"),
}
Rows = list[tuple[Any, ...]]


class StrategyRig:
    """One strategy; parameters are ``field=value``."""

    def __init__(self, strategy: str, *parameters: str) -> None:
        self.lab = OrderLab(limits=RiskLimits())
        self.clock = self.lab.clock
        self.mirror = ViewMirror()
        self.host = StrategyHost(
            loaded=load_strategies([strategy], [f"{strategy}.{each}" for each in parameters])[0],
            mirror=self.mirror,
            quotes=self.lab.quotes,
            clock=self.clock,
            now_ns=lambda: int(self.clock.seconds() * 1e9),
            make_desk=self._desk,
        )
        self._rows: dict[str, Counter[tuple[Any, ...]]] = {}
        self._epoch = 0
        self.lab.settle()

    def _desk(self, listener: Callable[[OrderEvent], None]) -> Desk:
        def both(event: OrderEvent) -> None:
            self.lab.events.append(event)
            listener(event)

        self.lab.desk._listener = both
        return self.lab.desk

    def view(self, name: str, rows: Rows) -> None:
        """Set the rows of a view: a snapshot the first time, then the change."""
        before, after = self._rows.get(name), Counter(rows)
        self._rows[name] = after
        self._epoch += 1
        header = FrameHeader("changes", name, self._epoch - 1, self._epoch)
        if before is None:
            header, before = msgspec.structs.replace(header, kind="snapshot"), Counter()
        changed = [(row, -number) for row, number in (before - after).items()]
        changed += [(row, number) for row, number in (after - before).items()]
        change = self.mirror.enter(header, _COLUMNS[name], [row for row, _ in changed], [n for _, n in changed])
        assert change is not None
        if name == "best_quote":
            self.lab.quotes.apply(change)
        self.host.change(change)

    def quote(self, bid: int | None = 99, ask: int | None = 101, lots: int = 100, symbol: str = "ACME") -> None:
        """Set the best prices."""
        self.view("best_quote", [(symbol, bid, lots if bid else None, ask, lots if ask else None)])

    def book(self, bids: tuple[int, int], asks: tuple[int, int], symbol: str = "ACME") -> None:
        """Set volume-weighted price and volume of both whole sides."""
        sides = (("B", bids), ("S", asks))
        self.view("vwap_book", [(symbol, side, price * lots, lots) for side, (price, lots) in sides if lots])

    def last(self, price: int, second: int = SECOND, symbol: str = "ACME") -> None:
        """Set the bar of a second, as the only known trades."""
        self.view("trades_1s", [(symbol, second, price, price, price, price, 1, 1)])

    def trades(self, *prices: int, symbol: str = "ACME") -> None:
        """Set the prices of the known trades."""
        moments = len(prices), sum(prices), sum(price * price for price in prices)
        self.view("trade_moments", [(symbol, *moments)] if prices else [])

    def start(self) -> None:
        """Start the strategy: all views and orders are known."""
        self.host.start()

    def later(self, seconds: float) -> None:
        """Advance the time; sent requests arrive."""
        self.clock.advance(seconds)
        self.lab.settle()

    def orders(self) -> list[tuple[str, int, int]]:
        """Return side, lots and price of the orders resting at the exchange, after everything has arrived."""
        self.lab.settle()
        assert not self.host.failure, self.host.failure
        return [(str(order.side), order.left, order.price) for order in self.lab.exchange.resting.values()]

    def open(self, side: Side) -> Order:
        """Return the first open order of a side."""
        return next(order for order in self.host.open_orders() if order.side is side)

    def fill(self, side: Side, lots: int | None = None) -> None:
        """Execute the first resting order of a side."""
        self.lab.settle()
        order = next(each for each in self.lab.exchange.resting.values() if each.side == side.value)
        self.lab.exchange.fill(order.order_id, lots or order.left, order.price)
        self.lab.told()
        self.lab.settle()
