"""Position, money and profit of one strategy, in exact integers (ticks × lots).

Profit is split by average cost. The cost of a closed part is ``cost × closed // held``. The remainder of the division
(less than one tick × lot per fill) stays in the cost of the open position, so that nothing is lost. At any moment,
realised + unrealised = money received - money paid + value of the position, exactly. A flat position has no remainder.
Fees are counted separately. FIFO would be exact per fill too, but would need a list of open lots, which grows with the
position; average cost needs four integers per symbol.
"""

from __future__ import annotations

import msgspec

from algo_engine.desk.order import Side

__all__ = ["Holding", "Portfolio", "ProfitAndLoss"]


class Holding(msgspec.Struct, frozen=True, gc=False):
    """Position in one symbol, with its cost and profit."""

    position_lots: int = 0
    """Number of lots: positive for a long position, negative for a short one."""
    cost: int = 0
    """Cost of the open position in ticks × lots; negative for a short position (money received)."""
    realised: int = 0
    """Profit of all closed parts in ticks × lots, before fees."""
    fees: int = 0
    """Fees paid so far in ticks × lots; negative if rebates exceed fees."""

    def after(self, side: Side, volume_lots: int, price_ticks: int, fee: int = 0) -> Holding:
        """Return the holding after one execution.

        >>> Holding().after(Side.BUY, 3, 100).after(Side.SELL, 2, 110)
        Holding(position_lots=1, cost=100, realised=20, fees=0)
        """
        fees = self.fees + fee
        position, signed = self.position_lots, side.sign * volume_lots
        if position * signed >= 0:
            return Holding(position + signed, self.cost + signed * price_ticks, self.realised, fees)
        closed = min(abs(position), volume_lots)
        released = abs(self.cost) * closed // abs(position)
        # A long position has positive cost, a short one negative (prices are positive).
        released = released if self.cost >= 0 else -released
        proceeds = -side.sign * closed * price_ticks
        opened = side.sign * (volume_lots - closed)
        rest = self.cost - released
        return Holding(position + signed, rest + opened * price_ticks, self.realised + proceeds - released, fees)


class ProfitAndLoss(msgspec.Struct, frozen=True, gc=False):
    """Profit in ticks × lots."""

    realised: int
    """Profit of closed parts, before fees."""
    unrealised: int
    """Profit of the open position at its mark; 0 where there is no mark."""

    fees: int = 0
    """Fees paid so far."""

    @property
    def total(self) -> int:
        """Profit after fees."""
        return self.realised + self.unrealised - self.fees


class Portfolio:
    """Holdings of all symbols."""

    def __init__(self, holdings: dict[str, Holding] | None = None) -> None:
        self._holdings = dict(holdings or {})

    @property
    def holdings(self) -> dict[str, Holding]:
        """Copy of the holdings, by symbol."""
        return dict(self._holdings)

    def holding(self, symbol: str) -> Holding:
        """Return the holding of a symbol; an empty one where there is none."""
        return self._holdings.get(symbol) or Holding()

    def fill(self, symbol: str, side: Side, volume_lots: int, price_ticks: int, fee: int = 0) -> None:
        """Apply one execution."""
        self._holdings[symbol] = self.holding(symbol).after(side, volume_lots, price_ticks, fee)

    def restate(self, symbol: str, holding: Holding) -> None:
        """Replace the holding of a symbol, one of whose trades is void."""
        self._holdings[symbol] = holding

    def profit(self, symbol: str, mark_ticks: int | None) -> ProfitAndLoss:
        """Return the profit of a symbol with its open position valued at ``mark_ticks`` a lot."""
        holding = self.holding(symbol)
        if mark_ticks is None:
            return ProfitAndLoss(holding.realised, 0, holding.fees)
        return ProfitAndLoss(holding.realised, holding.position_lots * mark_ticks - holding.cost, holding.fees)
