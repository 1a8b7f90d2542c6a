"""Best prices of every symbol, for marks, price bands and sizes; updated by the changes of the view ``best_quote``."""

from __future__ import annotations

from typing import Final

import msgspec

from algo_engine.views.contents import ViewChange

__all__ = ["QUOTE_COLUMNS", "QUOTE_VIEW", "Quote", "Quotes", "mark_ticks"]

QUOTE_VIEW: Final = "best_quote"
"""View with the best prices, which every strategy reads."""
QUOTE_COLUMNS: Final = ("symbol", "bid_price", "bid_volume", "ask_price", "ask_volume")
_WEIGHT: Final = 16
"""Divisor of the difference between the size of a new quote and the typical size, which moves by the quotient."""


class Quote(msgspec.Struct, frozen=True, gc=False):
    """Best bid and ask of one symbol: prices in ticks, volumes in lots."""

    symbol: str
    """Symbol of the instrument."""
    bid_price_ticks: int | None
    """Best bid, None if the side is empty."""
    bid_volume_lots: int
    """Number of visible lots at the best bid."""
    ask_price_ticks: int | None
    """Best ask, None if the side is empty."""
    ask_volume_lots: int
    """Number of visible lots at the best ask."""
    typical_lots: int
    """Moving mean of the visible size at the best prices in lots, at least 1."""

    @property
    def is_two_sided(self) -> bool:
        """True if both sides have lots and the bid is below the ask; False for the last quote of a symbol whose row was
        removed.
        """
        bid, ask = self.bid_price_ticks, self.ask_price_ticks
        has_lots = self.bid_volume_lots > 0 and self.ask_volume_lots > 0
        return has_lots and bid is not None and ask is not None and bid < ask

    @property
    def double_mid_ticks(self) -> int | None:
        """Twice the middle price (an integer); for a one-sided book twice its only price; None for an empty one."""
        bid, ask = self.bid_price_ticks, self.ask_price_ticks
        if bid is None:
            return None if ask is None else 2 * ask
        return 2 * bid if ask is None else bid + ask

    def mark_ticks(self, position_lots: int) -> int | None:
        """Return the price at which a position could be closed: the bid for a long one, the ask for a short one.

        If that side is empty, return the other side's price; None if both sides are empty.
        """
        return mark_ticks(self.bid_price_ticks, self.ask_price_ticks, position_lots)


def mark_ticks(bid: int | None, ask: int | None, position_lots: int) -> int | None:
    """Return the price at which a position could be closed: the bid for a long one, the ask for a short one.

    If that side is empty, return the other side's price; None if both sides are empty.
    """
    near, far = (bid, ask) if position_lots >= 0 else (ask, bid)
    return far if near is None else near


class Quotes:
    """Latest quote of every symbol; a symbol whose row was removed keeps its last prices for marks, with sizes of 0."""

    def __init__(self) -> None:
        self._quotes: dict[str, Quote] = {}

    def apply(self, change: ViewChange) -> None:
        """Apply a change of ``best_quote``."""
        quotes = self._quotes
        added = {row["symbol"] for row in change.added}
        removed = list(quotes) if change.is_snapshot else [row["symbol"] for row in change.removed]
        for symbol in removed:
            if symbol not in added and symbol in quotes:
                quotes[symbol] = msgspec.structs.replace(quotes[symbol], bid_volume_lots=0, ask_volume_lots=0)
        for row in change.added:
            symbol = row["symbol"]
            bid_lots, ask_lots = row["bid_volume"] or 0, row["ask_volume"] or 0
            typical = _typical(quotes.get(symbol), bid_lots, ask_lots)
            quotes[symbol] = Quote(symbol, row["bid_price"], bid_lots, row["ask_price"], ask_lots, typical)

    def get(self, symbol: str) -> Quote | None:
        """Return the latest quote of a symbol, None before the first."""
        return self._quotes.get(symbol)

    def symbols(self) -> list[str]:
        """Return all symbols seen so far, sorted."""
        return sorted(self._quotes)

    def mark_ticks(self, symbol: str, position_lots: int) -> int | None:
        """Return `Quote.mark_ticks` of a symbol's latest quote, None before the first quote."""
        quote = self._quotes.get(symbol)
        return None if quote is None else quote.mark_ticks(position_lots)


def _typical(old: Quote | None, bid_lots: int, ask_lots: int) -> int:
    """Return the mean after one more quote; a side without lots does not count."""
    if not bid_lots and not ask_lots:
        return 1 if old is None else old.typical_lots
    size = (bid_lots + ask_lots) // 2 if bid_lots and ask_lots else bid_lots + ask_lots
    if old is None:
        return max(1, size)
    step = size - old.typical_lots
    # Rounded away from zero, so that the mean reaches a constant size exactly.
    step = -(-step // _WEIGHT) if step > 0 else step // _WEIGHT
    return max(1, old.typical_lots + step)
