"""The newest own trades of all strategies, numbered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from algo_engine.trades import Trade
from deltabook.wire.strategies import FillLine

__all__ = ["FillLog"]


class FillLog:
    """So many trades at most; older ones are forgotten, and their numbers are not used again.

    >>> log = FillLog(capacity=2)
    >>> for volume in (5, 6, 7):
    ...     log.add(Trade(0, 1, "sobi", 9001, "ACME", "B", volume, 100, 1, 1, "maker", 0))
    >>> [(fill.number, fill.volume_lots) for fill in log.after(0, most=9)]
    [(2, 6), (3, 7)]
    """

    def __init__(self, capacity: int, earlier: Iterable[Trade] = ()) -> None:
        """``earlier`` ones, of a run before this, come first."""
        self._fills: deque[FillLine] = deque(maxlen=capacity)
        self.last = 0
        """Number of the newest."""
        for trade in earlier:
            self.add(trade)

    def add(self, trade: Trade) -> None:
        """One more."""
        self.last += 1
        self._fills.append(
            FillLine(
                number=self.last,
                time_ns=trade.time_ns,
                strategy=trade.strategy,
                symbol=trade.symbol,
                side="B" if trade.side == "B" else "S",
                volume_lots=trade.volume_lots,
                price_ticks=trade.price_ticks,
                liquidity=trade.liquidity,
                fee=trade.fee,
                client_id=trade.client_id,
            )
        )

    def after(self, number: int, most: int) -> tuple[FillLine, ...]:
        """The newest ones above a number, oldest first."""
        count = min(most, max(0, self.last - number), len(self._fills))
        return tuple(reversed(list(islice(reversed(self._fills), count))))
