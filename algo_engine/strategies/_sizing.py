"""Sizes and limits of the built-in strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from algo_engine.order import Side
from algo_engine.quotes import Quote

__all__ = ["AtLeastOne", "AtLeastZero", "order_lots", "room_lots", "wants"]

AtLeastOne = Annotated[int, Meta(ge=1, le=2**62)]
AtLeastZero = Annotated[int, Meta(ge=0, le=2**62)]


def wants(symbols: tuple[str, ...], symbol: str) -> bool:
    """Return True if a strategy trades this symbol; no symbols are all symbols."""
    return not symbols or symbol in symbols


def order_lots(given: Mapping[str, int], percent: int, quote: Quote) -> int:
    """The size of one order: as given for the symbol (or ``*``), else a part of the typical size at the touch.

    >>> order_lots({"ACME": 7}, 10, Quote("ACME", 1, 1, 2, 1, typical_lots=500))
    7
    >>> order_lots({}, 10, Quote("ACME", 1, 1, 2, 1, typical_lots=500))
    50
    """
    fixed = given.get(quote.symbol, given.get("*", 0))
    return fixed or max(1, quote.typical_lots * percent // 100)


def room_lots(side: Side, position_lots: int, size_lots: int, position_orders: int) -> int:
    """Return how much of an order of this size the position limit (so many orders' worth) leaves room for.

    >>> room_lots(Side.BUY, 95, 10, 10), room_lots(Side.SELL, 95, 10, 10)
    (5, 10)
    """
    return max(0, min(size_lots, position_orders * size_lots - side.sign * position_lots))
