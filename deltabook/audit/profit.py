"""Position, money and profit from a list of trades alone, once more and plainly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

__all__ = ["Account", "TradeRow", "recompute"]


class TradeRow(Protocol):
    """What is needed of a trade; money is ticks × lots."""

    @property
    def symbol(self) -> str:
        """Instrument."""
        ...

    @property
    def side(self) -> str:
        """B or S."""
        ...

    @property
    def volume_lots(self) -> int:
        """Executed."""
        ...

    @property
    def price_ticks(self) -> int:
        """Its price."""
        ...

    @property
    def fee(self) -> int:
        """Paid for it."""
        ...


class Account(msgspec.Struct):
    """What came of all trades of a symbol."""

    position_lots: int = 0
    """Bought and not sold; negative: sold and not bought."""
    cash: int = 0
    """Received less paid, before fees."""
    cost: int = 0
    """Average cost of the open position, with its sign."""
    realised: int = 0
    """Profit of closed parts, at average cost; the remainder of a division stays in the cost."""
    fees: int = 0
    """Paid."""
    trades: int = 0
    """How many."""

    def worth(self, mark_ticks: int) -> int:
        """What is left after fees if the open position is worth so much a lot: of no method of splitting profit."""
        return self.cash + self.position_lots * mark_ticks - self.fees


def recompute(trades: Iterable[TradeRow]) -> dict[str, Account]:
    """By symbol, from trades in the order in which they were made.

    >>> from types import SimpleNamespace as Row
    >>> buy = Row(symbol="ACME", side="B", volume_lots=3, price_ticks=100, fee=1)
    >>> sell = Row(symbol="ACME", side="S", volume_lots=2, price_ticks=110, fee=1)
    >>> account = recompute([buy, sell])["ACME"]
    >>> account.position_lots, account.realised, account.cost, account.worth(120)
    (1, 20, 100, 38)
    """
    accounts: dict[str, Account] = {}
    for trade in trades:
        account = accounts.setdefault(trade.symbol, Account())
        lots = trade.volume_lots if trade.side == "B" else -trade.volume_lots
        account.trades += 1
        account.fees += trade.fee
        account.cash -= lots * trade.price_ticks
        position = account.position_lots
        if position == 0 or (position > 0) == (lots > 0):
            account.cost += lots * trade.price_ticks
        else:
            closed = min(abs(position), abs(lots))
            part = abs(account.cost) * closed // abs(position)
            if position > 0:
                account.realised += closed * trade.price_ticks - part
                account.cost -= part
            else:
                account.realised += part - closed * trade.price_ticks
                account.cost += part
            left = abs(lots) - closed
            account.cost += (left if lots > 0 else -left) * trade.price_ticks
        account.position_lots = position + lots
    return accounts
