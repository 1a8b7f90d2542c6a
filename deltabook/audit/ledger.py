"""Plain sums of an exchange's messages to one broker and of a list of trades: orders, positions, money and profit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from deltabook.wire.text import Response

__all__ = ["Account", "Ledger", "Standing", "recompute"]


class Standing(msgspec.Struct):
    """An order that may still trade."""

    client_id: int
    """Number of the request that created the order; replacements do not change it."""
    side: str
    """Side, B or S."""
    symbol: str
    """Instrument."""
    open_lots: int
    """Lots that may still trade."""
    price_ticks: int
    """Limit price in ticks."""


class Ledger:
    """Orders, fills and positions of one broker, from the messages of its private stream alone."""

    def __init__(self) -> None:
        self.sequence = 0
        """Number of the last message."""
        self.live: dict[int, Standing] = {}
        """Live orders, by the exchange's number."""
        self.accepted: set[int] = set()
        """Numbers of the requests that became orders."""
        self.fills = 0
        self.filled_orders = 0
        self.rejected = 0
        self.positions: dict[str, int] = {}
        """Position in lots, by symbol."""
        self.void_trades = 0
        self._void_matches: set[tuple[str, int]] = set()
        self._executed: dict[tuple[int, int, int], list[Standing]] = {}
        """Orders as they were before each execution that is not void, by order number, lots and price."""
        self.problems: list[str] = []
        """Contradictions within the exchange's own messages."""

    def take(self, message: Response) -> Standing | None:
        """Enter the next message; return the order that it executes or changes, as the order was before the message.

        For a void trade, return the order as it was before its execution, or None if the trade was void already.
        """
        m = message
        if m.sequence != self.sequence + 1:
            self._wrong(m, f"message {self.sequence + 1}", f"{m.sequence}")
        self.sequence = m.sequence
        if m.action == "A":
            if m.client_id in self.accepted:
                self._wrong(m, f"request {m.client_id} to become an order once", "another time")
            self.accepted.add(m.client_id)
            self.live[m.order_id] = Standing(m.client_id, m.detail, m.symbol, m.volume, m.price)
            return None
        if m.action == "U":
            return self._replaced(m)
        if m.action == "B":
            return self._voided(m)
        if m.action not in ("E", "F", "X", "D"):
            return None
        order = self.live.get(m.order_id)
        if order is None:
            self._wrong(m, "an order that is live", f"order {m.order_id}")
            return None
        before = msgspec.structs.replace(order)
        order.open_lots -= m.volume
        if order.open_lots < 0 or (order.open_lots == 0) != (m.action in ("F", "D")):
            self._wrong(m, f"an order of {before.open_lots} open lots to have some or none left", f"{order.open_lots}")
        if m.action in ("E", "F"):
            self.fills += 1
            self.filled_orders += m.action == "F"
            lots = m.volume if order.side == "B" else -m.volume
            self.positions[m.symbol] = self.positions.get(m.symbol, 0) + lots
            self._executed.setdefault((m.order_id, m.volume, m.price), []).append(before)
        if m.action in ("F", "D"):
            del self.live[m.order_id]
        return before

    def _replaced(self, m: Response) -> Standing | None:
        order = self.live.pop(int(m.detail), None) if m.detail.isdigit() else None
        if order is None:
            self._wrong(m, "an order that is live to be replaced", f"order {m.detail}")
            return None
        before = msgspec.structs.replace(order)
        order.open_lots, order.price_ticks = m.volume, m.price
        self.live[m.order_id] = order
        return before

    def _voided(self, m: Response) -> Standing | None:
        if (m.detail, m.order_id) in self._void_matches:
            return None
        executed = self._executed.get((m.order_id, m.volume, m.price))
        if not executed:
            self._wrong(m, "an execution that is void", f"{m.volume} lots of order {m.order_id} at {m.price}")
            return None
        order = executed.pop()
        self._void_matches.add((m.detail, m.order_id))
        self.void_trades += 1
        self.positions[m.symbol] -= m.volume if order.side == "B" else -m.volume
        return order

    def _wrong(self, message: Response, expected: str, was: str) -> None:
        self.problems.append(f"message {message.sequence} of the exchange: expected {expected}, was {was}")


class TradeRow(Protocol):
    """Fields that `recompute` needs of a trade; money is ticks × lots."""

    @property
    def symbol(self) -> str:
        """Instrument."""
        ...

    @property
    def side(self) -> str:
        """Side, B or S."""
        ...

    @property
    def volume_lots(self) -> int:
        """Executed lots."""
        ...

    @property
    def price_ticks(self) -> int:
        """Price in ticks."""
        ...

    @property
    def fee(self) -> int:
        """Fee paid for the trade."""
        ...


class Account(msgspec.Struct):
    """Result of all trades of a symbol."""

    position_lots: int = 0
    """Lots bought less lots sold."""
    cash: int = 0
    """Money received less money paid, before fees."""
    cost: int = 0
    """Average cost of the open position, with its sign."""
    realised: int = 0
    """Profit of closed positions, at average cost; the remainder of a division stays in the cost."""
    fees: int = 0
    """Fees paid."""
    trades: int = 0
    """Number of trades."""

    def worth(self, mark_ticks: int) -> int:
        """Return the profit after fees if a lot of the open position is worth ``mark_ticks``; it does not depend on how
        profit is split between closed and open positions.
        """
        return self.cash + self.position_lots * mark_ticks - self.fees


def recompute(trades: Iterable[TradeRow]) -> dict[str, Account]:
    """Return the account of each symbol, from trades in the order in which they were made.

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
