"""Trades that the exchange declares void: the search for the own trade, and the holding without it.

```
private stream ──B: order, lots, price──▶ TradeHistory.find ──trade──▶ TradeHistory.holding(without=trade) ──▶ record
list of trades ──rows before it──▶ TradeHistory
```

A void trade is removed completely: the holding is computed again from all other trades of the symbol, so that position,
cost, realised profit and fees are those of a strategy that never made the trade. The result is part of the record in
the journal. In the list of trades, a row with negative lots and the fee with the opposite sign reverses the trade, so
that sums over the list are right.

In the private stream an execution does not have the number of its match. If an order was executed more than once with
the same lots at the same price, the newest of these trades is chosen. The choice changes neither the position nor the
money that was paid; it may change how the profit is split between closed and open lots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from algo_engine.desk.order import Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.trades import Trade

__all__ = ["NEWEST_TRADES", "TradeHistory"]

NEWEST_TRADES: Final = 60_000
"""Age of a trade, in later executions of accounts' orders, above which the exchange does not report to its owners that
it is void.
"""


class TradeHistory:
    """Latest trades of a strategy that are not void, and the holding of each symbol before the oldest of them.

    >>> bought = Trade(0, 1, "sobi", 9001, "ACME", "B", 10, 100, 1, 1, "maker", 0)
    >>> sold = Trade(0, 2, "sobi", 9001, "ACME", "S", 10, 110, 2, 2, "maker", 0)
    >>> history = TradeHistory([bought, sold])
    >>> history.holding("ACME").realised, history.holding("ACME", without=sold).position_lots
    (100, 10)
    """

    def __init__(self, rows: Iterable[Trade], most: int = NEWEST_TRADES) -> None:
        """Create a history from the ``rows`` of the list of trades, from the first one on."""
        self._most = most
        self._before: dict[str, Holding] = {}
        self._trades: deque[Trade] = deque()
        for row in rows:
            self.add(row)

    def add(self, row: Trade) -> None:
        """Add the next row of the list of trades."""
        if row.volume_lots < 0:
            trade = self.find(row.order_id, -row.volume_lots, row.price_ticks)
            if trade is not None:
                self._trades.remove(trade)
            return
        self._trades.append(row)
        if len(self._trades) > self._most:
            oldest = self._trades.popleft()
            self._before[oldest.symbol] = _after(self._before.get(oldest.symbol, Holding()), oldest)

    def find(self, order_id: int, volume_lots: int, price_ticks: int) -> Trade | None:
        """Return the latest trade of an order of the exchange, with these lots at this price. O(trades)."""
        wanted = (order_id, volume_lots, price_ticks)
        trades = reversed(self._trades)
        return next((each for each in trades if (each.order_id, each.volume_lots, each.price_ticks) == wanted), None)

    def holding(self, symbol: str, without: Trade | None = None) -> Holding:
        """Return the holding of a symbol after all trades but one. O(trades)."""
        holding = self._before.get(symbol, Holding())
        for trade in self._trades:
            if trade.symbol == symbol and trade is not without:
                holding = _after(holding, trade)
        return holding


def _after(holding: Holding, trade: Trade) -> Holding:
    return holding.after(Side(trade.side), trade.volume_lots, trade.price_ticks, trade.fee)
